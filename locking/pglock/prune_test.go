package pglock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
)

// pruner is either mode of the package.
type pruner interface {
	locking.Waiter
	Prune(ctx context.Context, olderThan time.Duration, progress func(looked, dropped int)) (dropped int, err error)
	Prunable(ctx context.Context, olderThan time.Duration, progress func(looked, dropped int)) (n int, err error)
}

// pruneMode is what the tests have to know of a mode.
type pruneMode struct {
	new   func(tb testing.TB, url string) pruner
	older string // makes the lock of a resource two hours older, or all of them
	step  string // drops every such lock that is not held
	aged  string // makes every lock that is written from here on two hours older, in new
	table string // where it is written
}

func pruneModes() map[string]pruneMode {
	return map[string]pruneMode{
		"leases": {
			new: func(tb testing.TB, url string) pruner {
				tb.Helper()
				return backend(tb, pgtxtest.Open(tb, url, gateway))
			},
			older: `update fencegate.locks set changed_at = changed_at - interval '2 hours',
				expires_at = expires_at - interval '2 hours' where $1 in ('', resource)`,
			step:  "select fencegate.lock_prune('', 3600000, 1000, true)",
			aged:  "new.changed_at := new.changed_at - interval '2 hours'",
			table: "locks",
		},
		"row locks": {
			new:   func(tb testing.TB, url string) pruner { tb.Helper(); return rowLocks(tb, url) },
			older: "update fencegate.row_grants set expires_at = expires_at - interval '2 hours' where $1 in ('', resource)",
			step:  "select fencegate.row_prune('', 3600000, 1000, true)",
			aged:  "new.expires_at := new.expires_at - interval '2 hours'",
			table: "row_grants",
		},
	}
}

// eachMode runs a test for both modes, each with a database of its own and the owner's pool.
func eachMode(t *testing.T, test func(t *testing.T, m pruneMode, b pruner, owner *pgxpool.Pool)) {
	t.Helper()
	for name, m := range pruneModes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtxtest.NewDatabase(t) // one that a trigger may be left in
			owner := pgtxtest.Open(t, url)
			test(t, m, m.new(t, url), owner)
		})
	}
}

// prune prunes, and checks that it was said beforehand what goes.
func prune(tb testing.TB, b pruner, want int) {
	tb.Helper()
	if n, err := b.Prunable(tb.Context(), time.Hour, nil); err != nil || n != want {
		tb.Errorf("%d counters could be dropped, %v, want %d", n, err, want)
	}
	if n, err := b.Prune(tb.Context(), time.Hour, nil); err != nil || n != want {
		tb.Fatalf("%d counters were dropped, %v, want %d", n, err, want)
	}
	if n, err := b.Prune(tb.Context(), time.Hour, nil); err != nil || n != 0 {
		tb.Errorf("%d counters were dropped when it was done again, %v, want 0", n, err)
	}
}

func TestPruneCounters(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, m pruneMode, b pruner, owner *pgxpool.Pool) {
		const half = 1 << 52
		req := func(name string, floor int64) locking.Request {
			return locking.Request{Resource: name, Grant: fencing.NewGrant(), TTL: time.Minute, Floor: floor}
		}
		old := req("old", 49)
		release(t, b, acquire(t, b, old).Token)
		older := acquire(t, b, req("older", 6))
		release(t, b, older.Token)
		release(t, b, acquire(t, b, req("bricked", half)).Token)
		exec(t, owner, m.older, "")
		release(t, b, acquire(t, b, req("young", 4)).Token)
		held := acquire(t, b, req("held", 60))

		prune(t, b, 2)
		for name, want := range map[string]int64{"old": 0, "older": 0, "bricked": half + 1, "young": 5, "held": 61} {
			if st, err := b.Status(t.Context(), name); err != nil || st.Number != want {
				t.Errorf("%s: got the number %d, %v, want %d", name, st.Number, err, want)
			}
		}
		if verdict := b.Renew(t.Context(), time.Minute, []fencing.Token{held.Token})[0]; verdict != nil {
			t.Errorf("renew: %v", verdict)
		}
		if verdict := b.Renew(t.Context(), time.Minute, []fencing.Token{older.Token})[0]; !errors.Is(verdict, locking.ErrLost) {
			t.Errorf("renew what was dropped: got %v, want ErrLost", verdict)
		}
		if freed, err := b.Release(t.Context(), older.Token); freed || err != nil {
			t.Errorf("release what was dropped: %v, %v", freed, err)
		}
		if err := b.Evict(t.Context(), "older", older.Token.Number); err != nil {
			t.Errorf("evict what was dropped: %v", err)
		}
		// A counter that stayed goes on as it was; what is new begins above all that was dropped,
		// and so does a repeat of a grant that was dropped.
		for _, c := range []struct {
			r    locking.Request
			want int64
		}{{req("young", 0), 6}, {req("older", 0), 51}, {req("new", 0), 51}, {req("other", 70), 71}, {old, 51}} {
			h := acquire(t, b, c.r)
			if h.Token.Number != c.want || !h.Drawn {
				t.Errorf("%s: granted %d (drawn: %t), want %d", c.r.Resource, h.Token.Number, h.Drawn, c.want)
			}
			release(t, b, h.Token)
		}
		// It goes on so, and a lower number that is dropped later takes no floor back.
		exec(t, owner, m.older, "other")
		prune(t, b, 1)
		exec(t, owner, m.older, "young")
		prune(t, b, 1)
		for _, name := range []string{"other", "young"} {
			if h := acquire(t, b, req(name, 0)); h.Token.Number != 72 {
				t.Errorf("%s: granted %d, want 72", name, h.Token.Number)
			}
		}
	})
}

