package story

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// stage is a gateway over the setup's lock and store, under a mode's rules.
type stage struct {
	url    string
	store  *storage.Store
	issuer *locking.LocalIssuer
	server *http.Server
	served chan error
}

func newStage(ctx context.Context, setup Setup, mode Mode, on func(fencing.Token)) (*stage, error) {
	rule := fencing.Classic
	if mode.RaiseAtGrant || !mode.Locked {
		rule = fencing.Strict
	}
	s := &stage{served: make(chan error, 1)}
	var err error
	if s.store, err = storage.New(setup.Store, &storage.Options{Mode: rule}); err != nil {
		return nil, err
	}
	var fences []fencing.Fence
	if rule == fencing.Strict {
		fences = append(fences, heard{s.store, on})
	}
	if s.issuer, err = locking.NewIssuer(setup.Lock, fences, nil); err != nil {
		return nil, err
	}
	var handler http.Handler
	if handler, err = gateway.New(gateway.Options{Issuer: s.issuer, Store: s.store}); err != nil {
		return nil, err
	}
	if mode.Defeated {
		handler = currentToken(handler, s.store)
	}
	addr := setup.Listen
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("the gateway cannot listen: %w", err)
	}
	s.url = "http://" + l.Addr().String()
	s.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { s.served <- s.server.Serve(l) }()
	return s, nil
}

// heard tells of the raises that a store has accepted.
type heard struct {
	fencing.Fence
	on func(fencing.Token)
}

func (h heard) Raise(ctx context.Context, t fencing.Token) error {
	err := h.Fence.Raise(ctx, t)
	if err == nil {
		h.on(t)
	}
	return err
}

func (s *stage) close() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// seed puts the coupons into the store, under the number before the first client's.
func (s *stage) seed(ctx context.Context, resource string) error {
	g, err := s.issuer.Grant(ctx, locking.Request{
		Resource: resource, Label: "seed", TTL: 10 * time.Second, Floor: firstNumber - 2,
	})
	if err != nil {
		return err
	}
	if _, err := s.store.Put(ctx, g.Token, key, storage.Counter(Initial)); err != nil {
		return err
	}
	_, err = s.issuer.Release(ctx, g.Token)
	return err
}

// currentToken is the well-known mistake of a "current token" getter, in front of a real
// gateway over a real store: whoever writes gets a token that is good now, instead of
// having to show its own. The store checks, and its check means nothing.
func currentToken(next http.Handler, store *storage.Store) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("PUT /v1/resources/{resource}/records/{key}", func(w http.ResponseWriter, r *http.Request) {
		t, err := current(r.Context(), store, r.PathValue("resource"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		r.Header.Set("Fencing-Token", t.Text())
		next.ServeHTTP(w, r)
	})
	return mux
}

// current returns the token that is the mark, or makes one where it has ended.
func current(ctx context.Context, store *storage.Store, resource string) (fencing.Token, error) {
	m, err := store.Mark(ctx, resource)
	if err != nil {
		return fencing.Token{}, err
	}
	t := fencing.Token{Resource: resource, Number: m.Number, Grant: m.Grant}
	if m.Retired {
		t = fencing.Token{Resource: resource, Number: m.Number + 1, Grant: fencing.NewGrant()}
		err = store.Raise(ctx, t)
	}
	return t, err
}
