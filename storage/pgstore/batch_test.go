package pgstore_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
)

func TestOnBatch(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards sizes
	var sizes []int
	pool := pgtxtest.Open(t, pgtxtest.Database(t))
	b := backend(t, pool, &pgstore.Options{OnBatch: func(n int) {
		mu.Lock()
		defer mu.Unlock()
		sizes = append(sizes, n)
	}})
	expect := func(when string, want ...int) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(sizes, want) {
			t.Errorf("%s: got %v, want %v", when, sizes, want)
		}
		sizes = nil
	}
	one, two := raise(t, b, "one", 1), raise(t, b, "two", 1)
	expect("raises")
	if err := put(t.Context(), b, one, "k", "v"); err != nil {
		t.Fatal(err)
	}
	expect("alone", 1)
	for _, out := range b.Apply(t.Context(), []storage.Commit{putOf(one, "a", "v"), putOf(two, "a", "v"), putOf(one, "b", "v")}) {
		if out.Err != nil {
			t.Fatal(out.Err)
		}
	}
	expect("together", 3)

	// The first one is tried, and again when the mark is free; the others, too, or they wait in line.
	tx := owner(t, pool, "select from fencegate.marks where resource = 'one' for no key update")
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			if err := put(t.Context(), b, one, fmt.Sprint(i), "v"); err != nil {
				t.Error(err)
			}
		})
	}
	blocked(t, pool, 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	if sum < 6 {
		t.Errorf("in line: got %v, want one more than the 5 commits, or more", sizes)
	}
}