// TestPruneLeavesHolds: what is held, made just now, or waited for, however old it looks.
func TestPruneLeavesHolds(t *testing.T) {
	t.Parallel()
	t.Run("leases", func(t *testing.T) {
		t.Parallel()
		b, owner := fresh(t)
		r := request(t)
		h := acquire(t, b, r)
		exec(t, owner, "update fencegate.locks set changed_at = 'epoch'")
		prune(t, b, 0)
		waits := next(r)
		if _, err := b.Join(t.Context(), waits, nil); !errors.Is(err, locking.ErrHeld) {
			t.Fatalf("join: %v", err)
		}
		exec(t, owner, "update fencegate.locks set expires_at = expires_at - interval '2 hours'")
		prune(t, b, 0) // the hold has expired, and its waiter is there
		exec(t, owner, "update fencegate.lock_waiters set seen = seen - interval '2 hours'")
		prune(t, b, 1)
		var places int
		if err := owner.QueryRow(t.Context(), "select count(*) from fencegate.lock_waiters").Scan(&places); err != nil || places != 0 {
			t.Errorf("%d places are left, %v", places, err)
		}
		if got := acquire(t, b, waits); got.Token.Number <= h.Token.Number {
			t.Errorf("granted %d after %d", got.Token.Number, h.Token.Number)
		}
		if err := b.Leave(t.Context(), waits); err != nil {
			t.Error(err)
		}
	})
	t.Run("row locks", func(t *testing.T) {
		t.Parallel()
		url := pgtxtest.Database(t)
		b, owner := rowLocks(t, url), pgtxtest.Open(t, url)
		exec(t, owner, "select fencegate.row_make('made')")
		acquire(t, b, request(t))
		exec(t, owner, "update fencegate.row_grants set expires_at = expires_at - interval '2 hours' where resource <> 'made'")
		prune(t, b, 0)
	})
}

// TestJoinBehindPrune: a request has seen the counter, and waits for its row, which is dropped.
func TestJoinBehindPrune(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, m pruneMode, b pruner, owner *pgxpool.Pool) {
		r := request(t)
		r.Floor = 40
		last := acquire(t, b, r)
		release(t, b, last.Token)
		exec(t, owner, m.older, "")
		tx, err := owner.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		if _, err := tx.Exec(t.Context(), m.step); err != nil {
			t.Fatal(err)
		}
		// An attempt that does not wait sees a lock that somebody is at work on.
		again := next(r)
		again.Floor = 0
		if _, err := b.TryAcquire(t.Context(), again); !errors.Is(err, locking.ErrHeld) {
			t.Errorf("meanwhile: got %v, want ErrHeld", err)
		}
		type answer struct {
			hold locking.Hold
			err  error
		}
		joined := make(chan answer, 1)
		go func() {
			for {
				h, err := b.Join(t.Context(), again, nil)
				if errors.Is(err, locking.ErrHeld) {
					continue // it waits for a second at a time
				}
				joined <- answer{h, err}
				return
			}
		}()
		testenv.Eventually(t, testPatience, "the request waits for the row", func() bool {
			var waits bool
			err := owner.QueryRow(t.Context(), `select exists (select from pg_stat_activity
				where datname = current_database() and wait_event_type = 'Lock' and wait_event = 'transactionid')`).Scan(&waits)
			return err == nil && waits
		})
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := <-joined
		if got.err != nil || got.hold.Token.Number <= last.Token.Number {
			t.Fatalf("granted %d, %v, after %d", got.hold.Token.Number, got.err, last.Token.Number)
		}
		if st, err := b.Status(t.Context(), r.Resource); err != nil || !st.Held || st.Number != got.hold.Token.Number {
			t.Errorf("got the status %+v, %v, want held by %d", st, err, got.hold.Token.Number)
		}
		if _, err := b.TryAcquire(t.Context(), next(again)); !errors.Is(err, locking.ErrHeld) {
			t.Errorf("another attempt: got %v, want ErrHeld", err)
		}
		release(t, b, got.hold.Token)
	})
}

