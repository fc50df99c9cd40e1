package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/prune/prunetest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/storage/pgstore"
)

func run(tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// older makes the mark of a resource two hours older, or all of them.
func older(tb testing.TB, owner *pgxpool.Pool, resource string) {
	tb.Helper()
	run(tb, owner, "update fencegate.marks set changed_at = changed_at - interval '2 hours' where $1 in ('', resource)", resource)
}

// agedMarks makes every mark that is written from here on two hours old.
func agedMarks(tb testing.TB, owner *pgxpool.Pool) {
	tb.Helper()
	run(tb, owner, `create function public.aged() returns trigger language plpgsql as $$
		begin new.changed_at := new.changed_at - interval '2 hours'; return new; end $$`)
	run(tb, owner, "create trigger aged before insert or update on fencegate.marks for each row execute function public.aged()")
}

func TestPrune(t *testing.T) {
	t.Parallel()
	prunetest.Run(t, func(tb testing.TB) prunetest.Subject {
		url := pgtxtest.NewDatabase(tb)
		b := backend(tb, pgtxtest.Open(tb, url, pgtxtest.As("fencegate_gateway")), nil)
		owner := pgtxtest.Open(tb, url)
		return prunetest.Subject{
			Pruner: b,
			Old:    func(tb testing.TB, resource string) { tb.Helper(); older(tb, owner, resource) },
			Inherit: func(tb testing.TB, resource string) {
				tb.Helper()
				run(tb, owner, "update fencegate.marks set incarnation = 'earlier' where resource = $1", resource)
			},
			Aged:   func(tb testing.TB) { tb.Helper(); agedMarks(tb, owner) },
			Plain:  pgstore.ErrPlain,
			Grants: 60,
		}
	})
}

// TestPruneBehindLateRaise: a raise has looked for a mark and found none, and is slow to make it.
// Meanwhile a newer token of the resource is raised, ended and pruned. Without the lock that
// prune takes, the mark of the older one would come to be below the floor.
func TestPruneBehindLateRaise(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	b := backend(t, pgtxtest.Open(t, url, pgtxtest.As("fencegate_gateway")), nil)
	owner := pgtxtest.Open(t, url)
	run(t, owner, `create function public.slow() returns trigger language plpgsql as $$
		begin perform pg_advisory_xact_lock_shared(4711); return new; end $$`)
	run(t, owner, "create trigger slow before insert on fencegate.marks for each row when (new.number = 4) execute function public.slow()")
	gate := during(t, owner, "select pg_advisory_xact_lock(4711)")
	late := token("r", 4)
	raised := make(chan error, 1)
	go func() { raised <- b.Raise(t.Context(), late) }()
	blocked(t, owner, 1)
	if err := b.Evict(t.Context(), token("r", 5)); err != nil {
		t.Fatal(err)
	}
	older(t, owner, "r")
	pruned := make(chan error, 1)
	go func() {
		_, err := b.Prune(t.Context(), time.Hour, nil)
		pruned <- err
	}()
	// It has to wait for the raise; where it does not, it has ended by now.
	var early bool
	testenv.Eventually(t, testPatience, "prune waits", func() bool {
		select {
		case err := <-pruned:
			early = true
			pruned <- err
			return true
		default:
		}
		var waits bool
		err := owner.QueryRow(t.Context(), `select exists (select from pg_locks where relation = 'fencegate.prune_gate'::regclass and mode = 'ShareLock' and not granted
			and database = (select oid from pg_database where datname = current_database()))`).Scan(&waits)
		return err == nil && waits
	})
	if early {
		t.Error("prune did not wait for a raise that had found no mark")
	}
	gate()
	wantStale(t, <-raised, fencing.Superseded)
	if err := <-pruned; err != nil {
		t.Errorf("prune: %v", err)
	}
	m, err := b.Mark(t.Context(), "r")
	if err != nil || m != fencing.Absent(5) {
		t.Errorf("got the mark %v, %v, want the floor 5", m, err)
	}
	wantStale(t, put(t.Context(), b, late, "k", "v"), fencing.Superseded)
}

const testPatience = 30 * time.Second

// during runs a statement in a transaction, and returns how to end that.
func during(tb testing.TB, pool *pgxpool.Pool, sql string) (end func()) {
	tb.Helper()
	tx := owner(tb, pool, sql)
	return func() {
		if err := tx.Commit(tb.Context()); err != nil {
			tb.Error(err)
		}
	}
}

// TestPruneStepFails: a step is done as a whole or not at all, and the floor is never behind.
func TestPruneStepFails(t *testing.T) {
	t.Parallel()
	for what, trigger := range map[string]string{
		"the floor": "before update on fencegate.meta",
		"the drop":  "before delete on fencegate.marks",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url := pgtxtest.NewDatabase(t)
			b := backend(t, pgtxtest.Open(t, url, pgtxtest.As("fencegate_gateway")), nil)
			pool := pgtxtest.Open(t, url)
			if err := b.Evict(t.Context(), token("r", 5)); err != nil {
				t.Fatal(err)
			}
			older(t, pool, "r")
			run(t, pool, "create function public.no() returns trigger language plpgsql as $$ begin raise 'no'; end $$")
			run(t, pool, "create trigger no "+trigger+" for each row execute function public.no()")
			n, err := b.Prune(t.Context(), time.Hour, nil)
			if n != 0 || fencing.OutcomeOf(err) != fencing.Failed {
				t.Errorf("got %d, %v, want failed", n, err)
			}
			if m, err := b.Mark(t.Context(), "r"); err != nil || m != (fencing.Mark{Number: 5, Retired: true}) {
				t.Errorf("got the mark %v, %v, want 5 as it was", m, err)
			}
			if m, err := b.Mark(t.Context(), "none"); err != nil || m != fencing.Absent(0) {
				t.Errorf("got the floor %v, %v, want 0", m, err)
			}
		})
	}
}

