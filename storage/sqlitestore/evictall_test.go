package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// TestEvictAll retires more marks than one transaction takes, beside raises and commits.
func TestEvictAll(t *testing.T) {
	t.Parallel()
	b, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "evict.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const marks = 2001
	tokens := make([]fencing.Token, marks)
	raised := make(chan error)
	for i := range tokens {
		tokens[i] = fencing.Token{Resource: fmt.Sprintf("r:%05d", i), Number: int64(i + 1), Grant: fencing.NewGrant()}
		go func() { raised <- b.Raise(t.Context(), tokens[i]) }()
	}
	for range tokens {
		if err := <-raised; err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Retire(t.Context(), tokens[7]); err != nil {
		t.Fatal(err)
	}
	var told []int
	n, err := b.EvictAll(t.Context(), func(n int) { told = append(told, n) })
	if n != marks-1 || err != nil || !slices.Equal(told, []int{1000, 2000, 2000}) {
		t.Errorf("got %d, %v, told %v, want %d in three steps", n, err, told, marks-1)
	}
	for _, tok := range tokens {
		if m, err := b.Mark(t.Context(), tok.Resource); err != nil || m != (fencing.Mark{Number: tok.Number, Retired: true}) {
			t.Fatalf("got the mark %v, %v, want %d (retired)", m, err, tok.Number)
		}
	}
	put := func(tok fencing.Token) error {
		return b.Apply(t.Context(), []storage.Commit{{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Put(tok.Resource, "a", nil)}}})[0].Err
	}
	stale, ok := errors.AsType[*fencing.StaleError](put(tokens[0]))
	if !ok || stale.Reason != fencing.Retired {
		t.Errorf("a token of before: got %v, want retired", stale)
	}
	next := fencing.Token{Resource: tokens[0].Resource, Number: 2, Grant: fencing.NewGrant()}
	if err := errors.Join(b.Raise(t.Context(), next), put(next)); err != nil {
		t.Errorf("a new token: %v", err)
	}
	if n, err := b.EvictAll(t.Context(), nil); n != 1 || err != nil {
		t.Errorf("again: got %d, %v, want the new one", n, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.EvictAll(ended, nil); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("got %v, want failed", err)
	}
}
