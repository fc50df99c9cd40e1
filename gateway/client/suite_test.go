package client_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
	"github.com/fencegate/fencegate/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a gateway over a lock store and a store in memory, served on loopback.
type rig struct {
	*client.Client
	url    string
	issuer *locking.LocalIssuer
	store  *storage.Store
}

// replicas returns n gateways over one lock store and one store, which know one API key. Their
// issuers are their own.
func replicas(tb testing.TB, n int, mode fencing.Mode, wrap func(i int, h http.Handler) http.Handler) *fleet {
	tb.Helper()
	store, err := storage.New(memstore.New(nil), &storage.Options{Mode: mode})
	if err != nil {
		tb.Fatal(err)
	}
	f := &fleet{store: store}
	locks := memlock.New()
	for i := range n {
		feed, err := gateway.NewFeed(16)
		if err != nil {
			tb.Fatal(err)
		}
		issuer, err := locking.NewIssuer(locks, []fencing.Fence{store}, &locking.IssuerOptions{Poll: 5 * time.Millisecond, OnEvent: feed.Add})
		if err != nil {
			tb.Fatal(err)
		}
		g, err := gateway.New(gateway.Options{Issuer: issuer, Store: store, Timeout: time.Minute, Keys: ring{}, Feed: feed})
		if err != nil {
			tb.Fatal(err)
		}
		h := http.Handler(g)
		if wrap != nil {
			h = wrap(i, h)
		}
		srv := httptest.NewServer(h)
		tb.Cleanup(srv.Close)
		f.issuer, f.gateways, f.urls = issuer, append(f.gateways, g), append(f.urls, srv.URL)
	}
	return f
}

type fleet struct {
	gateways []*gateway.Gateway
	urls     []string
	issuer   *locking.LocalIssuer // of the last one
	store    *storage.Store
}

// client returns one that begins with the first of the urls.
func (f *fleet) client(tb testing.TB, o client.Options, urls ...string) *client.Client {
	tb.Helper()
	o.APIKey, o.Others = apiKey, urls[1:]
	c, err := client.New(urls[0], patient(o))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

const apiKey = "fg_CANARY.0123456789abcdef"

// ring knows one key.
type ring struct{}

func (ring) Find(text string) (apikey.Key, bool) {
	return apikey.Key{ID: "tester", Scopes: apikey.All}, text == apiKey
}

// patient returns options whose times, where the test has set none, are none that a busy machine exceeds.
func patient(o client.Options) *client.Options {
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.Cleanup == 0 {
		o.Cleanup = time.Minute
	}
	return &o
}

// dead returns the address of nobody, which no other test gets meanwhile.
func dead(tb testing.TB) string {
	tb.Helper()
	return "http://" + testenv.FreeAddress(tb)
}

// setup is what a rig is made of; the zero value is the plain one.
type setup struct {
	mode   fencing.Mode
	wrap   func(http.Handler) http.Handler // around the gateway
	issuer func(locking.Issuer) locking.Issuer
	store  func(gateway.Store) gateway.Store
	client client.Options
}

func newRig(tb testing.TB, s setup) *rig {
	tb.Helper()
	store, err := storage.New(memstore.New(nil), &storage.Options{Mode: s.mode})
	if err != nil {
		tb.Fatal(err)
	}
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, &locking.IssuerOptions{Poll: 5 * time.Millisecond})
	if err != nil {
		tb.Fatal(err)
	}
	o := gateway.Options{Issuer: issuer, Store: store, Timeout: time.Minute}
	if s.issuer != nil {
		o.Issuer = s.issuer(issuer)
	}
	if s.store != nil {
		o.Store = s.store(store)
	}
	g, err := gateway.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	h := checked(tb, g)
	if s.wrap != nil {
		h = s.wrap(h)
	}
	srv := httptest.NewServer(h)
	tb.Cleanup(srv.Close)
	c, err := client.New(srv.URL, patient(s.client))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return &rig{Client: c, url: srv.URL, issuer: issuer, store: store}
}

func storeHarness() storagetest.Harness {
	return storagetest.Harness{
		New: func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
			r := newRig(tb, setup{mode: mode})
			return storagetest.Subject{Store: r.Store(), Fence: r.store}
		},
		Checks: 10,
	}
}

func TestStoreSuite(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storeHarness())
}

// TestStoreSuiteOfAFleet: the first base URL is dead, the others are replicas that want a key.
func TestStoreSuiteOfAFleet(t *testing.T) {
	t.Parallel()
	h := storeHarness()
	h.Checks = 3
	h.New = func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
		f := replicas(tb, 2, mode, nil)
		c := f.client(tb, client.Options{}, dead(tb), f.urls[0], f.urls[1])
		return storagetest.Subject{Store: c.Store(), Fence: f.store}
	}
	storagetest.Run(t, h)
}

func TestStoreDifferential(t *testing.T) {
	t.Parallel()
	storagetest.Differential(t, storeHarness())
}

func TestIssuerSuiteOfAFleet(t *testing.T) {
	t.Parallel()
	lockingtest.RunIssuer(t, lockingtest.IssuerHarness{
		New: func(tb testing.TB) (locking.Issuer, []fencing.Fence) {
			f := replicas(tb, 2, fencing.Strict, nil)
			return f.client(tb, client.Options{}, dead(tb), f.urls[0], f.urls[1]).Issuer(), []fencing.Fence{f.store}
		},
		Unique: testenv.Unique,
	})
}

func TestIssuerSuite(t *testing.T) {
	t.Parallel()
	lockingtest.RunIssuer(t, lockingtest.IssuerHarness{
		New: func(tb testing.TB) (locking.Issuer, []fencing.Fence) {
			r := newRig(tb, setup{})
			return r.Issuer(), []fencing.Fence{r.store}
		},
		Unique: testenv.Unique,
	})
}
