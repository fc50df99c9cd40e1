package pglock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
)

// listening returns the servers' processes that listen.
func listening(tb testing.TB, owner *pgxpool.Pool) []int32 {
	tb.Helper()
	rows, err := owner.Query(tb.Context(), "select pid from pg_stat_activity where datname = current_database() and query like 'listen %'")
	if err != nil {
		tb.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		tb.Fatal(err)
	}
	return pids
}

// gate opens connections that listen while it is open, and counts the attempts.
type gate struct {
	url      string
	mu       sync.Mutex
	attempts int
	closed   bool
}

var errClosed = errors.New("the gate is closed")

func (g *gate) listen(ctx context.Context) (*pgx.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.attempts++
	if g.closed {
		return nil, errClosed
	}
	return pgx.Connect(ctx, g.url)
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.attempts
}

func gated(tb testing.TB) (b *pglock.Backend, g *gate, owner *pgxpool.Pool) {
	tb.Helper()
	url := pgtxtest.NewDatabase(tb)
	g = &gate{url: url}
	b, err := pglock.New(tb.Context(), pgtxtest.Open(tb, url, gateway), &pglock.Options{Listen: g.listen})
	if err != nil {
		tb.Fatal(err)
	}
	return b, g, pgtxtest.Open(tb, url)
}

