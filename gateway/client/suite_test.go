package client_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
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
	var h http.Handler = g
	if s.wrap != nil {
		h = s.wrap(g)
	}
	srv := httptest.NewServer(h)
	tb.Cleanup(srv.Close)
	c, err := client.New(srv.URL, &s.client)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return &rig{Client: c, url: srv.URL, issuer: issuer, store: store}
}

func storeHarness() storagetest.Harness {
	return storagetest.Harness{
		New: func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
			// The suite's own patience ends first, also on a machine that is busy.
			r := newRig(tb, setup{mode: mode, client: client.Options{Timeout: time.Minute}})
			return storagetest.Subject{Store: r.Store(), Fence: r.store}
		},
		Checks: 10,
	}
}

func TestStoreSuite(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, storeHarness())
}

func TestStoreDifferential(t *testing.T) {
	t.Parallel()
	storagetest.Differential(t, storeHarness())
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
