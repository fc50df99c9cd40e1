package pglock_test

import (
	"context"
	"errors"
	"slices"
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
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/pglock"
)

func TestBackend(t *testing.T) {
	t.Parallel()
	b, _ := own(t)
	lockingtest.RunBackend(t, lockingtest.BackendHarness{
		New:    func(testing.TB) locking.Backend { return b },
		Unique: testenv.Unique,
		Wakes:  true, Line: true, Transfers: true,
	})
}

// TestDefaults runs the suite with defaults of the session that would break it: only what is
// said explicitly may count. The query mode is that for transaction poolers.
func TestDefaults(t *testing.T) {
	t.Parallel()
	b, _ := own(t, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
		c.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
		c.ConnConfig.RuntimeParams["client_min_messages"] = "error"
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	})
	lockingtest.RunBackend(t, lockingtest.BackendHarness{
		New:    func(testing.TB) locking.Backend { return b },
		Unique: testenv.Unique,
		Wakes:  true, Line: true, Transfers: true,
	})
}

// TestNumbers: the number is above the counter, the request's floor, the mark of the same
// database and the floor of its pruned marks.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                       string
		counter, floor, mark, meta int64
		want                       int64
	}{
		{"none", 0, 0, 0, 0, 1},
		{"counter", 7, 3, 4, 5, 8},
		{"request's floor", 3, 7, 4, 5, 8},
		{"mark", 3, 4, 7, 5, 8},
		{"pruned", 3, 4, 5, 7, 8},
		{"the last one", 0, fencing.MaxNumber - 1, 0, 0, fencing.MaxNumber},
		{"no more by the mark", 0, 0, fencing.MaxNumber, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, owner := fresh(t)
			r := request(t)
			if c.counter > 0 {
				exec(t, owner, "insert into fencegate.locks (resource, number) values ($1, $2)", r.Resource, c.counter)
			}
			if c.mark > 0 {
				exec(t, owner, "insert into fencegate.marks (resource, number, grant_id, retired, incarnation) values ($1, $2, '', true, 'earlier')", r.Resource, c.mark)
			}
			exec(t, owner, "update fencegate.meta set floor = $1", c.meta)
			r.Floor = c.floor
			h, err := b.TryAcquire(t.Context(), r)
			if c.want == 0 {
				if !errors.Is(err, locking.ErrExhausted) {
					t.Fatalf("got %v, %v, want ErrExhausted", h.Token, err)
				}
				return
			}
			if err != nil || h.Token.Number != c.want || !h.Drawn {
				t.Errorf("got %v, drawn %t, %v, want %d, drawn", h.Token, h.Drawn, err, c.want)
			}
		})
	}
}

// hold locks a resource's row from outside, as a call does that is under way, until the
// returned function is called.
func hold(tb testing.TB, owner *pgxpool.Pool, resource string) (end func()) {
	tb.Helper()
	tx, err := owner.Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tag, err := tx.Exec(tb.Context(), "select from fencegate.locks where resource = $1 for update", resource)
	if err != nil || tag.RowsAffected() != 1 {
		tb.Fatalf("lock the row: %v, %v", tag, err)
	}
	end = sync.OnceFunc(func() { _ = tx.Rollback(context.WithoutCancel(tb.Context())) })
	tb.Cleanup(end)
	return end
}

// TestLookingLocksNothing: who asks for a lock that is held gets the answer while the row is
// locked, so he does not queue, and hence does not keep the holder's renewal out.
func TestLookingLocksNothing(t *testing.T) {
	t.Parallel()
	b, owner := fresh(t)
	r := request(t)
	h := acquire(t, b, r)
	hold(t, owner, r.Resource)
	held, ok := errors.AsType[*locking.HeldError](second(b.TryAcquire(t.Context(), next(r))))
	if !ok || held.Number != h.Token.Number || held.Label != "test" || held.Remaining <= 0 || held.Remaining > time.Minute {
		t.Errorf("got %+v, want the holder's number, label and remaining time", held)
	}
	if again, err := b.TryAcquire(t.Context(), r); err != nil || again.Token != h.Token || again.Drawn {
		t.Errorf("the same grant: got %v, drawn %t, %v, want its hold", again.Token, again.Drawn, err)
	}
}

