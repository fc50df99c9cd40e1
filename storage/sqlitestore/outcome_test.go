package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// TestCorrupt: what is wrong with the file is found by reading, before anything is written. A put that
// is one statement says failed then, as every other commit does.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	for name, ctx := range map[string]context.Context{"lane": t.Context(), "own": context.Background()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openNew(t)
			tok := raised(t, b, "a", 1)
			b.Exec(t, "PRAGMA writable_schema = ON")
			b.Exec(t, "UPDATE sqlite_schema SET rootpage = 3 WHERE name = 'fencegate_records'") // of another table
			b.Exec(t, "PRAGMA writable_schema = RESET")
			for _, op := range []storage.Op{storage.Put("a", "k", nil), storage.Add("a", "k", 1, 0)} {
				_, err := commit(ctx, b, tok, op)
				if fencing.OutcomeOf(err) != fencing.Failed || !strings.Contains(err.Error(), "malformed") {
					t.Errorf("%s: got %v (%v), want failed, because it is malformed", op.Kind, err, fencing.OutcomeOf(err))
				}
				if err != nil && strings.Contains(err.Error(), "commit") {
					t.Errorf("%s: got %v, want nothing of a commit", op.Kind, err)
				}
			}
		})
	}
}

// TestBeginFails: where the transaction did not begin, whatever the reason, nothing was tried.
func TestBeginFails(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	tok := raised(t, b, "a", 1)
	broken := errors.New("input/output error")
	mend := b.BreakBegin(t, broken)
	_, add := commit(t.Context(), b, tok, storage.Add("a", "n", 1, 0))
	for _, err := range []error{add, b.Raise(t.Context(), token("a", 2)), b.Retire(t.Context(), tok)} {
		if fencing.OutcomeOf(err) != fencing.Failed || !errors.Is(err, broken) {
			t.Errorf("got %v, want failed", err)
		}
	}
	mend()
	if _, err := commit(t.Context(), b, tok, storage.Add("a", "n", 1, 0)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestContextEndsInCommitOfUpdate: the context of an Update ends while its COMMIT is under way. The
// COMMIT goes on, so nobody else may write before it is over.
func TestContextEndsInCommitOfUpdate(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	tok := raised(t, b, "a", 1)
	reached, goOn := make(chan struct{}), make(chan struct{})
	reach := sync.OnceFunc(func() { close(reached) })
	b.OnCommit(t, func() int32 {
		reach()
		<-goOn
		return 0
	})
	ctx, cancel := context.WithCancel(t.Context())
	updated := make(chan error)
	go func() {
		updated <- b.Update(ctx, func(tx *sql.Tx) error {
			_, err := tx.Exec("CREATE TABLE own (a)")
			return err
		}, tok)
	}()
	<-reached
	cancel()
	short, done := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer done()
	_, err := commit(short, b, tok, storage.Put("a", "k", nil))
	if fencing.OutcomeOf(err) != fencing.Failed || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a put meanwhile: got %v (%v), want that it waited for its turn", err, fencing.OutcomeOf(err))
	}
	close(goOn)
	if err := <-updated; err != nil {
		t.Errorf("update: got %v, want applied", err)
	}
	b.OnCommit(t, nil)
	if _, err := commit(t.Context(), b, tok, storage.Put("a", "k", nil)); err != nil {
		t.Errorf("a put afterwards: %v", err)
	}
}

// TestPanicInACall: a panic closes the connection, and its caller may recover. The next call has another.
func TestPanicInACall(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/store.db"
	b, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := putter{t, context.Background(), b, raised(t, b, "a", 1)}
	p.put(1)
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("there was no panic")
				}
			}()
			b.Panic()
		}()
	}
	p.put(2)
	p.put(3)
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if exists(path + "-wal") {
		t.Error("the WAL is still there: a connection was left open")
	}
}

// TestClosedAfterAPanic: Close has no connection of the lane to close.
func TestClosedAfterAPanic(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	func() {
		defer func() { _ = recover() }()
		b.Panic()
	}()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