// TestListeningEnds: it begins when somebody has to wait, and one second after the last one left
// there is no connection and no goroutine.
//
//nolint:paralleltest // it looks at all goroutines
func TestListeningEnds(t *testing.T) {
	before := goleak.IgnoreCurrent()
	b, g, owner := gated(t)
	r := request(t)
	w := newWaiter(b, r)
	release(t, b, w.granted(t, 1, true).Token)
	tok := acquire(t, b, next(r)).Token
	if g.count() != 0 || len(listening(t, owner)) != 0 {
		t.Error("somebody listens although nobody waited")
	}
	first, second := newWaiter(b, r).takesPlace(t), newWaiter(b, r).takesPlace(t)
	first.woken(t)
	if got := listening(t, owner); len(got) != 1 || g.count() != 1 {
		t.Errorf("%d connections listen, %d were opened, want one for all", len(got), g.count())
	}
	if err := b.Leave(t.Context(), first.Request); err != nil {
		t.Fatal(err)
	}
	time.Sleep(locking.LookEvery + 300*time.Millisecond) // the second still waits
	if got := listening(t, owner); len(got) != 1 {
		t.Errorf("%d connections listen while somebody waits, want 1", len(got))
	}
	release(t, b, tok)
	second.woken(t)
	left := time.Now()
	tok = second.granted(t, 3, true).Token
	time.Sleep(100 * time.Millisecond) // much less than the second
	third := newWaiter(b, r).takesPlace(t)
	soon := time.Since(left) < locking.LookEvery // a busy machine may take longer
	time.Sleep(200 * time.Millisecond)           // for a connection that should not come
	if err := b.Leave(t.Context(), third.Request); err != nil {
		t.Fatal(err)
	}
	opened := g.count()
	if soon && opened != 1 {
		t.Errorf("%d connections were opened, want that the first one lingers", opened)
	}
	testenv.Eventually(t, testPatience, "nobody listens", func() bool { return len(listening(t, owner)) == 0 })

	// And again.
	fourth := newWaiter(b, r).takesPlace(t)
	fourth.woken(t)
	if _, err := b.Transfer(t.Context(), tok, fourth.Request); err != nil { // which ends its wait
		t.Fatal(err)
	}
	testenv.Eventually(t, testPatience, "nobody listens", func() bool { return len(listening(t, owner)) == 0 })
	if got := g.count() - opened; got != 1 {
		t.Errorf("%d connections were opened for the fourth, want 1", got)
	}
	if err := goleak.Find(append(testenv.Goroutines(), before, goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"),
		goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgxpool.NewWithConfig.func3"))...); err != nil {
		t.Error(err)
	}
}

// TestWordIsLost: the connection that listens is cut, and no new one comes about. Who was
// given the lock meanwhile finds out by its own look.
func TestWordIsLost(t *testing.T) {
	t.Parallel()
	b, g, owner := gated(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	w := newWaiter(b, r).takesPlace(t)
	w.woken(t)
	g.set(true)
	exec(t, owner, "select pg_terminate_backend($1, 10000)", listening(t, owner)[0])
	granted := make(chan struct{})
	joined := make(chan struct{})
	go func() {
		w.held(t)
		close(joined)
		select {
		case <-w.wake:
			t.Error("somebody was woken")
		case <-time.After(locking.LookEvery):
		}
		h, _, err := w.wait(t.Context())
		if err != nil || h.Token.Number != 2 {
			t.Errorf("got %v, %v, want number 2", h.Token, err)
		}
		close(granted)
	}()
	<-joined
	release(t, b, tok)
	<-granted

	// It goes on trying, and when it listens again it wakes those who wait.
	other := newWaiter(b, r).takesPlace(t)
	g.set(false)
	other.woken(t)
	release(t, b, fencing.Token{Resource: r.Resource, Number: 2, Grant: w.Grant})
	other.woken(t)
	other.granted(t, 3, true)
}

// TestNobodyListens: by order, or because it is not possible. Waiters look.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*pglock.Options{
		"by order":      {NoListen: true},
		"error":         {Listen: func(context.Context) (*pgx.Conn, error) { return nil, errClosed }},
		"no connection": {Listen: func(context.Context) (*pgx.Conn, error) { return nil, nil }}, //nolint:nilnil // somebody will
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtxtest.NewDatabase(t)
			owner := pgtxtest.Open(t, url)
			b, err := pglock.New(t.Context(), pgtxtest.Open(t, url, gateway), o)
			if err != nil {
				t.Fatal(err)
			}
			r := request(t)
			tok := acquire(t, b, r).Token
			w := newWaiter(b, r).takesPlace(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				h, calls, err := w.wait(t.Context())
				if err != nil || h.Token.Number != 2 || calls > 10 {
					t.Errorf("got %v, %v after %d calls, want number 2 after a few", h.Token, err, calls)
				}
			}()
			release(t, b, tok)
			<-done
			if got := listening(t, owner); len(got) != 0 {
				t.Errorf("%d connections listen", len(got))
			}
		})
	}
	pool := pgtxtest.Open(t, pgtxtest.Database(t))
	both := &pglock.Options{NoListen: true, Listen: func(context.Context) (*pgx.Conn, error) { return nil, errClosed }}
	if _, err := pglock.New(t.Context(), pool, both); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("both: got %v, want ErrInvalid", err)
	}
}

// TestListensLikeThePool: what a pool does before it connects is done for the connection that
// listens, too; a password that changes is set there.
func TestListensLikeThePool(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	names := map[string]bool{}
	b, owner := own(t, func(c *pgxpool.Config) {
		c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			mu.Lock()
			defer mu.Unlock()
			c.RuntimeParams["application_name"] = "before"
			names[c.Database] = true
			return nil
		}
	})
	r := request(t)
	acquire(t, b, r)
	newWaiter(b, r).takesPlace(t).woken(t)
	var name string
	if err := owner.QueryRow(t.Context(), "select application_name from pg_stat_activity where pid = $1", listening(t, owner)[0]).Scan(&name); err != nil || name != "before" {
		t.Errorf("got the application name %q, %v", name, err)
	}
}

// TestWarnings looks at the shared server, which runs without fsync.
func TestWarnings(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" })
	list, err := b.Warnings(t.Context())
	if err != nil || len(list) != 2 || list[0][:12] != "fsync is off" || list[1][:23] != "full_page_writes is off" {
		t.Errorf("got %q, %v, want fsync and full_page_writes", list, err)
	}
}