// TestPruneConcurrent: locks are taken and freed by many, and dropped in between. Whoever has
// one notes its number: that is the order of grants.
func TestPruneConcurrent(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, m pruneMode, b pruner, owner *pgxpool.Pool) {
		exec(t, owner, "create function public.aged() returns trigger language plpgsql as $$ begin "+m.aged+"; return new; end $$")
		exec(t, owner, "create trigger aged before insert or update on fencegate."+m.table+" for each row execute function public.aged()")
		const resources, clients, grants = 3, 2, 120
		var dropped, granted atomic.Int64
		var group sync.WaitGroup
		var mu sync.Mutex // guards order
		order := map[string][]int64{}
		for i := range resources * clients {
			name := []string{"a", "b", "c"}[i%resources]
			group.Go(func() {
				for range grants {
					if t.Failed() {
						return
					}
					r := locking.Request{Resource: name, Grant: fencing.NewGrant(), TTL: time.Minute}
					h, err := b.TryAcquire(t.Context(), r)
					switch {
					case errors.Is(err, locking.ErrHeld):
					case err != nil:
						t.Errorf("acquire: %v", err)
					default:
						mu.Lock()
						order[name] = append(order[name], h.Token.Number)
						mu.Unlock()
						granted.Add(1)
						if freed, err := b.Release(t.Context(), h.Token); !freed || err != nil {
							t.Errorf("release of %v: %v, %v", h.Token, freed, err)
						}
					}
					if rand.IntN(4) == 0 {
						n, err := b.Prune(t.Context(), time.Hour, nil)
						dropped.Add(int64(n))
						if err != nil {
							t.Errorf("prune: %v", err)
						}
					}
				}
			})
		}
		group.Wait()
		for name, numbers := range order {
			if sorted := slices.Compact(slices.Sorted(slices.Values(numbers))); !slices.Equal(numbers, sorted) {
				t.Errorf("%s: the numbers do not grow from grant to grant: %v", name, numbers)
			}
		}
		t.Logf("%d counters were dropped between %d grants", dropped.Load(), granted.Load())
		if dropped.Load() < grants/4 || granted.Load() < grants {
			t.Errorf("%d counters were dropped between %d grants: too few", dropped.Load(), granted.Load())
		}
	})
}

func TestPruneArguments(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	owner := pgtxtest.Open(t, url)
	for name, m := range pruneModes() {
		b := m.new(t, url)
		for _, age := range []time.Duration{-1, 0, time.Hour - 1} {
			if _, err := b.Prune(t.Context(), age, nil); !errors.Is(err, fencing.ErrInvalid) {
				t.Errorf("%s, %v: got %v, want ErrInvalid", name, age, err)
			}
		}
		exec(t, owner, "update fencegate.meta set version = 7")
		if _, err := b.Prunable(t.Context(), time.Hour, nil); !errors.Is(err, pglock.ErrSchema) {
			t.Errorf("%s, an older schema: got %v, want ErrSchema", name, err)
		}
		exec(t, owner, "update fencegate.meta set version = 8")
		told := 0
		release(t, b, acquire(t, b, request(t)).Token)
		if _, err := b.Prune(t.Context(), time.Hour, func(looked, _ int) { told = looked }); err != nil || told == 0 {
			t.Errorf("%s: told of %d, %v", name, told, err)
		}
	}
}

// TestRowMakeBehindPrune: a request makes the two rows of a lock, finds the first of them there,
// and both are dropped before it comes to the second. With one of the two alone, the lock could
// never be granted again.
func TestRowMakeBehindPrune(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	b, owner := rowLocks(t, url), pgtxtest.Open(t, url)
	r := request(t)
	last := acquire(t, b, r)
	release(t, b, last.Token)
	exec(t, owner, `create function public.second() returns trigger language plpgsql as $$
		begin
			if current_setting('test.inserts', true) = '1' then
				perform pg_advisory_xact_lock_shared(4711);
			end if;
			perform set_config('test.inserts', '1', true);
			return new;
		end $$`)
	for _, table := range []string{"row_locks", "row_grants"} {
		exec(t, owner, "create trigger second before insert on fencegate."+table+" for each row execute function public.second()")
	}
	gate, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gate.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := gate.Exec(t.Context(), "select pg_advisory_xact_lock(4711)"); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go func() {
		_, err := owner.Exec(t.Context(), "select fencegate.row_make($1)", r.Resource)
		made <- err
	}()
	testenv.Eventually(t, testPatience, "it is between the two", func() bool {
		var waits bool
		err := owner.QueryRow(t.Context(), "select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'advisory')").Scan(&waits)
		return err == nil && waits
	})
	exec(t, owner, pruneModes()["row locks"].older, "")
	if n, err := b.Prune(t.Context(), time.Hour, nil); n != 1 || err != nil {
		t.Fatalf("dropped %d, %v, want 1", n, err)
	}
	if err := gate.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	if h := acquire(t, b, next(r)); h.Token.Number <= last.Token.Number {
		t.Errorf("granted %d after %d", h.Token.Number, last.Token.Number)
	}
	var rows int
	const q = "select (select count(*) from fencegate.row_locks) + (select count(*) from fencegate.row_grants)"
	if err := owner.QueryRow(t.Context(), q).Scan(&rows); err != nil || rows != 2 {
		t.Errorf("%d rows, %v, want both", rows, err)
	}
}
