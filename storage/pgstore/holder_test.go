package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage/pgstore"
)

var errStopped = errors.New("stopped")

// stopped begins an update and stops in the middle: idle, or while the server sends it an
// answer, which the server does not call idle.
func stopped(tb testing.TB, b *pgstore.Backend, inAnswer bool, t fencing.Token) (leave func() error) {
	tb.Helper()
	in, out, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ctx := context.WithoutCancel(tb.Context())
	go func() {
		done <- b.Update(ctx, func(tx pgx.Tx) error {
			if inAnswer { // far more than the sockets hold
				rows, err := tx.Query(ctx, "select repeat('x', 100000) from generate_series(1, 2000)")
				if err != nil {
					return err
				}
				defer rows.Close()
				rows.Next()
			}
			close(in)
			<-out
			return errStopped
		}, t)
	}()
	select {
	case <-in:
	case err := <-done:
		tb.Fatalf("the update ended before it stopped: %v", err)
	}
	return func() error {
		close(out)
		return <-done
	}
}

// TestStoppedClient: a client that stops in the middle of a transaction, wherever that is,
// does not keep a raise, a retirement or an eviction out for longer than MaxIdle allows, and
// who waits in the queue, before it and for longer than that, is not ended with it.
func TestStoppedClient(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"idle", "answer"} {
		for verb, call := range map[string]func(*pgstore.Backend, context.Context, fencing.Token) error{
			"raise": func(b *pgstore.Backend, ctx context.Context, t fencing.Token) error {
				return b.Raise(ctx, token(t.Resource, t.Number+1))
			},
			"retire": (*pgstore.Backend).Retire,
			"evict":  (*pgstore.Backend).Evict,
		} {
			t.Run(place+"/"+verb, func(t *testing.T) {
				t.Parallel()
				pool := pgtxtest.Open(t, pgtxtest.Database(t), pgtxtest.As("fencegate_gateway"))
				b := backend(t, pool, &pgstore.Options{MaxIdle: 600 * time.Millisecond, RaiseTimeout: 30 * time.Second})
				tok := raise(t, b, "r", 1)
				leave := stopped(t, b, place == "answer", tok)
				waiter, changed := make(chan error, 1), make(chan error, 1)
				if place == "answer" { // an idle one may be gone before the queue stands
					go func() { waiter <- put(t.Context(), b, tok, "k", "by the waiter") }()
					blocked(t, pool, 1)
				} else {
					waiter <- nil
				}
				go func() { changed <- call(b, t.Context(), tok) }()
				if err := errors.Join(<-waiter, <-changed); err != nil {
					t.Errorf("got %v, want the waiter and the %s to succeed", err, verb)
				}
				wantOutcome(t, leave(), fencing.Failed)
				if place == "answer" && get(t, b, "r", "k") != "by the waiter" {
					t.Error("the waiter's write is not there")
				}
			})
		}
	}
}

// TestShortOnTime: nobody waits for as long as MaxIdle, but somebody comes again and again.
func TestShortOnTime(t *testing.T) {
	t.Parallel()
	b := backend(t, pgtxtest.Open(t, pgtxtest.Database(t)), &pgstore.Options{MaxIdle: 800 * time.Millisecond, RaiseTimeout: 400 * time.Millisecond})
	leave := stopped(t, b, true, raise(t, b, "r", 1))
	testenv.Eventually(t, 20*time.Second, "a raise is let in", func() bool {
		return b.Raise(t.Context(), token("r", 2)) == nil
	})
	wantOutcome(t, leave(), fencing.Failed)
}

const lockMark = "select from fencegate.marks where resource = 'r' for no key update"

