package pgstore_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// noSync is for tests that kill: the page cache survives that, so what the server has written
// is there with fsync and without, and what it has not is lost with both.
var noSync = &testenv.PostgresOptions{NoSync: true}

// start returns a private server with a migrated database.
func start(tb testing.TB, o *testenv.PostgresOptions) (server *testenv.Postgres, url string) {
	tb.Helper()
	server = testenv.StartPostgres(tb, o)
	url = server.NewDatabase(tb)
	if err := pgtxtest.Migrate(url); err != nil {
		tb.Fatal(err)
	}
	return server, url
}

func answers(tb testing.TB, b fencing.Fence) {
	tb.Helper()
	testenv.Eventually(tb, 20*time.Second, "the server answers", func() bool {
		_, err := b.Mark(tb.Context(), "r")
		return err == nil
	})
}

// wantEnded asks every operation whether a token of an earlier incarnation is over.
func wantEnded(tb testing.TB, b *pgstore.Backend, t fencing.Token) {
	tb.Helper()
	_, err := b.GetFenced(tb.Context(), t, "k")
	wantStale(tb, err, fencing.Retired)
	wantStale(tb, put(tb.Context(), b, t, "k", "stale"), fencing.Retired)
	wantStale(tb, b.Raise(tb.Context(), t), fencing.Retired)
	wantStale(tb, b.Update(tb.Context(), func(pgx.Tx) error { tb.Error("fn was called"); return nil }, t), fencing.Retired)
	if err := b.Retire(tb.Context(), t); err != nil {
		tb.Errorf("retire: %v", err)
	}
	if m, err := b.Mark(tb.Context(), t.Resource); err != nil || m.Number != t.Number || !m.Retired {
		tb.Errorf("got the mark %v, %v, want %d (retired)", m, err, t.Number)
	}
}

// TestRestart: a restart, clean or not, ends every token, and keeps numbers and data.
func TestRestart(t *testing.T) {
	t.Parallel()
	server, url := start(t, noSync)
	b := backend(t, pgtxtest.Open(t, url), nil)
	tok := raise(t, b, "r", 33)
	if err := put(t.Context(), b, tok, "k", "v"); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	answers(t, b)
	wantEnded(t, b, tok)
	if got := get(t, b, "r", "k"); got != "v" {
		t.Errorf("got %s, want v", got)
	}
	wantStale(t, b.Raise(t.Context(), token("r", 32)), fencing.Superseded)
	if err := put(t.Context(), b, raise(t, b, "r", 34), "k", "w"); err != nil {
		t.Errorf("a new token: %v", err)
	}
}

// TestPromotion: a standby serves nothing, and when it takes over, the timeline ends every
// token, although its own start is older than they are.
func TestPromotion(t *testing.T) {
	t.Parallel()
	primary, url := start(t, noSync)
	standby := testenv.StartPostgres(t, &testenv.PostgresOptions{StandbyOf: primary, NoSync: true})
	first := pgtxtest.Open(t, url)
	there := pgtxtest.Open(t, strings.Replace(url, primary.Addr(), standby.Addr(), 1))
	if _, err := pgstore.New(t.Context(), there, nil); !errors.Is(err, pgstore.ErrStandby) {
		t.Errorf("New on a standby: got %v, want ErrStandby", err)
	}
	// A pool that follows the primary by a list of hosts comes to the standby by itself.
	host, port, _ := strings.Cut(standby.Addr(), ":")
	n, _ := strconv.Atoi(port)
	var mu sync.Mutex
	over := false
	moving := pgtxtest.Open(t, url, func(c *pgxpool.Config) {
		c.BeforeConnect = func(_ context.Context, cc *pgx.ConnConfig) error {
			mu.Lock()
			defer mu.Unlock()
			if over {
				cc.Host, cc.Port = host, uint16(n)
			}
			return nil
		}
	})
	b := backend(t, moving, nil)
	tok := raise(t, backend(t, first, nil), "r", 33)
	if err := put(t.Context(), b, tok, "k", "v"); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 20*time.Second, "the standby has the write", func() bool {
		var value []byte
		err := there.QueryRow(t.Context(), "select value from fencegate.records").Scan(&value)
		return err == nil && string(value) == "v"
	})
	mu.Lock()
	over = true
	mu.Unlock()
	moving.Reset()
	_, fenced := b.GetFenced(t.Context(), tok, "k")
	_, plain := b.Get(t.Context(), "r", "k")
	_, absent := b.Get(t.Context(), "r", "none")
	_, listed := b.List(t.Context(), "r", "", "", 10)
	_, mark := b.Mark(t.Context(), "r")
	for what, err := range map[string]error{
		"fenced read": fenced, "get": plain, "get of nothing": absent, "list": listed, "mark": mark,
		"commit": put(t.Context(), b, tok, "k", "x"), "raise": b.Raise(t.Context(), token("r", 34)),
	} {
		if fencing.OutcomeOf(err) != fencing.Failed {
			t.Errorf("%s on a standby: got %v, want failed", what, err)
		}
	}
	primary.Kill()
	if _, err := there.Exec(t.Context(), "select pg_promote()"); err != nil {
		t.Fatal(err)
	}
	answers(t, b)
	wantEnded(t, b, tok)
	if got := get(t, b, "r", "k"); got != "v" {
		t.Errorf("got %s, want v", got)
	}
}

