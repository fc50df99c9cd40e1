package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

func TestGroupCommit(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	const callers, each = 64, 10
	tokens := make([]fencing.Token, 8)
	for i := range tokens {
		tokens[i] = raised(t, b, fmt.Sprint("r", i), 1)
	}
	before := b.Batches()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			tok := tokens[i%len(tokens)]
			for range each {
				if _, err := commit(t.Context(), b, tok, storage.Add(tok.Resource, "n", 1, 0)); err != nil {
					t.Errorf("commit: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if got := b.Batches() - before; got > callers*each/4 {
		t.Errorf("%d commits took %d transactions, want far fewer", callers*each, got)
	}
	for _, tok := range tokens {
		rec, err := b.Get(t.Context(), tok.Resource, "n")
		if want := fmt.Sprint(callers / len(tokens) * each); err != nil || string(rec.Value) != want {
			t.Errorf("%s = %s, %v, want %s", tok.Resource, rec.Value, err, want)
		}
	}
}

func TestMaxBatch(t *testing.T) {
	t.Parallel()
	b, err := sqlitestore.Open(t.Context(), t.TempDir()+"/store.db", &sqlitestore.Options{MaxBatch: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	tok := raised(t, b, "a", 1)
	before := b.Batches()
	batch := make([]storage.Commit, 35)
	for i := range batch {
		batch[i] = storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add("a", "n", 1, 0)}}
	}
	for i, out := range b.Apply(t.Context(), batch) {
		if out.Err != nil || out.Result.Ops[0].Counter != int64(i+1) {
			t.Errorf("commit %d = %+v", i, out)
		}
	}
	if got := b.Batches() - before; got != 4 {
		t.Errorf("35 commits took %d transactions of at most 10, want 4", got)
	}
}

// TestRefusedCommit: SQLite refuses the COMMIT of a batch. Every call of it has failed, the one
// that the data had refused too: it was refused because of a write that never happened.
func TestRefusedCommit(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	tok := raised(t, b, "a", 1)
	one := storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Require("a", "k", 0), storage.Put("a", "k", nil)}}
	b.OnCommit(t, func() int32 { return 1 })
	for i, out := range b.Apply(t.Context(), []storage.Commit{one, one}) {
		if fencing.OutcomeOf(out.Err) != fencing.Failed || errors.Is(out.Err, storage.ErrVersionMismatch) {
			t.Errorf("commit %d = %v, want failed", i, out.Err)
		}
	}
	if err := b.Raise(t.Context(), token("a", 2)); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("raise = %v, want failed", err)
	}
	err := b.Update(t.Context(), func(tx *sql.Tx) error { _, err := tx.Exec("CREATE TABLE own (a)"); return err }, tok)
	if fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("update = %v, want failed", err)
	}
	b.OnCommit(t, nil)

	out := b.Apply(t.Context(), []storage.Commit{one, one})
	if out[0].Err != nil || !errors.Is(out[1].Err, storage.ErrVersionMismatch) {
		t.Errorf("afterwards = %v, %v, want applied, refused", out[0].Err, out[1].Err)
	}
}

// TestContextEndsInCommit: the caller goes while its COMMIT is under way. It does not wait, and
// does not know.
func TestContextEndsInCommit(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	tok := raised(t, b, "a", 1)
	reached, goOn := make(chan struct{}), make(chan struct{})
	b.OnCommit(t, func() int32 {
		close(reached)
		<-goOn
		return 0
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-reached
		cancel()
	}()
	_, err := commit(ctx, b, tok, storage.Put("a", "k", []byte("x")))
	if fencing.OutcomeOf(err) != fencing.Unknown || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want unknown", err)
	}
	close(goOn)
	testenv.Eventually(t, 30*time.Second, "the commit is there", func() bool {
		_, err := b.Get(t.Context(), "a", "k")
		return err == nil
	})
	b.OnCommit(t, nil)
}

// TestCallerMayReuseItsBuffer: whatever the outcome, the caller's memory is its own again
// when the call returns. The race detector is the judge.
func TestCallerMayReuseItsBuffer(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	b.Exec(t, "PRAGMA synchronous = OFF")
	tok := raised(t, b, "a", 1)
	value := make([]byte, 8<<10)
	ops := []storage.Op{storage.Put("a", "k", value)}
	for i := range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
		_, _ = commit(ctx, b, tok, ops...)
		cancel()
		for j := range value {
			value[j]++
		}
		ops[0].Key = fmt.Sprint("k", i%3)
		rec, err := b.Get(t.Context(), "a", "k")
		if err == nil && rec.Value[0] != rec.Value[len(rec.Value)-1] {
			t.Fatal("a torn value was written")
		}
	}
}

// TestFull: no space for a write. The batch fails as a whole, and the store goes on.
func TestFull(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	tok := raised(t, b, "a", 1)
	b.Exec(t, "PRAGMA max_page_count = 40")
	out := b.Apply(t.Context(), []storage.Commit{
		{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Put("a", "small", []byte("x"))}},
		{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Put("a", "large", make([]byte, 1<<20))}},
	})
	for i := range out {
		if fencing.OutcomeOf(out[i].Err) != fencing.Failed || !strings.Contains(out[i].Err.Error(), "full") {
			t.Errorf("commit %d = %v, want failed, because it is full", i, out[i].Err)
		}
	}
	if _, err := b.Get(t.Context(), "a", "small"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a part of the failed batch is there: %v", err)
	}
	if _, err := commit(t.Context(), b, tok, storage.Put("a", "small", []byte("x"))); err != nil {
		t.Errorf("a small write afterwards: %v", err)
	}
}

