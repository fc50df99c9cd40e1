package pgstore_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// TestRaiseWaitsForUpdate: a fenced transaction in flight holds off the raise until it ends.
func TestRaiseWaitsForUpdate(t *testing.T) {
	t.Parallel()
	b, pool := fresh(t)
	t33 := raise(t, b, "r", 33)
	inside, leave := make(chan struct{}), make(chan struct{})
	updated := make(chan error, 1)
	go func() {
		updated <- b.Update(t.Context(), func(tx pgx.Tx) error {
			close(inside)
			<-leave
			_, err := tx.Exec(t.Context(), "insert into fencegate.records values ('r', 'k', 'by 33', 1)")
			return err
		}, t33)
	}()
	<-inside
	raised := make(chan error, 1)
	go func() { raised <- b.Raise(t.Context(), token("r", 34)) }()
	blocked(t, pool, 1)
	select {
	case err := <-raised:
		t.Fatalf("the raise came through a transaction in flight: %v", err)
	default:
	}
	// Others' answers do not wait: an older raise is refused, a read is answered.
	wantStale(t, b.Raise(t.Context(), token("r", 32)), fencing.Superseded)
	if err := b.Raise(t.Context(), t33); err != nil {
		t.Errorf("the raise of the mark itself: %v", err)
	}
	if _, err := b.GetFenced(t.Context(), t33, "k"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a fenced read: got %v, want ErrNotFound", err)
	}
	close(leave)
	if err := errors.Join(<-updated, <-raised); err != nil {
		t.Fatal(err)
	}
	if got := get(t, b, "r", "k"); got != "by 33" {
		t.Errorf("got %s, want by 33", got)
	}
	wantStale(t, put(t.Context(), b, t33, "k", "late"), fencing.Superseded)
}

// owner opens a transaction in which a mark is changed by hand.
func owner(tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) pgx.Tx {
	tb.Helper()
	tx, err := pool.Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(tb.Context())) })
	if _, err := tx.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatal(err)
	}
	return tx
}

// TestCommitBehindRaise: a commit that waited is judged by what the wait left, not by what it
// saw before.
func TestCommitBehindRaise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sql string
		args      []any
		commit    bool
		want      fencing.Reason
	}{
		{"raise", "select fencegate.raise('r', 34, $1)", []any{fencing.NewGrant()}, true, fencing.Superseded},
		{"evict", "select fencegate.evict('r', 33, $1)", []any{""}, true, fencing.Retired},
		{"evict above", "select fencegate.evict('r', 40, $1)", []any{""}, true, fencing.Superseded},
		{"another grant", "update fencegate.marks set grant_id = $1", []any{fencing.NewGrant()}, true, fencing.Duplicate},
		{"a raise that is undone", "select fencegate.raise('r', 34, $1)", []any{fencing.NewGrant()}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := pgtxtest.Database(t)
			pool := pgtxtest.Open(t, url)
			b := backend(t, pool, nil)
			t33 := raise(t, b, "r", 33)
			tx := owner(t, pool, c.sql, c.args...)
			result := make(chan error, 1)
			go func() { result <- put(t.Context(), b, t33, "k", "v") }()
			blocked(t, pool, 1)
			end := tx.Rollback
			if c.commit {
				end = tx.Commit
			}
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := <-result
			if c.want == "" {
				if err != nil {
					t.Errorf("got %v, want applied", err)
				}
				return
			}
			wantStale(t, err, c.want)
			if got := get(t, b, "r", "k"); got != "(none)" {
				t.Errorf("a refused commit wrote %s", got)
			}
		})
	}
}