// TestPruneHoldsNobodyOff: a transaction that will not end keeps prune out, and nobody waits
// behind prune for long.
func TestPruneHoldsNobodyOff(t *testing.T) {
	t.Parallel()
	b, pool := freshOwner(t)
	if err := b.Evict(t.Context(), token("r", 5)); err != nil {
		t.Fatal(err)
	}
	older(t, pool, "r")
	open := during(t, pool, "select fencegate.absent_floor()")
	pruned := make(chan error, 1)
	go func() {
		n, err := b.Prune(t.Context(), time.Hour, nil)
		if n != 1 && err == nil {
			err = errors.New("nothing was dropped")
		}
		pruned <- err
	}()
	blocked(t, pool, 1)
	for i := range 20 {
		raise(t, b, "new", int64(10+i))
		raise(t, b, testenv.Unique(t, "new"), 10)
	}
	select {
	case err := <-pruned:
		t.Errorf("prune did not wait: %v", err)
	default:
	}
	open()
	if err := <-pruned; err != nil {
		t.Errorf("prune: %v", err)
	}
}

// TestPruneLocksAndMarks: both stores in one database, everything dropped, and then another
// grant, also by an issuer that bound the other one only.
func TestPruneLocksAndMarks(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	pool, admin := pgtxtest.Open(t, url, pgtxtest.As("fencegate_gateway")), pgtxtest.Open(t, url)
	b := backend(t, pool, nil)
	locks, err := pglock.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	i, err := locking.NewIssuer(locks, []fencing.Fence{b}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var last fencing.Token
	for range 3 {
		if last.Number > 0 {
			if _, err := i.Release(t.Context(), last); err != nil {
				t.Fatal(err)
			}
			older(t, admin, "r")
			run(t, admin, "update fencegate.locks set changed_at = changed_at - interval '2 hours'")
			for what, prune := range map[string]func(context.Context, time.Duration, func(int, int)) (int, error){"marks": b.Prune, "counters": locks.Prune} {
				if n, err := prune(t.Context(), time.Hour, nil); n != 1 || err != nil {
					t.Errorf("%s: dropped %d, %v, want 1", what, n, err)
				}
			}
		}
		g, err := i.Grant(t.Context(), locking.Request{Resource: "r", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if g.Token.Number <= last.Number {
			t.Errorf("granted %d after %d", g.Token.Number, last.Number)
		}
		if last.Number > 0 {
			wantStale(t, put(t.Context(), b, last, "k", "stale"), fencing.Superseded)
		}
		last = g.Token
		if err := put(t.Context(), b, last, "k", "v"); err != nil {
			t.Error(err)
		}
	}
}

func TestPruneRights(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	app := pgtxtest.Open(t, url, pgtxtest.As("fencegate_app"))
	for _, f := range []string{"prune", "lock_prune", "row_prune"} {
		_, err := app.Exec(t.Context(), "select fencegate."+f+"('', 0, 1, true)")
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42501" {
			t.Errorf("%s: got %v, want permission denied", f, err)
		}
	}
	pool := pgtxtest.Open(t, url)
	for _, f := range []string{"prune", "lock_prune", "row_prune"} {
		for _, age := range []string{"3599999", "0", "-1", "null"} {
			_, err := pool.Exec(t.Context(), "select fencegate."+f+"('', "+age+", 1, true)")
			if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "22023" {
				t.Errorf("%s of what is %s ms old: got %v, want it refused", f, age, err)
			}
		}
		run(t, pool, "select fencegate."+f+"('', 3600000, 1, true)")
	}
	b := backend(t, pool, nil)
	run(t, pool, "update fencegate.meta set version = 7")
	if _, err := b.Prune(t.Context(), time.Hour, nil); !errors.Is(err, pgstore.ErrSchema) {
		t.Errorf("an older schema: got %v, want ErrSchema", err)
	}
}
