package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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

// TestAgain: an attempt is repeated only if it surely did not happen, for no reason of its own.
func TestAgain(t *testing.T) {
	t.Parallel()
	server := func(code string) error {
		return fmt.Errorf("wrapped: %w", &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: code})
	}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"serialization failure": {server("40001"), true},
		"deadlock":              {server("40P01"), true},
		"moved":                 {pgstore.ErrMoved, true},
		"constraint":            {server("23514"), false},
		"lock timeout":          {server("55P03"), false},
		"cancelled":             {server("57014"), false},
		"idle in transaction":   {server("25P03"), false},
		"terminated":            {server("57P01"), false},
		"connection lost":       {io.ErrUnexpectedEOF, false},
		"context ended":         {context.DeadlineExceeded, false},
	} {
		if got := pgstore.Again(fencing.AsFailed(c.err)); got != c.want {
			t.Errorf("%s: again = %t, want %t", name, got, c.want)
		}
		if pgstore.Again(fencing.AsUnknown(c.err)) {
			t.Errorf("%s: an unknown outcome is tried again", name)
		}
	}
}

// TestReplyLost: the connection dies around COMMIT, or that of a pooler to the server, which
// the pooler answers with an error of its own. Whether the commit took effect or not, the
// answer is unknown, and so is a raise's.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	for _, lose := range []string{"request", "reply", "stall", "pooler"} {
		for _, way := range []string{"commit", "update", "raise"} {
			t.Run(lose+"/"+way, func(t *testing.T) {
				t.Parallel()
				url := pgtxtest.Database(t)
				direct := backend(t, pgtxtest.Open(t, url), nil)
				tok := raise(t, direct, "r", 1)
				p := &proxy{}
				b := backend(t, pgtxtest.Open(t, url, p.through(t), func(c *pgxpool.Config) {
					c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // the proxy looks for the word
				}), nil)
				ready := raise(t, b, "other", 1)
				if err := errors.Join(put(t.Context(), b, ready, "k", "v"), b.Update(t.Context(), func(pgx.Tx) error { return nil }, ready)); err != nil {
					t.Fatal(err)
				}
				before := "(none)"
				if way == "commit" { // it is one statement where the record is there
					before = "old"
					if err := put(t.Context(), direct, tok, "k", before); err != nil {
						t.Fatal(err)
					}
				}
				p.set(lose)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				result := make(chan error, 1)
				go func() {
					switch way {
					case "commit":
						result <- put(ctx, b, tok, "k", "v")
					case "update":
						result <- b.Update(ctx, func(tx pgx.Tx) error { return write(ctx, tx, "v") }, tok)
					case "raise":
						result <- b.Raise(ctx, token("r", 2))
					}
				}()
				<-p.lost
				if lose != "request" {
					testenv.Eventually(t, testPatience, "it has taken effect", func() bool {
						m, err := direct.Mark(t.Context(), "r")
						return err == nil && (way == "raise" && m.Number == 2 || way != "raise" && get(t, direct, "r", "k") == "v")
					})
				}
				if lose == "stall" {
					cancel() // the context ends while COMMIT is in flight
				}
				wantOutcome(t, <-result, fencing.Unknown)
				if lose == "request" && get(t, direct, "r", "k") != before {
					t.Error("a commit that never arrived was applied")
				}
			})
		}
	}
}

// TestFailedEarly: what surely did not happen is failed, never unknown.
func TestFailedEarly(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	pool := pgtxtest.Open(t, url, func(c *pgxpool.Config) { c.MaxConns = 1 })
	b := backend(t, pool, nil)
	tok := raise(t, b, "r", 1)
	all := map[string]func(context.Context) error{
		"commit":      func(ctx context.Context) error { return put(ctx, b, tok, "k", "v") },
		"update":      func(ctx context.Context) error { return b.Update(ctx, func(pgx.Tx) error { return nil }, tok) },
		"raise":       func(ctx context.Context) error { return b.Raise(ctx, tok) },
		"retire":      func(ctx context.Context) error { return b.Retire(ctx, token("r", 9)) },
		"evict":       func(ctx context.Context) error { return b.Evict(ctx, token("r", 1)) },
		"mark":        func(ctx context.Context) error { _, err := b.Mark(ctx, "r"); return err },
		"get":         func(ctx context.Context) error { _, err := b.Get(ctx, "r", "k"); return err },
		"fenced read": func(ctx context.Context) error { _, err := b.GetFenced(ctx, tok, "k"); return err },
		"list":        func(ctx context.Context) error { _, err := b.List(ctx, "r", "", "", 1); return err },
	}
	conn, err := pool.Acquire(t.Context()) // now the pool is exhausted
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for name, call := range all {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := call(ctx); fencing.OutcomeOf(err) != fencing.Failed {
			t.Errorf("%s, pool exhausted: got %v, want failed", name, err)
		}
		cancel()
	}
	conn.Release()
	for name, call := range all {
		if err := call(ended); fencing.OutcomeOf(err) != fencing.Failed {
			t.Errorf("%s, context ended: got %v, want failed", name, err)
		}
	}
	if err := put(t.Context(), b, tok, "k", "v"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	pool.Close()
	for name, call := range all {
		if err := call(t.Context()); fencing.OutcomeOf(err) != fencing.Failed {
			t.Errorf("%s, pool closed: got %v, want failed", name, err)
		}
	}
}

// TestWaitIsCancelled: a context that ends while a commit waits for the mark is failed, and the
// commit does not come later.
func TestWaitIsCancelled(t *testing.T) {
	t.Parallel()
	b, pool := freshOwner(t)
	tok := raise(t, b, "r", 1)
	tx := owner(t, pool, "select from fencegate.marks where resource = 'r' for no key update")
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- put(ctx, b, tok, "k", "v") }()
	blocked(t, pool, 1)
	cancel()
	wantOutcome(t, <-result, fencing.Failed)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Raise(t.Context(), token("r", 2)); err != nil {
		t.Fatal(err)
	}
	if got := get(t, b, "r", "k"); got != "(none)" {
		t.Errorf("got %s, want nothing written", got)
	}
}

// TestErrorsShowNoGrant provokes a failed constraint, whose detail shows the row.
func TestErrorsShowNoGrant(t *testing.T) {
	t.Parallel()
	pool := pgtxtest.Open(t, pgtxtest.NewDatabase(t))
	b := backend(t, pool, nil)
	if _, err := pool.Exec(t.Context(), "alter table fencegate.marks add check (number <> 13), add check (base < 1)"); err != nil {
		t.Fatal(err)
	}
	bad := token("r", 13)
	ok := raise(t, b, "r", 1)
	apply := func(op storage.Op) error {
		return b.Apply(t.Context(), []storage.Commit{{Tokens: []fencing.Token{ok}, Ops: []storage.Op{op}}})[0].Err
	}
	if err := apply(storage.Put("r", "k", nil)); err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]struct {
		err   error
		grant string
	}{
		"raise":  {b.Raise(t.Context(), bad), bad.Grant},
		"commit": {apply(storage.Delete("r", "k")), ok.Grant},
	} {
		wantOutcome(t, got.err, fencing.Failed)
		e, isPg := errors.AsType[*pgconn.PgError](got.err)
		if !isPg {
			t.Fatalf("%s: got %v, want the server's error", what, got.err)
		}
		if text := fmt.Sprintf("%v %+v", got.err, *e); strings.Contains(text, got.grant) {
			t.Errorf("%s: the error shows the grant: %s", what, text)
		}
	}
}