// TestKill kills the server in the middle of commits, again and again. What was applied is
// there, what failed or was refused is not.
func TestKill(t *testing.T) {
	t.Parallel()
	server, url := start(t, noSync)
	b := backend(t, pgtxtest.Open(t, url), nil)
	var mu sync.Mutex
	applied, unknown := 0, 0
	for round := range int64(3) {
		tok := raise(t, b, "r", round+1)
		var wg sync.WaitGroup
		stop := make(chan struct{})
		first := make(chan struct{})
		var once sync.Once
		for range 8 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					err := b.Apply(t.Context(), []storage.Commit{{
						Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add("r", "n", 1, 0)},
					}})[0].Err
					if err != nil { // it comes back sooner if it has the machine
						time.Sleep(10 * time.Millisecond)
					}
					mu.Lock()
					switch fencing.OutcomeOf(err) {
					case fencing.Applied:
						applied++
						once.Do(func() { close(first) })
					case fencing.Unknown:
						unknown++
					}
					mu.Unlock()
				}
			})
		}
		<-first
		server.Kill()
		server.Restart()
		close(stop)
		wg.Wait()
		answers(t, b)
		got, err := strconv.Atoi(get(t, b, "r", "n"))
		if err != nil || got < applied || got > applied+unknown {
			t.Fatalf("round %d: counted %d, %v, want %d that were applied, and up to %d that are unknown", round, got, err, applied, unknown)
		}
	}
	t.Logf("%d applied, %d unknown", applied, unknown)
}

// waitsForStandby returns when commits wait for a synchronous standby. The server takes that over from its
// configuration a moment after the reload; a commit that comes sooner does not wait.
func waitsForStandby(tb testing.TB, url string, admin *pgx.Conn) {
	tb.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	c.RuntimeParams["synchronous_commit"] = "on"
	waited := false
	c.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { waited = waited || n.Routine == "SyncRepWaitForLSN" }
	conn, err := pgx.ConnectConfig(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !waited {
			_, err = conn.Exec(tb.Context(), "select pg_logical_emit_message(true, 'probe', '')")
		}
		done <- errors.Join(err, conn.Close(context.WithoutCancel(tb.Context())))
	}()
	cancelWait(tb, admin, "a commit waits for the standby")
	if err := <-done; err != nil {
		tb.Fatal(err)
	}
}

// cancelWait cancels the wait of a commit for its standby, which is a warning then.
func cancelWait(tb testing.TB, admin *pgx.Conn, what string) {
	tb.Helper()
	testenv.Eventually(tb, testPatience, what, func() bool {
		var n int
		err := admin.QueryRow(tb.Context(), "select count(pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep'").Scan(&n)
		return err == nil && n > 0
	})
}

// TestStandbyWarning: COMMIT comes back with success and a warning when the wait for the
// synchronous standby is cancelled. That is unknown, for a lock backend on the same pool too,
// and without Configure it cannot be seen.
func TestStandbyWarning(t *testing.T) {
	t.Parallel()
	server, url := start(t, nil)
	pool := pgtxtest.Open(t, url, pgstore.Configure)
	b := backend(t, pool, nil)
	locks, err := pglock.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	tok := raise(t, b, "r", 1)
	admin, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.WithoutCancel(t.Context()))
	for _, sql := range []string{"alter system set synchronous_standby_names = 'nobody'", "select pg_reload_conf()"} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.Exec(t.Context(), "set synchronous_commit = local"); err != nil {
		t.Fatal(err)
	}
	defer func() { // what comes after the test must not wait
		for _, sql := range []string{"alter system reset synchronous_standby_names", "select pg_reload_conf()"} {
			if _, err := admin.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
				t.Error(err)
			}
		}
	}()
	waitsForStandby(t, url, admin)
	for name, call := range map[string]func() error{
		"commit": func() error { return put(t.Context(), b, tok, "k", "v") },
		"update": func() error {
			return b.Update(t.Context(), func(tx pgx.Tx) error { return write(t.Context(), tx, "v") }, tok)
		},
		"raise": func() error { return b.Raise(t.Context(), token("other", 1)) },
		"grant": func() error {
			_, err := locks.TryAcquire(t.Context(), locking.Request{Resource: "r", Grant: fencing.NewGrant(), TTL: time.Minute})
			return err
		},
	} {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "set synchronous_commit = local; delete from fencegate.records"); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close(t.Context())
		result := make(chan error, 1)
		go func() { result <- call() }()
		cancelWait(t, admin, name+" waits for the standby")
		err = <-result
		if fencing.OutcomeOf(err) != fencing.Unknown {
			t.Errorf("%s: got %v, want unknown", name, err)
		}
	}
	for _, b := range []*pgstore.Backend{b, backend(t, pgtxtest.Open(t, url, pglock.Configure), nil)} {
		if list, err := b.Warnings(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("warnings: %v, %v, want none", list, err)
		}
	}
	plain := backend(t, pgtxtest.Open(t, url), nil)
	if list, err := plain.Warnings(t.Context()); err != nil || len(list) != 1 || !strings.Contains(list[0], "Configure") {
		t.Errorf("warnings without Configure: %v, %v, want one about it", list, err)
	}
}