// TestRecordsAreReadAfterTheWait: a commit that waited for another one of the same token
// counts on from what that one wrote.
func TestRecordsAreReadAfterTheWait(t *testing.T) {
	t.Parallel()
	b, pool := fresh(t)
	tok := raise(t, b, "r", 1)
	add := func(delta int64) (storage.Result, error) {
		out := b.Apply(t.Context(), []storage.Commit{{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add("r", "n", delta, 0)}}})
		return out[0].Result, out[0].Err
	}
	if _, err := add(10); err != nil {
		t.Fatal(err)
	}
	result := make(chan storage.Result, 1)
	err := b.Update(t.Context(), func(tx pgx.Tx) error {
		go func() {
			res, err := add(-1)
			if err != nil {
				t.Error(err)
			}
			result <- res
		}()
		blocked(t, pool, 1)
		_, err := tx.Exec(t.Context(), "update fencegate.records set value = '9', version = version + 1 where resource = 'r' and key = 'n'")
		return err
	}, tok)
	if err != nil {
		t.Fatal(err)
	}
	if res := <-result; len(res.Ops) != 1 || res.Ops[0].Counter != 8 || res.Ops[0].Version != 3 {
		t.Errorf("got %+v, want 8 in version 3", res)
	}
}

// TestConcurrentRaises: of 16 first raises at once, every one is accepted or superseded, and
// the mark is the highest that was accepted.
func TestConcurrentRaises(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	for range 5 {
		resource := testenv.Unique(t, "r")
		var wg sync.WaitGroup
		errs := make([]error, 17)
		for n := 1; n <= 16; n++ {
			wg.Go(func() { errs[n] = b.Raise(t.Context(), token(resource, int64(n))) })
		}
		wg.Wait()
		highest := 0
		for n := 1; n <= 16; n++ {
			if errs[n] == nil {
				highest = n
			} else {
				wantStale(t, errs[n], fencing.Superseded)
			}
		}
		if m, err := b.Mark(t.Context(), resource); err != nil || m.Number != int64(highest) || highest != 16 {
			t.Errorf("got the mark %v, %v, want 16", m, err)
		}
	}
}

// TestConcurrentCommits: 16 clients count in one record while the lock goes from hand to hand;
// no acknowledged addition is lost, and two resources in both orders do not lock up.
func TestConcurrentCommits(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	one, two := raise(t, b, "one", 1), raise(t, b, "two", 1)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 5 {
				tokens := []fencing.Token{one, two}
				ops := []storage.Op{storage.Add("one", "n", 1, 0), storage.Add("two", "n", 1, 0)}
				if i%4 == 0 {
					tokens, ops = tokens[:1], ops[:1]
				}
				if err := b.Apply(t.Context(), []storage.Commit{{Tokens: tokens, Ops: ops}})[0].Err; err != nil {
					t.Errorf("commit: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if a, b := get(t, b, "one", "n"), get(t, b, "two", "n"); a != "80" || b != "60" {
		t.Errorf("got %s and %s, want 80 and 60", a, b)
	}
}

// TestRaiseTimeout: a raise that is kept out has failed, and changes nothing later.
func TestRaiseTimeout(t *testing.T) {
	t.Parallel()
	pool := pgtxtest.Open(t, pgtxtest.Database(t))
	b := backend(t, pool, &pgstore.Options{RaiseTimeout: 100 * time.Millisecond})
	t33 := raise(t, b, "r", 33)
	tx := owner(t, pool, "select from fencegate.marks where resource = 'r' for no key update")
	for what, call := range map[string]func() error{
		"raise": func() error { return b.Raise(t.Context(), token("r", 34)) },
		"raise, deadline": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // a tenth of it is for the answer
			defer cancel()
			return b.Raise(ctx, token("r", 34))
		},
		"retire": func() error { return b.Retire(t.Context(), t33) },
		"evict":  func() error { return b.Evict(t.Context(), t33) },
	} {
		err := call()
		wantOutcome(t, err, fencing.Failed)
		if err == nil || !strings.Contains(err.Error(), "holds the mark") {
			t.Errorf("%s: got %v, want who is in the way", what, err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), b, t33, "k", "v"); err != nil {
		t.Errorf("33 after raises that failed: %v", err)
	}
}

// raiser raises a token behind the statement that asks why a token was refused, or before it.
type raiser struct {
	once  sync.Once
	raise func()
}

func (r *raiser) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if q := data.Batch.QueuedQueries; q[len(q)-1].SQL == "rollback" {
		r.once.Do(r.raise)
	}
	return ctx
}
func (*raiser) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*raiser) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (r *raiser) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "for each resource") {
		r.once.Do(r.raise)
	}
	return ctx
}
func (*raiser) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestRaisedInBetween: a token that the lock did not find, and that is the mark when the
// reason is asked for, is neither refused nor applied unchecked: it is tried again.
func TestRaisedInBetween(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"commit", "keyed", "answered", "update"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			url := pgtxtest.Database(t)
			other := backend(t, pgtxtest.Open(t, url), nil)
			tok := token("r", 1)
			once := putOf(tok, "k", "v")
			once.Key = "once"
			r := &raiser{raise: func() {
				err := other.Raise(t.Context(), tok)
				if way == "answered" { // and it is over again: the fence alone would refuse what was applied
					err = errors.Join(err, other.Apply(t.Context(), []storage.Commit{once})[0].Err, other.Retire(t.Context(), tok))
				}
				if err != nil {
					t.Error(err)
				}
			}}
			b := backend(t, pgtxtest.Open(t, url, func(c *pgxpool.Config) { c.ConnConfig.Tracer = r }), nil)
			var err error
			switch way {
			case "commit":
				err = put(t.Context(), b, tok, "k", "v")
			case "keyed", "answered":
				out := b.Apply(t.Context(), []storage.Commit{once})[0]
				err = out.Err
				if out.Result.Replayed != (way == "answered") {
					t.Errorf("got replayed = %t", out.Result.Replayed)
				}
			case "update":
				err = b.Update(t.Context(), func(tx pgx.Tx) error {
					_, err := tx.Exec(t.Context(), "insert into fencegate.records values ('r', 'k', 'v', 1)")
					return err
				}, tok)
			}
			if err != nil || get(t, other, "r", "k") != "v" {
				t.Errorf("got %v, %s, want applied", err, get(t, other, "r", "k"))
			}
		})
	}
}

