package pgstore_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/storage/pgstore"
)

func write(ctx context.Context, tx pgx.Tx, value string) error {
	_, err := tx.Exec(ctx, "insert into fencegate.records values ('r', 'k', $1, 1)", []byte(value))
	return err
}

// TestUpdateRollsBack: whatever way fn leaves without success, nothing is written, no lock is
// left, and the caller learns that it failed.
func TestUpdateRollsBack(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	ended, cancel := context.WithCancel(t.Context())
	for _, c := range []struct {
		name string
		ctx  context.Context
		fn   func(ctx context.Context, tx pgx.Tx) error
		is   error
		want fencing.Outcome
	}{
		{"its own error", nil, func(context.Context, pgx.Tx) error { return mine }, mine, fencing.Failed},
		{"an error with an outcome", nil, func(context.Context, pgx.Tx) error { return &fencing.StaleError{} }, fencing.ErrStale, fencing.Refused},
		{"a failed statement that it ignores", nil, func(ctx context.Context, tx pgx.Tx) error {
			_, _ = tx.Exec(ctx, "select 1/0")
			return nil
		}, pgx.ErrTxCommitRollback, fencing.Failed},
		{"a context that ends", ended, func(context.Context, pgx.Tx) error { cancel(); return nil }, context.Canceled, fencing.Failed},
		{"a connection that is cut", nil, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "select pg_terminate_backend(pg_backend_pid())")
			return err
		}, nil, fencing.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, _ := freshOwner(t)
			tok := raise(t, b, "r", 1)
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			err := b.Update(ctx, func(tx pgx.Tx) error {
				if err := write(t.Context(), tx, "undone"); err != nil {
					return err
				}
				return c.fn(ctx, tx)
			}, tok)
			wantOutcome(t, err, c.want)
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want one that is %v", err, c.is)
			}
			after(t, b)
		})
	}
	for name, leave := range map[string]func(){"panic": func() { panic("mine") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := freshOwner(t)
			tok := raise(t, b, "r", 1)
			left := make(chan any)
			go func() {
				defer func() { left <- recover() }()
				_ = b.Update(t.Context(), func(tx pgx.Tx) error {
					if err := write(t.Context(), tx, "undone"); err != nil {
						return err
					}
					leave()
					return nil
				}, tok)
				t.Error("update returned")
			}()
			if got := <-left; name == "panic" && got != "mine" {
				t.Errorf("recovered %v, want fn's own panic", got)
			}
			after(t, b)
		})
	}
}

// after looks for what a failed update may not leave behind.
func after(tb testing.TB, b *pgstore.Backend) {
	tb.Helper()
	if got := get(tb, b, "r", "k"); got != "(none)" {
		tb.Errorf("got %s, want nothing written", got)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Second)
	defer cancel()
	if err := b.Raise(ctx, token("r", 2)); err != nil {
		tb.Errorf("a raise afterwards: %v, want no lock left", err)
	}
}

// TestUpdateOwnsItsTransaction: fn cannot commit by accident, and where it does so by force,
// nobody says that it failed.
func TestUpdateOwnsItsTransaction(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	tok := raise(t, b, "r", 1)
	err := b.Update(t.Context(), func(tx pgx.Tx) error {
		if tx.Commit(t.Context()) == nil || tx.Rollback(t.Context()) == nil {
			t.Error("fn could end its transaction")
		}
		inner, err := tx.Begin(t.Context()) // a savepoint is fine
		if err != nil {
			return err
		}
		if err := write(t.Context(), inner, "undone"); err != nil {
			return err
		}
		return errors.Join(inner.Rollback(t.Context()), write(t.Context(), tx, "v"))
	}, tok)
	if err != nil || get(t, b, "r", "k") != "v" {
		t.Errorf("got %v, %s, want v", err, get(t, b, "r", "k"))
	}
	for _, result := range []error{nil, errors.New("mine")} {
		err = b.Update(t.Context(), func(tx pgx.Tx) error {
			_, _ = tx.Exec(t.Context(), "commit")
			return result
		}, tok)
		wantOutcome(t, err, fencing.Unknown)
	}
}

func TestUpdateAdmits(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	tok := raise(t, b, "r", 1)
	plain, other := tok, token("r", 2)
	plain.Grant = ""
	never := func(pgx.Tx) error { t.Error("fn was called"); return nil }
	for name, tokens := range map[string][]fencing.Token{
		"none": {}, "two for one": {tok, other}, "no resource": {{Number: 1, Grant: fencing.NewGrant()}}, "no number": {{Resource: "r", Grant: tok.Grant}},
	} {
		if err := b.Update(t.Context(), never, tokens...); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	wantStale(t, b.Update(t.Context(), never, plain), fencing.GrantRequired)
	wantStale(t, b.Update(t.Context(), never, other), fencing.Ungranted)
}

// TestMaxIdle: a client that stops in the middle of its transaction is put out, and a raise
// comes through. What it commits later has failed.
func TestMaxIdle(t *testing.T) {
	t.Parallel()
	_, pool := fresh(t)
	b := backend(t, pool, &pgstore.Options{MaxIdle: time.Second}) // the write comes sooner, on a busy machine, too
	tok := raise(t, b, "r", 1)
	err := b.Update(t.Context(), func(tx pgx.Tx) error {
		if err := write(t.Context(), tx, "undone"); err != nil {
			return err
		}
		return b.Raise(t.Context(), token("r", 2)) // waits for this very transaction
	}, tok)
	wantOutcome(t, err, fencing.Failed)
	if got := get(t, b, "r", "k"); got != "(none)" {
		t.Errorf("got %s, want nothing written", got)
	}
	if m, err := b.Mark(t.Context(), "r"); err != nil || m.Number != 2 {
		t.Errorf("got the mark %v, %v, want 2", m, err)
	}
}

// TestSettings looks at what a fenced transaction runs with, by what the session has.
func TestSettings(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	for have, want := range map[string]string{
		"off": "on", "local": "on", "on": "on", "remote_write": "on", "remote_apply": "remote_apply",
	} {
		b := backend(t, pgtxtest.Open(t, url, func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["synchronous_commit"] = have
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
			c.ConnConfig.RuntimeParams["client_min_messages"] = "error"
		}), nil)
		tok := raise(t, b, "r-"+have, 1)
		err := b.Update(t.Context(), func(tx pgx.Tx) error {
			for name, want := range map[string]string{
				"synchronous_commit": want, "transaction_isolation": "read committed",
				"idle_in_transaction_session_timeout": "5s", "client_min_messages": "warning",
			} {
				var got string
				if err := tx.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&got); err != nil || got != want {
					t.Errorf("session with synchronous_commit %s: got %s = %s, %v, want %s", have, name, got, err, want)
				}
			}
			return nil
		}, tok)
		if err != nil {
			t.Error(err)
		}
	}
}
