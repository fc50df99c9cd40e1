package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// TestRollingRestart: three replicas are restarted one after the other, as a program does it that
// drains first, under clients that lock, read, write without an idempotency key, and release. No
// call fails, no lease is lost, and every update counts.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	store, err := storage.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	locks := memlock.New()
	type server struct {
		*http.Server
		gateway *gateway.Gateway
		done    chan struct{}
	}
	serve := func(addr string) (*server, string) {
		t.Helper()
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		issuer, err := locking.NewIssuer(locks, []fencing.Fence{store}, &locking.IssuerOptions{Poll: 5 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		g, err := gateway.New(gateway.Options{Issuer: issuer, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		s := &server{&http.Server{Handler: g}, g, make(chan struct{})}
		go func() { defer close(s.done); _ = s.Serve(ln) }()
		return s, ln.Addr().String()
	}
	var servers [3]*server
	var addrs [3]string
	for i := range servers {
		servers[i], addrs[i] = serve("127.0.0.1:0")
	}
	defer func() {
		for _, s := range servers {
			_ = s.Close()
			<-s.done
		}
	}()

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait() // also after a failure: a client must not report to a test that is over
	defer cancel()
	var updates atomic.Int64
	for w := range 8 { // each client prefers another replica
		c, err := client.New("http://"+addrs[w%3], &client.Options{Others: []string{"http://" + addrs[(w+1)%3], "http://" + addrs[(w+2)%3]}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l, err := locking.New(c.Issuer(), &locking.Options{TTL: 15 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				err := l.Do(t.Context(), "coupon:42", func(ctx context.Context, tok fencing.Token) error {
					rec, err := c.Store().GetFenced(ctx, tok, "n")
					if err != nil && !errors.Is(err, storage.ErrNotFound) {
						return err
					}
					n, _ := storage.ParseCounter(rec.Value)
					_, err = c.Store().Put(ctx, tok, "n", storage.Counter(n+1))
					return err
				})
				if err != nil {
					t.Errorf("after %d updates: %v", updates.Load(), err)
				}
				updates.Add(1)
				if _, err := c.Store().Get(t.Context(), "coupon:42", "n"); err != nil {
					t.Errorf("Get: %v", err)
				}
			}
		})
	}
	work := func() {
		t.Helper()
		before := updates.Load()
		until(t, func() bool { return updates.Load() >= before+50 })
	}
	for i, s := range servers {
		work()
		s.gateway.Drain()
		work()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-s.done
		servers[i], _ = serve(addrs[i])
	}
	work()
	cancel()
	wg.Wait()
	rec, err := store.Get(t.Context(), "coupon:42", "n")
	if n, _ := storage.ParseCounter(rec.Value); err != nil || n != updates.Load() {
		t.Errorf("got %d after %d updates, %v", n, updates.Load(), err)
	}
}
