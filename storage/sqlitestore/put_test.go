package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencingtest"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// putter writes one record by commits of one Put, which are one statement each.
type putter struct {
	testing.TB
	ctx context.Context
	b   *sqlitestore.Backend
	t   fencing.Token
}

func (p putter) put(want int64) {
	p.Helper()
	res, err := commit(p.ctx, p.b, p.t, storage.Put(p.t.Resource, "k", []byte("x")))
	if err != nil || res.Ops[0].Version != want {
		p.Fatalf("put: got %+v, %v, want version %d", res.Ops, err, want)
	}
	rec, err := p.b.Get(p.ctx, p.t.Resource, "k")
	if err != nil || rec.Version != want || string(rec.Value) != "x" {
		p.Fatalf("get: got %q, version %d, %v, want x, version %d", rec.Value, rec.Version, err, want)
	}
}

func (p putter) refused(reason fencing.Reason) {
	p.Helper()
	_, err := commit(p.ctx, p.b, p.t, storage.Put(p.t.Resource, "k", []byte("stale")))
	if stale, ok := errors.AsType[*fencing.StaleError](err); !ok || stale.Reason != reason {
		p.Fatalf("put: got %v, want refused because of %q", err, reason)
	}
}

func (p putter) update(statement string) {
	p.Helper()
	err := p.b.Update(p.ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(statement, p.t.Resource)
		return err
	}, p.t)
	if err != nil {
		p.Fatal(err)
	}
}

// TestLonePut: whatever happened to the record meanwhile, what the store thinks its version is does
// not count. With a context that can end a put is the lane's, else the caller's own.
func TestLonePut(t *testing.T) {
	t.Parallel()
	for name, ctx := range map[string]context.Context{"lane": t.Context(), "own": context.Background()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := putter{t, ctx, openNew(t), token("a", 1)}
			p.refused(fencing.Ungranted)
			if err := p.b.Raise(ctx, p.t); err != nil {
				t.Fatal(err)
			}
			p.put(1)
			p.put(2)
			p.update("UPDATE fencegate_records SET version = 7 WHERE resource = ?1")
			p.put(8)
			p.put(9)
			p.b.OnCommit(t, func() int32 { return 1 })
			if _, err := commit(ctx, p.b, p.t, storage.Put("a", "k", nil)); fencing.OutcomeOf(err) != fencing.Failed {
				t.Errorf("a COMMIT that is refused: got %v, want failed", err)
			}
			p.b.OnCommit(t, nil)
			p.put(10)
			if _, err := commit(ctx, p.b, p.t, storage.Delete("a", "k")); err != nil {
				t.Fatal(err)
			}
			p.put(11)
			p.update("DELETE FROM fencegate_records WHERE resource = ?1") // past the store: it knows no base
			p.put(11)
			old := p
			p.t = raised(t, p.b, "a", 2)
			old.refused(fencing.Superseded)
			twin := p
			twin.t.Grant = fencing.NewGrant()
			twin.refused(fencing.Duplicate)
			p.put(12)
			if _, err := commit(ctx, p.b, p.t, storage.Delete("a", "k")); err != nil {
				t.Fatal(err)
			}
			if err := p.b.Retire(ctx, p.t); err != nil {
				t.Fatal(err)
			}
			p.refused(fencing.Retired)
			if n, err := p.b.PruneYoung(ctx); n != 1 || err != nil {
				t.Fatalf("prune: got %d, %v, want 1", n, err)
			}
			p.t = raised(t, p.b, "a", 3)
			p.put(13) // no version comes twice, also where its base was pruned
		})
	}
}

// TestLonePutOfAnEarlierRun: the mark of the run before is no mark, also for one statement.
func TestLonePutOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/store.db"
	b, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := putter{t, t.Context(), b, raised(t, b, "a", 1)}
	p.put(1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	p.b = open(t, path)
	p.refused(fencing.Retired)
}

// TestCloseEndsOwnCalls: a call on its own goroutine is refused after Close, as those of the lane are.
func TestCloseEndsOwnCalls(t *testing.T) {
	t.Parallel()
	b, err := sqlitestore.Open(t.Context(), t.TempDir()+"/store.db", nil)
	if err != nil {
		t.Fatal(err)
	}
	tok := raised(t, b, "a", 1)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = commit(context.Background(), b, tok, storage.Put("a", "k", nil))
	if !errors.Is(err, sqlitestore.ErrClosed) || fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("got %v, want ErrClosed, failed", err)
	}
}

// TestCloseEmptiesTheLog: the last connection to go leaves no WAL behind; none may be left open.
func TestCloseEmptiesTheLog(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/store.db"
	b, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	tok := raised(t, b, "a", 1)
	ctx, cancel := context.WithCancel(t.Context())
	err = b.Update(ctx, func(tx *sql.Tx) error { // an interrupted connection is replaced
		cancel()
		_, err := tx.ExecContext(ctx, "CREATE TABLE own (a)")
		return err
	}, tok)
	if fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("update: got %v, want failed", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if exists(path + suffix) {
			t.Errorf("%s is still there", suffix)
		}
	}
}

// TestLonePutLooksAtAllOfTheMark: where the version is known too, each part of the mark counts.
func TestLonePutLooksAtAllOfTheMark(t *testing.T) {
	t.Parallel()
	p := putter{t, t.Context(), openNew(t), token("a", 5)}
	mark := fencing.Mark{Number: p.t.Number, Grant: p.t.Grant}
	retired, above := mark, mark
	retired.Retired, above.Number = true, 6
	current := func() { p.b.SetState(t, "a", fencingtest.State{Mark: mark}) }
	current()
	p.put(1)
	for _, c := range []struct {
		state  fencingtest.State
		reason fencing.Reason
	}{
		{fencingtest.State{Mark: retired}, fencing.Retired},
		{fencingtest.State{Mark: mark, Inherited: true}, fencing.Retired},
		{fencingtest.State{Mark: above}, fencing.Superseded},
	} {
		p.b.SetState(t, "a", c.state)
		p.refused(c.reason)
	}
	current()
	p.put(2)
}