func second[A, B any](_ A, b B) B { return b }

// TestBusyRow: a row that another call is at work on is neither held, nor renewed, nor lost.
func TestBusyRow(t *testing.T) {
	t.Parallel()
	b, owner := fresh(t)
	busy, other := request(t), request(t)
	tok, otherTok := acquire(t, b, busy).Token, acquire(t, b, other).Token
	end := hold(t, owner, busy.Resource)
	got := b.Renew(t.Context(), time.Minute, []fencing.Token{tok, otherTok})
	if fencing.OutcomeOf(got[0]) != fencing.Failed || errors.Is(got[0], locking.ErrLost) {
		t.Errorf("renew of a busy row: got %v, want failed", got[0])
	}
	if got[1] != nil {
		t.Errorf("renew of a row beside it: got %v, want nil", got[1])
	}
	end()
	if got := b.Renew(t.Context(), time.Minute, []fencing.Token{tok, otherTok}); got[0] != nil || got[1] != nil {
		t.Errorf("renew after it: got %v, want nil", got)
	}
	if freed, err := b.Release(t.Context(), tok); !freed || err != nil {
		t.Fatalf("release: %t, %v", freed, err)
	}

	end = hold(t, owner, busy.Resource)
	held, ok := errors.AsType[*locking.HeldError](second(b.TryAcquire(t.Context(), next(busy))))
	if !ok || held.Remaining != 0 || held.Number != 0 {
		t.Errorf("a free lock whose row is busy: got %+v, want a *HeldError that knows nothing", held)
	}
	time.AfterFunc(5*time.Millisecond, end)
	acquire(t, b, next(busy)) // waits the few milliseconds
}

// TestExpiryIsJudgedAfterTheLock: a renewal that waits for nothing, an acquire that does: the
// clock is read when the row is locked, not when the transaction began.
func TestExpiryIsJudgedAfterTheLock(t *testing.T) {
	t.Parallel()
	b, owner := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	end := hold(t, owner, r.Resource)
	freed := make(chan bool)
	go func() {
		was, err := b.Release(t.Context(), tok)
		freed <- was || err != nil
	}()
	testenv.Eventually(t, 30*time.Second, "the release waits", func() bool {
		var n int
		_ = owner.QueryRow(t.Context(), "select count(distinct pid) from pg_locks where not granted and pid in (select pid from pg_stat_activity where datname = current_database())").Scan(&n)
		return n > 0
	})
	end()
	if !<-freed {
		t.Error("a release that waited did not free the lock")
	}

	r = next(r)
	r.TTL = locking.MinTTL
	tok = acquire(t, b, r).Token
	end = hold(t, owner, r.Resource)
	go func() {
		was, err := b.Release(t.Context(), tok)
		freed <- was || err != nil
	}()
	testenv.Eventually(t, 30*time.Second, "the hold expires", func() bool {
		st, err := b.Status(t.Context(), r.Resource)
		return err == nil && !st.Held
	})
	end()
	if <-freed {
		t.Error("a release that waited until the hold had expired says that it freed it")
	}
}