// TestDeadlockIsTriedAgain: a transaction from outside takes the marks in the other order.
func TestDeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	pool := pgtxtest.Open(t, pgtxtest.Database(t), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["deadlock_timeout"] = "1s" })
	b := backend(t, pool, nil)
	one, two := raise(t, b, "one", 1), raise(t, b, "two", 1)
	tx := owner(t, pool, "set local deadlock_timeout = '1min'") // the commit shall find the deadlock
	lock := "select from fencegate.marks where resource = $1 for no key update"
	if _, err := tx.Exec(t.Context(), lock, "two"); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		result <- b.Apply(t.Context(), []storage.Commit{{
			Tokens: []fencing.Token{one, two}, Ops: []storage.Op{storage.Put("one", "k", nil)},
		}})[0].Err
	}()
	blocked(t, pool, 1)
	if _, err := tx.Exec(t.Context(), lock, "one"); err != nil {
		t.Fatalf("the transaction outside: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Errorf("the commit: %v, want applied by a later try", err)
	}
}

// TestFunctionsNeedReadCommitted: with an old snapshot they would judge an old mark.
func TestFunctionsNeedReadCommitted(t *testing.T) {
	t.Parallel()
	pool := pgtxtest.Open(t, pgtxtest.Database(t))
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for _, sql := range []string{
			"select fencegate.raise('r', 1, '')", "select fencegate.retire('r', 1, '')", "select fencegate.evict('r', 1, '')",
			"select fencegate.lock_acquire('r', '', '', 1000, 0)", "select fencegate.lock_renew('{r}', '{1}', '{x}', 1000)",
			"select fencegate.lock_release('r', 1, '')", "select fencegate.lock_evict('r', 1)",
		} {
			err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), sql)
				return err
			})
			if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "ZF001" {
				t.Errorf("%s at %s: got %v, want ZF001", sql, level, err)
			}
		}
	}
}

