package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

func once(ctx context.Context, b *sqlitestore.Backend, key string, tok fencing.Token) error {
	_, err := b.UpdateOnce(ctx, key, func(*sql.Tx) error { return nil }, tok)
	return err
}

func keyed(ctx context.Context, b *sqlitestore.Backend, key string, tok fencing.Token) error {
	return b.Apply(ctx, []storage.Commit{{
		Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add(tok.Resource, "n", 1, 0)}, Key: key,
	}})[0].Err
}

// TestOverdueKeysGo: whatever writes a record of an idempotency key removes overdue ones of its resource,
// more than the one that it writes, and not all at once.
func TestOverdueKeysGo(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(context.Context, *sqlitestore.Backend, string, fencing.Token) error{
		"UpdateOnce": once, "Apply": keyed,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const many = 40
			b := openNew(t)
			b.Exec(t, "PRAGMA synchronous = OFF")
			tok := raised(t, b, "a", 1)
			do := func(key string) {
				t.Helper()
				if err := write(t.Context(), b, key, tok); err != nil {
					t.Fatal(err)
				}
			}
			for i := range many {
				do(fmt.Sprint("old", i))
			}
			b.Age(t, "a")
			do("mine")
			if got := b.Answers(t, "a"); got != many+1 {
				t.Errorf("the token is the mark: got %d records, want all %d", got, many+1)
			}
			b.Exec(t, "DELETE FROM fencegate_answers WHERE key = 'mine'")
			tok = raised(t, b, "a", 2)
			do("first")
			if got := b.Answers(t, "a"); got <= 1 || got >= many {
				t.Errorf("after one: got %d records of %d overdue ones and a new one, want fewer than before it, not all", got, many)
			}
			for i := range many / 2 {
				do(fmt.Sprint("next", i))
			}
			if got := b.Answers(t, "a"); got != many/2+1 {
				t.Errorf("after %d: got %d records, want those only", many/2+1, got)
			}
		})
	}
}

// TestSweepAfterReopen: a token of an earlier run is nobody's mark, so its overdue records go.
func TestSweepAfterReopen(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/store.db"
	b, err := sqlitestore.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyed(t.Context(), b, "k", raised(t, b, "a", 1)); err != nil {
		t.Fatal(err)
	}
	b.Age(t, "a")
	if n, err := b.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("the token is the mark: removed %d, %v, want none", n, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, path)
	if n, err := b.Sweep(t.Context()); n != 1 || err != nil || b.Answers(t, "a") != 0 {
		t.Errorf("in the next run: removed %d, %v, want the one", n, err)
	}
}