// TestClockJumpedBack: a hold whose expiry is further away than its TTL is cut to it by whoever
// asks next, and shown so.
func TestClockJumpedBack(t *testing.T) {
	t.Parallel()
	b, owner := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	exec(t, owner, "update fencegate.locks set expires_at = clock_timestamp() + interval '2 hours' where resource = $1", r.Resource)
	if st, err := b.Status(t.Context(), r.Resource); err != nil || st.Remaining > time.Minute {
		t.Errorf("status: %v, %v, want at most the TTL", st.Remaining, err)
	}
	held, ok := errors.AsType[*locking.HeldError](second(b.TryAcquire(t.Context(), next(r))))
	if !ok || held.Remaining > time.Minute || held.Remaining < 50*time.Second {
		t.Errorf("got %+v, want held for the TTL", held)
	}
	var left float64
	if err := owner.QueryRow(t.Context(), "select extract(epoch from expires_at - clock_timestamp()) from fencegate.locks where resource = $1", r.Resource).Scan(&left); err != nil || left > 60 {
		t.Errorf("the row says %v s, %v, want at most 60", left, err)
	}
	if err := b.Renew(t.Context(), 2*time.Minute, []fencing.Token{tok})[0]; err != nil {
		t.Errorf("renew: %v", err)
	}
}

// TestConcurrentGrants: 16 clients take and release one lock. No two hold it at once, and the
// numbers grow in the order of the grants.
func TestConcurrentGrants(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	r := request(t)
	var mu sync.Mutex
	var numbers []int64
	holding := 0
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 5 {
				h, err := b.TryAcquire(t.Context(), next(r))
				for errors.Is(err, locking.ErrHeld) {
					time.Sleep(time.Millisecond)
					h, err = b.TryAcquire(t.Context(), next(r))
				}
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				mu.Lock()
				numbers = append(numbers, h.Token.Number)
				if holding++; holding != 1 {
					t.Errorf("%d hold the lock", holding)
				}
				mu.Unlock()
				if err := b.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0]; err != nil {
					t.Errorf("renew: %v", err)
				}
				mu.Lock()
				holding--
				mu.Unlock()
				if freed, err := b.Release(t.Context(), h.Token); !freed || err != nil {
					t.Errorf("release: %t, %v", freed, err)
				}
			}
		})
	}
	wg.Wait()
	if len(numbers) != 80 || !slices.IsSorted(numbers) || len(slices.Compact(slices.Clone(numbers))) != 80 {
		t.Errorf("got the numbers %v, want 80, each above the one before", numbers)
	}
}

