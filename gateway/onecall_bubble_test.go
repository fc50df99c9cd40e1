package gateway_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// bubble is a gateway without a network, in time that is not waited for. At its end no goroutine
// is left, or the test fails.
type bubble struct {
	*testing.T
	g      *gateway.Gateway
	issuer *locking.LocalIssuer
	store  *storage.Store
	data   *memstore.Backend
	lock   *lockingtest.Flaky
	fence  *lockingtest.FlakyFence
	log    *log

	// Hooks around commits, grants and releases; they call the rest. Set before anything is sent.
	commit  func(ctx context.Context, c storage.Commit, rest func() (storage.Result, error)) (storage.Result, error)
	grant   func(ctx context.Context, r locking.Request, rest func() (locking.Granted, error)) (locking.Granted, error)
	release func(ctx context.Context, t fencing.Token, rest func() (bool, error)) (bool, error)
	evict   func(ctx context.Context, resource string, rest func() error) error
	status  func(ctx context.Context, resource string, rest func() (locking.Status, error)) (locking.Status, error)

	still   atomic.Bool  // the gateway stands still, and renews nothing
	renewed atomic.Int64 // how often it has renewed
}

func inBubble(t *testing.T, play func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, data: memstore.New(nil), log: &log{}}
		var err error
		if b.store, err = storage.New(b.data, nil); err != nil {
			t.Fatal(err)
		}
		b.lock = &lockingtest.Flaky{Backend: memlock.New()}
		b.fence = &lockingtest.FlakyFence{Fence: b.store}
		if b.issuer, err = locking.NewIssuer(b.lock, []fencing.Fence{b.fence}, &locking.IssuerOptions{Poll: 5 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		b.g, err = gateway.New(gateway.Options{
			Issuer: bubbleIssuer{b.issuer, b}, Store: bubbleStore{b.store, b}, Logger: slog.New(slog.NewJSONHandler(b.log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		play(b)
	})
}

type bubbleStore struct {
	gateway.Store
	b *bubble
}

func (s bubbleStore) Commit(ctx context.Context, c storage.Commit) (storage.Result, error) {
	if ctx.Err() != nil {
		s.b.Errorf("a commit was handed to the store whose client had gone")
	}
	rest := func() (storage.Result, error) { return s.Store.Commit(ctx, c) }
	if s.b.commit == nil {
		return rest()
	}
	return s.b.commit(ctx, c, rest)
}

type bubbleIssuer struct {
	locking.Issuer
	b *bubble
}

func (i bubbleIssuer) Grant(ctx context.Context, r locking.Request) (locking.Granted, error) {
	rest := func() (locking.Granted, error) { return i.Issuer.Grant(ctx, r) }
	if i.b.grant == nil {
		return rest()
	}
	return i.b.grant(ctx, r, rest)
}

func (i bubbleIssuer) Renew(ctx context.Context, ttl time.Duration, tokens []fencing.Token) []error {
	if i.b.still.Load() {
		return make([]error, len(tokens))
	}
	i.b.renewed.Add(1)
	return i.Issuer.Renew(ctx, ttl, tokens)
}

func (i bubbleIssuer) Release(ctx context.Context, t fencing.Token) (bool, error) {
	rest := func() (bool, error) { return i.Issuer.Release(ctx, t) }
	if i.b.release == nil {
		return rest()
	}
	return i.b.release(ctx, t, rest)
}

func (i bubbleIssuer) Evict(ctx context.Context, resource string, number int64, reason string) error {
	rest := func() error { return i.Issuer.Evict(ctx, resource, number, reason) }
	if i.b.evict == nil {
		return rest()
	}
	return i.b.evict(ctx, resource, rest)
}

func (i bubbleIssuer) Status(ctx context.Context, resource string) (locking.Status, error) {
	rest := func() (locking.Status, error) { return i.Issuer.Status(ctx, resource) }
	if i.b.status == nil {
		return rest()
	}
	return i.b.status(ctx, resource, rest)
}

// send is one request.
func (b *bubble) send(ctx context.Context, body string, headers ...string) reply {
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, oneCalls, strings.NewReader(body))
	req.Header.Set("Content-Type", wire.TypeJSON)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	b.g.ServeHTTP(rec, req)
	return reply{rec.Code, rec.Header(), rec.Body.String()}
}

// start is send on a goroutine of its own.
func (b *bubble) start(ctx context.Context, body string, headers ...string) <-chan reply {
	out := make(chan reply, 1)
	go func() { out <- b.send(ctx, body, headers...) }()
	return out
}

func (b *bubble) wantStatus(got reply, status int, about string) {
	b.Helper()
	if got.status != status || status >= 400 && !strings.Contains(got.body, wire.Base+about+`"`) {
		b.Errorf("got %d %s, want %d %s", got.status, got.body, status, about)
	}
}

// hold takes a lock as an ordinary holder.
func (b *bubble) hold(resource string, ttl, wait time.Duration) fencing.Token {
	b.Helper()
	g, err := b.issuer.Grant(b.Context(), locking.Request{Resource: resource, TTL: ttl, Wait: wait, Label: "holder"})
	if err != nil {
		b.Fatal(err)
	}
	return g.Token
}

func (b *bubble) free(t fencing.Token) {
	b.Helper()
	if _, err := b.issuer.Release(b.Context(), t); err != nil {
		b.Fatal(err)
	}
}

func (b *bubble) counter(resource string) int64 {
	b.Helper()
	rec, err := b.store.Get(b.Context(), resource, "n")
	if err != nil {
		return 0
	}
	n, _ := storage.ParseCounter(rec.Value)
	return n
}

// wantFree wants nothing to be left of a resource's lock once all goroutines rest: no hold, and
// nobody in line.
func (b *bubble) wantFree(resources ...string) {
	b.Helper()
	synctest.Wait()
	for _, name := range resources {
		st, err := b.issuer.Status(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		if st.Held || st.Waiters != 0 {
			b.Errorf("got %+v, want it free, and nobody waiting", st)
		}
	}
}

// once is a sync.Once that keeps nobody waiting: in a bubble, who waits for a mutex stops time.
type once struct{ done atomic.Bool }

func (o *once) again() bool { return o.done.Swap(true) }
