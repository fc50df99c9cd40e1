package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// stage is a session's gateway: a real one over the lab's lock and store, under the rules of a mode.
type stage struct {
	lock    locking.Backend
	store   *storage.Store
	issuer  *locking.LocalIssuer
	gateway *gateway.Gateway
	handler http.Handler // the gateway, behind what defeats it where the mode says so
	secret  string       // the key by which the session gets in
}

// The limits of a session's gateway: enough to play, too little to be a burden.
const (
	maxValue   = 256 // bytes
	maxOps     = 4
	maxBody    = 16 << 10 // bytes
	maxWait    = 15 * time.Minute
	maxWaiters = 16
)

func newStage(lock locking.Backend, store storage.Backend, mode Mode, prefix string, on func(fencing.Event)) (*stage, error) {
	rule := fencing.Strict
	if mode == ModeWrites {
		rule = fencing.Classic
	}
	s := &stage{lock: lock, secret: fencing.NewGrant()}
	var err error
	if s.store, err = storage.New(store, &storage.Options{Mode: rule, MaxValue: maxValue, MaxOps: maxOps, OnEvent: on}); err != nil {
		return nil, err
	}
	var fences []fencing.Fence
	switch mode {
	case ModeGrant:
		fences = []fencing.Fence{s.store}
	case ModeNone, ModeLock:
		fences = []fencing.Fence{unretired{s.store}}
	case ModeWrites: // the store is not told
	}
	if s.issuer, err = locking.NewIssuer(lock, fences, &locking.IssuerOptions{MaxWaiters: maxWaiters, OnEvent: on}); err != nil {
		return nil, err
	}
	if s.gateway, err = gateway.New(gateway.Options{
		Issuer: s.issuer, Store: s.store, Keys: ring{s.secret, prefix},
		MaxValue: maxValue, MaxBody: maxBody, MaxReply: 64 << 10, MaxBodies: 1 << 20,
		MaxWait: maxWait, Timeout: 10 * time.Second,
		Rate: 200, MaxInFlight: 32, MaxWaiting: maxWaiters, MaxStreams: 4,
	}); err != nil {
		return nil, err
	}
	s.handler = s.gateway
	if mode == ModeNone || mode == ModeLock {
		s.handler = &currentToken{next: s.gateway, store: s.store, prefix: prefix}
	}
	return s, nil
}

// ring knows one key: the session's, which covers the session's resources.
type ring struct{ secret, prefix string }

// Find implements apikey.Ring. The secret never leaves the process, so there is nothing to time.
func (r ring) Find(text string) (apikey.Key, bool) {
	return apikey.Key{ID: "lab", Scopes: apikey.All, Prefixes: []string{r.prefix}}, text == r.secret
}

// unretired is the store where its check is defeated: there is always a token that is good, because
// none is ever ended.
type unretired struct{ *storage.Store }

// Retire implements fencing.Fence.
func (unretired) Retire(context.Context, fencing.Token) error { return nil }

// Evict implements fencing.Fence.
func (unretired) Evict(context.Context, fencing.Token) error { return nil }

// currentToken is the well-known mistake of a "current token" getter, in front of a real gateway over
// a real store: whoever writes gets a token that is good now, instead of having to show its own. The
// store checks, and its check means nothing. It touches no resource but the session's.
type currentToken struct {
	next   http.Handler
	store  *storage.Store
	prefix string
}

// ServeHTTP implements http.Handler.
func (c *currentToken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPut || r.Method == http.MethodDelete:
		c.record(r)
	case r.Method == http.MethodPost && r.URL.EscapedPath() == commitsPath:
		c.commit(r)
	}
	c.next.ServeHTTP(w, r) // what could not be read is the gateway's to refuse
}

// record puts a good token on a write of one record.
func (c *currentToken) record(r *http.Request) {
	parts := strings.Split(r.URL.EscapedPath(), "/") // "", v1, resources, R, records, KEY
	if len(parts) != 6 || parts[1] != "v1" || parts[2] != "resources" || parts[4] != "records" {
		return
	}
	name, err := url.PathUnescape(parts[3])
	if err != nil {
		return
	}
	if t, ok := c.current(r.Context(), name); ok {
		r.Header.Set(wire.HeaderToken, t.Text())
	}
}

// commit puts good tokens on a commit, for every resource that it touches.
func (c *currentToken) commit(r *http.Request) {
	m, ok := peek(r)
	if !ok || m.Lock != nil {
		return
	}
	names := named(m)
	m.Tokens = nil
	for _, name := range names {
		t, ok := c.current(r.Context(), name)
		if !ok {
			return
		}
		m.Tokens = append(m.Tokens, wire.Token{Resource: name, Token: t.Text()})
	}
	if body, err := json.Marshal(m); err == nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
}

// current returns the token that is the mark, or makes one where it has ended.
func (c *currentToken) current(ctx context.Context, name string) (fencing.Token, bool) {
	if !strings.HasPrefix(name, c.prefix) || fencing.ValidateResource(name) != nil {
		return fencing.Token{}, false
	}
	m, err := c.store.Mark(ctx, name)
	if err != nil {
		return fencing.Token{}, false
	}
	t := fencing.Token{Resource: name, Number: m.Number, Grant: m.Grant}
	if m.Retired {
		t = fencing.Token{Resource: name, Number: m.Number + 1, Grant: fencing.NewGrant()}
		err = c.store.Raise(ctx, t)
	}
	return t, err == nil
}