// TestRoundTrips counts them, with statements prepared.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	p := &proxy{}
	b := backend(t, pgtxtest.Open(t, pgtxtest.Database(t), p.through(t)), nil)
	tok := raise(t, b, "r", 1)
	stale := token("r", 1)
	apply := func(c storage.Commit) error { return b.Apply(t.Context(), []storage.Commit{c})[0].Err }
	name := func(what string, n int64) string { return fmt.Sprintf("%s-%d", what, n) }
	ops := map[string]func(n int64) error{
		"raise":      func(n int64) error { return b.Raise(t.Context(), token("a", n)) },
		"evict":      func(n int64) error { return b.Evict(t.Context(), token("b", n)) },
		"retire":     func(int64) error { return b.Retire(t.Context(), token("r", 5)) },
		"fencedread": func(int64) error { _, err := b.GetFenced(t.Context(), tok, "k"); return err },
		"mark":       func(int64) error { _, err := b.Mark(t.Context(), "r"); return err },
		"commit":     func(int64) error { return put(t.Context(), b, tok, "k", "v") },
		"new":        func(n int64) error { return put(t.Context(), b, tok, name("new", n), "v") },
		"add": func(int64) error {
			return apply(storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add("r", "n", 1, 0)}})
		},
		"two": func(int64) error {
			return apply(storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add("r", "n", 1, 0), storage.Delete("r", "none")}})
		},
		"keyed": func(n int64) error {
			c := putOf(tok, "k", "v")
			c.Key = name("keyed", n)
			return apply(c)
		},
		"stale":  func(int64) error { return put(t.Context(), b, stale, "k", "v") },
		"update": func(int64) error { return b.Update(t.Context(), func(pgx.Tx) error { return nil }, tok) },
		"once": func(n int64) error {
			_, err := b.UpdateOnce(t.Context(), name("once", n), func(pgx.Tx) error { return nil }, tok)
			return err
		},
	}
	want := map[string]int{
		"raise": 1, "evict": 1, "retire": 1, "fencedread": 1, "mark": 1,
		"commit": 1, "new": 2, "add": 1, "two": 2, "keyed": 2, "stale": 3, "update": 2, "once": 2,
	}
	_, _ = ops["commit"](0), ops["two"](0) // so that there is something to read and to change
	for name, op := range ops {
		_ = op(1) // prepares its statements
		var err error
		got := p.count(func() { err = op(2) })
		if name == "stale" {
			wantStale(t, err, fencing.Duplicate)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got != want[name] {
			t.Errorf("%s: got %d round trips, want %d", name, got, want[name])
		}
	}
}

// TestPlainNumbers: a retired mark has no grant id, and a plain number has none either; they
// are not equal. A store in front never asks this, for it raises plain numbers first.
func TestPlainNumbers(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	plain := fencing.Token{Resource: "r", Number: 1}
	if err := errors.Join(b.Raise(t.Context(), plain), put(t.Context(), b, plain, "k", "v")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.GetFenced(t.Context(), plain, "k"); err != nil {
		t.Errorf("a fenced read: %v", err)
	}
	if err := b.Retire(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	wantStale(t, put(t.Context(), b, plain, "k", "late"), fencing.Retired)
	_, err := b.GetFenced(t.Context(), plain, "k")
	wantStale(t, err, fencing.Retired)
	wantStale(t, b.Raise(t.Context(), plain), fencing.Retired)
	if got := get(t, b, "r", "k"); got != "v" {
		t.Errorf("got %s, want v", got)
	}
}

// TestRaiseBehindRaise: what changes a mark and had to wait is judged by the mark that the wait
// left; a mark never goes back.
func TestRaiseBehindRaise(t *testing.T) {
	t.Parallel()
	for _, first := range []int64{0, 33} { // no mark yet, and one
		for name, op := range map[string]func(*pgstore.Backend, fencing.Token) error{
			"raise": func(b *pgstore.Backend, t fencing.Token) error { return b.Raise(context.Background(), t) },
			"evict": func(b *pgstore.Backend, t fencing.Token) error { return b.Evict(context.Background(), t) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b, pool := freshOwner(t)
				if first > 0 {
					raise(t, b, "r", first)
				}
				t50 := token("r", 50)
				tx := owner(t, pool, "select fencegate.raise('r', 50, $1)", t50.Grant)
				result := make(chan error, 1)
				go func() { result <- op(b, token("r", 34)) }()
				blocked(t, pool, 1)
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := <-result; name == "raise" {
					wantStale(t, err, fencing.Superseded)
				} else if err != nil {
					t.Errorf("evict: %v", err)
				}
				if m, err := b.Mark(t.Context(), "r"); err != nil || m != (fencing.Mark{Number: 50, Grant: t50.Grant}) {
					t.Errorf("got the mark %v, %v, want 50", m, err)
				}
			})
		}
	}
}