// TestWaitingEndsWithContext: while an Update holds the writer, a write has not begun, so it
// can be withdrawn, and never happens.
func TestWaitingEndsWithContext(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	tok := raised(t, b, "a", 1)
	err := b.Update(t.Context(), func(*sql.Tx) error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := commit(ctx, b, tok, storage.Put("a", "k", nil))
			if fencing.OutcomeOf(err) != fencing.Failed || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("commit = %v, want failed", err)
			}
		})
		wg.Go(func() {
			err := b.Update(ctx, func(*sql.Tx) error { t.Error("two at a time"); return nil }, tok)
			if fencing.OutcomeOf(err) != fencing.Failed || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("update = %v, want failed", err)
			}
		})
		wg.Wait()
		if _, err := b.GetFenced(t.Context(), tok, "k"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("a read beside an Update = %v, want ErrNotFound at once", err)
		}
		return nil
	}, tok)
	if err != nil {
		t.Fatal(err)
	}
	raised(t, b, "a", 2)
	if _, err := b.Get(t.Context(), "a", "k"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a commit that had failed is there: %v", err)
	}
}

// TestUpdateEndsWithContext: the transaction of a function that does not look at its
// context ends with it, and lets the others write.
func TestUpdateEndsWithContext(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	tok := raised(t, b, "a", 1)
	ctx, cancel := context.WithCancel(t.Context())
	err := b.Update(ctx, func(tx *sql.Tx) error {
		if _, err := tx.Exec("CREATE TABLE own (a)"); err != nil {
			return err
		}
		cancel()
		return b.Raise(t.Context(), token("a", 2)) // would wait for ever
	}, tok)
	if fencing.OutcomeOf(err) != fencing.Failed || !errors.Is(err, context.Canceled) {
		t.Errorf("update = %v, want failed", err)
	}
	var n int
	if err := b.Reader().QueryRow("SELECT count(*) FROM sqlite_schema WHERE name = 'own'").Scan(&n); err != nil || n != 0 {
		t.Errorf("its table is there: %d, %v", n, err)
	}
}

func TestUpdateThatCommitsItself(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	tok := raised(t, b, "a", 1)
	if err := b.Update(t.Context(), (*sql.Tx).Commit, tok); fencing.OutcomeOf(err) != fencing.Unknown {
		t.Errorf("got %v, want unknown", err)
	}
	if err := b.Update(t.Context(), func(*sql.Tx) error { return nil }, tok); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// TestUpdateThatIsEndedByFn: what fn returns, and a context that ends after it, do not undo a
// commit.
func TestUpdateThatIsEndedByFn(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	for name, after := range map[string]func(cancel func()) error{
		"and returns":                  func(func()) error { return nil },
		"and returns an error":         func(func()) error { return mine },
		"and returns a failed one":     func(func()) error { return fencing.AsFailed(mine) },
		"and the context ends":         func(cancel func()) error { cancel(); return nil },
		"and the context ends, failed": func(cancel func()) error { cancel(); return fencing.AsFailed(mine) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openNew(t)
			tok := raised(t, b, "a", 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var want error
			err := b.Update(ctx, func(tx *sql.Tx) error {
				if _, err := tx.Exec("CREATE TABLE own (a)"); err != nil {
					return err
				}
				if err := tx.Commit(); err != nil {
					return err
				}
				want = after(cancel)
				return want
			}, tok)
			if fencing.OutcomeOf(err) != fencing.Unknown || errors.Is(err, fencing.ErrFailed) || want != nil && !errors.Is(err, mine) {
				t.Errorf("got %v, want unknown, and fn's error", err)
			}
			raised(t, b, "a", 2) // the writer is free
		})
	}
}

func TestUpdateAsksForTokens(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	tok := raised(t, b, "a", 1)
	never := func(*sql.Tx) error { t.Error("the function ran"); return nil }
	for name, tokens := range map[string][]fencing.Token{
		"none": {}, "two of one resource": {tok, tok}, "bad": {{Resource: "a/b", Number: 1}},
	} {
		if err := b.Update(t.Context(), never, tokens...); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	err := b.Update(t.Context(), never, fencing.Token{Resource: "a", Number: 1})
	if stale, ok := errors.AsType[*fencing.StaleError](err); !ok || stale.Reason != fencing.GrantRequired {
		t.Errorf("a plain number: got %v, want grant-required", err)
	}
}

// TestCloseWaits: the file is given back when nobody uses it any more, not before.
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/store.db"
	b := open(t, path)
	tok := raised(t, b, "a", 1)
	closed := make(chan error, 1)
	err := b.Update(t.Context(), func(tx *sql.Tx) error {
		go func() { closed <- b.Close() }()
		testenv.Eventually(t, 30*time.Second, "closing", func() bool { _, err := b.Mark(t.Context(), "a"); return err != nil })
		if _, err := sqlitestore.Open(t.Context(), path, nil); !errors.Is(err, sqlitestore.ErrInUse) {
			t.Errorf("opened while an Update was running: %v", err)
		}
		_, err := tx.Exec("CREATE TABLE own (a)")
		return err
	}, tok)
	if err := errors.Join(err, <-closed); err != nil {
		t.Errorf("update and close: %v", err)
	}
	b = open(t, path)
	b.Exec(t, "SELECT a FROM own")
}
