package pglock_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
)

// TestRowLockEndsNoneWhoWait: a hold is ended from elsewhere while it ends by itself. Those who
// waited for its transaction have a lock on its id for a moment, and keep their sessions.
func TestRowLockEndsNoneWhoWait(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url, func(c *pgxpool.Config) { c.MaxConns = 12 })
	b := rowLocks(t, url)
	r := request(t)
	for n, begin := 0, time.Now(); time.Since(begin) < 2*time.Second && !t.Failed(); n++ {
		h, err := b.TryAcquire(t.Context(), next(r))
		if err != nil { // the pool's connection was ended after its hold, or a row is still locked
			continue
		}
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				_, err := owner.Exec(t.Context(), "select from fencegate.row_locks where resource = $1 for share", r.Resource)
				if err != nil {
					t.Errorf("run %d: one who waited: %v", n, err)
				}
			})
		}
		testenv.Eventually(t, testPatience, "they wait", func() bool {
			var waiting int
			_ = owner.QueryRow(t.Context(), "select count(*) from pg_locks where not granted and transactionid is not null and pid in (select pid from pg_stat_activity where datname = current_database())").Scan(&waiting)
			return waiting == 6
		})
		for range 3 {
			wg.Go(func() {
				_, err := owner.Exec(t.Context(), "select fencegate.row_end($1, $2, $3)", r.Resource, h.Token.Number, h.Token.Grant)
				if err != nil {
					t.Errorf("run %d: end: %v", n, err)
				}
			})
		}
		time.Sleep(time.Duration(n%20) * 30 * time.Microsecond)
		_, _ = b.Release(t.Context(), h.Token)
		wg.Wait()
	}
}

// unblocked has whoever is first in the line for a row give up, 0.8 s after waits began.
func unblocked(t *testing.T, owner *pgxpool.Pool, waits time.Time, pid uint32) {
	t.Helper()
	time.Sleep(time.Until(waits.Add(800 * time.Millisecond)))
	exec(t, owner, "select pg_cancel_backend($1)", pid)
}

// TestRowLockWaitsOnce: in the server's line it waits for one lock after another, a second for all
// of them.
func TestRowLockWaitsOnce(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url)
	a, b := rowLocks(t, url), rowLocks(t, url)
	r := request(t)
	acquire(t, a, r)
	took := time.Hour
	for try := 0; try < 10 && took > locking.LookEvery+500*time.Millisecond; try++ { // on a busy machine anything takes long
		first, err := owner.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pid := first.Conn().PgConn().PID()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := first.Exec(t.Context(), "select from fencegate.row_locks where resource = $1 for update", r.Resource)
			if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "57014" {
				t.Errorf("the first in line: got %v, want that it is cancelled", err)
			}
		})
		testenv.Eventually(t, testPatience, "the first waits", func() bool {
			var waiting bool
			_ = owner.QueryRow(t.Context(), "select exists (select from pg_locks where not granted and pid = $1)", pid).Scan(&waiting)
			return waiting
		})
		start := time.Now()
		wg.Go(func() { unblocked(t, owner, start, pid) })
		if _, err := b.Join(t.Context(), next(r), nil); !errors.Is(err, locking.ErrHeld) {
			t.Errorf("got %v, want held", err)
		}
		took = time.Since(start)
		wg.Wait()
		first.Release()
	}
	if took > locking.LookEvery+500*time.Millisecond {
		t.Errorf("it waited for %v, want %v", took, locking.LookEvery)
	}
}

// TestRoleHasTimeouts that are shorter than a waiting request waits.
func TestRoleHasTimeouts(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url)
	short := func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["statement_timeout"] = "300" }
	leases, rows := backend(t, pgtxtest.Open(t, url, gateway, short)), rowLocks(t, url, short)
	lease, row := request(t), request(t)
	acquire(t, leases, lease)
	end := hold(t, owner, lease.Resource)
	defer end()
	acquire(t, rowLocks(t, url), row)
	for name, c := range map[string]struct {
		b locking.Waiter
		r locking.Request
	}{"leases": {leases, lease}, "row locks": {rows, row}} {
		start := time.Now()
		_, err := c.b.Join(t.Context(), next(c.r), func() {})
		if took := time.Since(start); !errors.Is(err, locking.ErrHeld) || took < locking.LookEvery {
			t.Errorf("%s: got %v after %v, want held after %v", name, err, took, locking.LookEvery)
		}
	}
}

// halfOpen is a connection that the server goes on having when its process has lost it.
type halfOpen struct {
	net.Conn
	lost *atomic.Bool
}

func (c halfOpen) Write(p []byte) (int, error) {
	if c.lost.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c halfOpen) Close() error {
	if c.lost.Load() {
		return nil
	}
	return c.Conn.Close()
}

// TestRowLockServerHasNotNoticed that a hold's connection is lost. For its grant the hold has
// ended, for others it lasts until the server ends it.
func TestRowLockServerHasNotNoticed(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	var lost atomic.Bool
	a := rowLocks(t, url, func(c *pgxpool.Config) {
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil || lost.Load() {
				return conn, err
			}
			t.Cleanup(func() { _ = conn.Close() })
			return halfOpen{conn, &lost}, nil
		}
	})
	b := rowLocks(t, url)
	r := request(t)
	r.TTL = 5 * time.Second // for what is asked before the server ends it
	h := acquire(t, a, r)
	lost.Store(true)
	if err := a.Renew(t.Context(), r.TTL, []fencing.Token{h.Token})[0]; !errors.Is(err, locking.ErrLost) {
		t.Errorf("renew: got %v, want ErrLost", err)
	}
	if _, err := b.TryAcquire(t.Context(), next(r)); !errors.Is(err, locking.ErrHeld) {
		t.Errorf("another grant: got %v, want held", err)
	}
	if again, err := a.TryAcquire(t.Context(), r); !errors.Is(err, locking.ErrLost) {
		t.Errorf("the same grant: got %v, %v, want ErrLost", again.Token, err)
	}
	testenv.Eventually(t, r.TTL+testPatience, "the server ends it", func() bool {
		_, err := b.TryAcquire(t.Context(), next(r))
		return err == nil
	})
}
