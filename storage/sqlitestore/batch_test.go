package sqlitestore_test

import (
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

func TestOnBatch(t *testing.T) {
	t.Parallel()
	var sizes []int // by one at a time, and Apply waits for it
	b, err := sqlitestore.Open(t.Context(), t.TempDir()+"/store.db", &sqlitestore.Options{
		MaxBatch: 10, OnBatch: func(n int) { sizes = append(sizes, n) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	tok := raised(t, b, "a", 1)
	batch := make([]storage.Commit, 35)
	for i := range batch {
		batch[i] = storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add("a", "n", 1, 0)}}
	}
	for _, out := range b.Apply(t.Context(), batch) {
		if out.Err != nil {
			t.Fatal(out.Err)
		}
	}
	sum, most := 0, 0
	for _, n := range sizes {
		sum, most = sum+n, max(most, n)
	}
	if sum != 1+len(batch) || most != 10 {
		t.Errorf("got %v, want a raise and %d commits, in tens", sizes, len(batch))
	}
}
