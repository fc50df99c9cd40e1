package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/storage"
)

func conns(n int32) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.MinConns, c.MaxConns = 0, n }
}

// big is more than may travel with others.
var big = strings.Repeat("x", 300<<10)

// TestWaitersLeaveRoom: the places of those who wait for marks are all taken, by callers who have
// left, too. A commit that need not wait is carried out all the same, whatever its size.
func TestWaitersLeaveRoom(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	b := backend(t, pgtxtest.Open(t, url, conns(4)), nil)
	other := pgtxtest.Open(t, url)
	free := raise(t, b, "free", 1)
	const n = 120
	var tokens []fencing.Token
	for i := range n {
		tokens = append(tokens, raise(t, b, fmt.Sprintf("r%d", i), 1))
	}
	tx := owner(t, other, "select from fencegate.marks where resource like 'r%' for no key update")
	// Half of them stay. The others leave, and their lines with them.
	var staying, leaving sync.WaitGroup
	for i := range n / 2 {
		staying.Go(func() {
			if err := put(t.Context(), b, tokens[i], "k", "v"); err != nil {
				t.Errorf("r%d: %v", i, err)
			}
		})
		leaving.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := put(ctx, b, tokens[n/2+i], "k", "v"); err == nil {
				t.Errorf("r%d: a commit came through a locked mark", n/2+i)
			}
		})
	}
	leaving.Wait()
	blocked(t, other, 2)
	for i, value := range []string{"v", big} {
		// With a place for each of those who have stayed it would take their looks, 2 s each.
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if err := put(ctx, b, free, fmt.Sprint("k", i), value); err != nil {
			t.Errorf("%d bytes on a free resource: %v", len(value), err)
		}
		cancel()
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	staying.Wait()
}

// TestLargeCommitInsideUpdate: somebody waits for the mark that an Update has, and the Update
// itself commits something large elsewhere. They must not wait for each other.
func TestLargeCommitInsideUpdate(t *testing.T) {
	t.Parallel()
	pool := pgtxtest.Open(t, pgtxtest.NewDatabase(t), conns(3))
	b := backend(t, pool, nil)
	r, s := raise(t, b, "r", 1), raise(t, b, "s", 1)
	var group sync.WaitGroup
	if err := b.Update(t.Context(), func(pgx.Tx) error {
		group.Go(func() {
			if err := put(t.Context(), b, r, "k", "v"); err != nil {
				t.Error(err)
			}
		})
		blocked(t, pool, 1)
		return put(t.Context(), b, s, "k", big)
	}, r); err != nil {
		t.Error(err)
	}
	group.Wait()
}

// TestAddReadsNoLargeValue: a value that is no counter by its size is not read.
func TestAddReadsNoLargeValue(t *testing.T) {
	t.Parallel()
	b, _ := freshOwner(t)
	tok := raise(t, b, "r", 1)
	for key, value := range map[string]string{"big": big, "longest": "-9007199254740991", "longer": "-90071992547409910"} {
		if err := put(t.Context(), b, tok, key, value); err != nil {
			t.Fatal(err)
		}
	}
	add := func(key string, delta int64) error {
		ops := []storage.Op{storage.Add("r", key, delta, storage.NoMinimum), storage.Put("r", "beside", nil)}
		return b.Apply(t.Context(), []storage.Commit{{Tokens: []fencing.Token{tok}, Ops: ops}})[0].Err
	}
	for key, want := range map[string]string{"big": "not an integer", "longer": "not an integer", "longest": ""} {
		if err := add(key, 1); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("add to %s: got %v, want %q", key, err, want)
		}
	}
}