// TestRenewManyAtOnce: renewals of many locks, in any order, never wait for each other in a
// circle, and end as renewed or failed.
func TestRenewManyAtOnce(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	var tokens []fencing.Token
	for range 20 {
		tokens = append(tokens, acquire(t, b, request(t)).Token)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			mine := slices.Clone(tokens)
			if i%2 == 1 {
				slices.Reverse(mine)
			}
			for range 5 {
				for _, err := range b.Renew(t.Context(), time.Minute, mine) {
					if err != nil && fencing.OutcomeOf(err) != fencing.Failed {
						t.Errorf("got %v, want renewed or failed", err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestNumbersSurviveKill: kill -9 of the server brings no number back, and ends no hold.
func TestNumbersSurviveKill(t *testing.T) {
	t.Parallel()
	// What a kill loses is what the server has not written; whether that is on the disk matters
	// to no survivor of a kill.
	server := testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true})
	url := server.NewDatabase(t)
	if err := pgtxtest.Migrate(url); err != nil {
		t.Fatal(err)
	}
	b := backend(t, pgtxtest.Open(t, url, gateway))
	r := request(t)
	var last int64
	for range 3 {
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				h, err := b.TryAcquire(t.Context(), next(r))
				if err != nil { // the server is down, or was in the middle
					time.Sleep(10 * time.Millisecond) // and comes back sooner if it has the machine
					continue
				}
				if h.Token.Number <= last {
					t.Errorf("number %d came after %d", h.Token.Number, last)
				}
				last = h.Token.Number
				_ = b.Evict(t.Context(), r.Resource, last)
			}
		}()
		time.Sleep(100 * time.Millisecond) // let it work
		server.Kill()
		server.Restart()
		testenv.Eventually(t, 30*time.Second, "the server answers", func() bool {
			_, err := b.Status(t.Context(), r.Resource)
			return err == nil
		})
		close(stop)
		<-done
	}
	other := request(t)
	tok := acquire(t, b, other).Token
	server.Kill()
	server.Restart()
	testenv.Eventually(t, 30*time.Second, "the hold is renewed", func() bool {
		return b.Renew(t.Context(), time.Minute, []fencing.Token{tok})[0] == nil
	})
}

// TestRights: the gateway's role cannot touch the table, the application's cannot call.
func TestRights(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	denied := func(pool *pgxpool.Pool, sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42501" {
			t.Errorf("%s: got %v, want permission denied", sql, err)
		}
	}
	gw := pgtxtest.Open(t, url, gateway)
	for _, sql := range []string{
		"select * from fencegate.locks", "select * from fencegate.lock_waiters", "insert into fencegate.lock_waiters default values", "delete from fencegate.lock_waiters",
		"select nextval('fencegate.lock_waiters_place_seq')", "select fencegate.lock_serve('a', '')", "select fencegate.lock_next('a', 1)",
		"update fencegate.locks set number = 1", "delete from fencegate.locks", "truncate fencegate.locks",
	} {
		denied(gw, sql)
	}
	app := pgtxtest.Open(t, url, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["role"] = "fencegate_app" })
	for _, sql := range []string{
		"select * from fencegate.lock_acquire('a', 'b', 'c', 1, 1)", "select fencegate.lock_evict('a', 1)", "select * from fencegate.lock_list('', '', 1)",
		"select fencegate.lock_release('a', 1, '')", "select fencegate.lock_join('a', 'b', 'c', 1, 1, '')", "select fencegate.lock_leave('a', 'b')",
		"select fencegate.lock_transfer('a', 1, 'b', 'c', '', 1, 1)", "select * from fencegate.lock_renew('{}', '{}', '{}', 1)", "select * from fencegate.lock_status('a')",
	} {
		denied(app, sql)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	empty := pgtxtest.Open(t, testenv.SharedPostgres(t).NewDatabase(t))
	if _, err := pglock.New(t.Context(), empty, nil); !errors.Is(err, pglock.ErrSchema) {
		t.Errorf("an empty database: got %v, want ErrSchema", err)
	}
	url := pgtxtest.NewDatabase(t)
	pool := pgtxtest.Open(t, url)
	if _, err := pglock.New(t.Context(), nil, nil); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("no pool: got %v, want ErrInvalid", err)
	}
	for _, d := range []time.Duration{-1, time.Microsecond, 1500 * time.Microsecond, 2 * time.Hour} {
		if _, err := pglock.New(t.Context(), pool, &pglock.Options{Timeout: d}); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("timeout %v: got %v, want ErrInvalid", d, err)
		}
	}
	simple := pgtxtest.Open(t, url, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol })
	if _, err := pglock.New(t.Context(), simple, nil); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("the simple protocol: got %v, want ErrInvalid", err)
	}
	exec(t, pool, "update fencegate.meta set version = 3")
	if _, err := pglock.New(t.Context(), pool, nil); !errors.Is(err, pglock.ErrSchema) || !strings.Contains(err.Error(), "version 3 of the schema, want 4") {
		t.Errorf("an older schema: got %v, want ErrSchema with both versions", err)
	}
}

// TestErrorsShowNoGrant provokes a failed constraint, whose detail shows the row.
func TestErrorsShowNoGrant(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	b, owner := backend(t, pgtxtest.Open(t, url, gateway)), pgtxtest.Open(t, url)
	exec(t, owner, "alter table fencegate.locks add check (label <> 'forbidden')")
	r := request(t)
	r.Label = "forbidden"
	_, err := b.TryAcquire(t.Context(), r)
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || fencing.OutcomeOf(err) != fencing.Failed {
		t.Fatalf("got %v, want the server's error, failed", err)
	}
	if strings.Contains(err.Error()+e.Detail+e.Where+e.InternalQuery+e.Hint, r.Grant) {
		t.Errorf("the error shows the grant: %+v", e)
	}
	acquire(t, b, next(request(t))) // the connection is usable
}