// TestYoungTransactionsAreLeftAlone: a raise behind a queue of transactions waits for longer
// than MaxIdle, and the last of them are older than that when their turn comes; but none of
// them has held the mark for so long.
func TestYoungTransactionsAreLeftAlone(t *testing.T) {
	t.Parallel()
	pool := pgtxtest.Open(t, pgtxtest.Database(t))
	const maxIdle = 3 * time.Second
	b := backend(t, pool, &pgstore.Options{MaxIdle: maxIdle, RaiseTimeout: time.Minute})
	tok := raise(t, b, "r", 1)
	gate := owner(t, pool, lockMark)
	const n = 4 // each is seen more than once
	updated, raised := make(chan error, n), make(chan error, 1)
	for range n {
		go func() {
			updated <- b.Update(t.Context(), func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "select pg_sleep(1.2)")
				return err
			}, tok)
		}()
	}
	blocked(t, pool, n)
	go func() { raised <- b.Raise(t.Context(), token("r", 2)) }()
	blocked(t, pool, n+1)
	began := time.Now()
	if err := gate.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := <-updated; err != nil {
			t.Errorf("update: %v", err)
		}
	}
	if err := <-raised; err != nil {
		t.Errorf("raise: %v", err)
	}
	if waited := time.Since(began); waited < maxIdle {
		t.Errorf("the raise waited for %v, which shows nothing", waited)
	}
}

// TestNamed: what is in the way and is not to be ended is named in the error, and stays.
func TestNamed(t *testing.T) {
	t.Parallel()
	// Each holds the mark, in a transaction that has no idle timeout, and returns what the error says of it.
	for name, c := range map[string]struct {
		hold func(testing.TB, pgx.Tx, *pgxpool.Pool) (want string)
		end  string // what ends it, if not the end of its transaction
	}{
		"no right": {hold: func(tb testing.TB, tx pgx.Tx, pool *pgxpool.Pool) string {
			// As where the schema belongs to somebody who is no superuser.
			if _, err := pool.Exec(tb.Context(), "alter function fencegate.mark_holder owner to fencegate_gateway"); err != nil {
				tb.Fatal(err)
			}
			return fmt.Sprintf("backend %d, which the owner of the schema may not end,", tx.Conn().PgConn().PID())
		}},
		"waits itself": {hold: func(tb testing.TB, tx pgx.Tx, pool *pgxpool.Pool) string {
			done := make(chan struct{})
			tb.Cleanup(func() { <-done }) // after the lock is free, before the transaction is rolled back
			owner(tb, pool, "select pg_advisory_xact_lock(7)")
			ctx := context.WithoutCancel(tb.Context())
			go func() {
				defer close(done)
				_, _ = tx.Exec(ctx, "select pg_advisory_xact_lock(7)")
			}()
			blocked(tb, pool, 1)
			return fmt.Sprintf("backend %d, which waits for something itself,", tx.Conn().PgConn().PID())
		}},
		"prepared": {hold: func(tb testing.TB, tx pgx.Tx, _ *pgxpool.Pool) string {
			if _, err := tx.Exec(tb.Context(), "prepare transaction 'it''s me'"); err != nil {
				tb.Fatal(err)
			}
			return "the prepared transaction 'it''s me'"
		}, end: "rollback prepared 'it''s me'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtxtest.Open(t, pgtxtest.NewDatabase(t))
			b := backend(t, pool, &pgstore.Options{MaxIdle: 50 * time.Millisecond, RaiseTimeout: time.Second})
			raise(t, b, "r", 1)
			want := c.hold(t, owner(t, pool, lockMark), pool)
			if c.end != "" {
				defer func() {
					if _, err := pool.Exec(context.WithoutCancel(t.Context()), c.end); err != nil {
						t.Errorf("%s: %v", c.end, err)
					}
				}()
			}
			err := b.Raise(t.Context(), token("r", 2))
			wantOutcome(t, err, fencing.Failed)
			if err == nil || !strings.Contains(err.Error(), want+" holds the mark") {
				t.Errorf("got %v, want %s", err, want)
			}
			var n int
			if err := pool.QueryRow(t.Context(), "select count(*) from pg_locks where relation = 'fencegate.marks'::regclass and granted").Scan(&n); err != nil || n == 0 {
				t.Errorf("%d transactions hold on to marks, %v, want the one that was in the way", n, err)
			}
		})
	}
}
