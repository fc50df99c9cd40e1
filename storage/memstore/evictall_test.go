package memstore_test

import (
	"context"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage/memstore"
)

func TestEvictAll(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	tok := fencing.Token{Resource: "r", Number: 33, Grant: fencing.NewGrant()}
	if err := b.Raise(t.Context(), tok); err != nil {
		t.Fatal(err)
	}
	told := -1
	for _, want := range []int{1, 0} { // what is retired is not counted again
		if n, err := b.EvictAll(t.Context(), func(n int) { told = n }); n != want || told != want || err != nil {
			t.Errorf("got %d, %v, told %d, want %d", n, err, told, want)
		}
	}
	if m, err := b.Mark(t.Context(), "r"); err != nil || m != (fencing.Mark{Number: 33, Retired: true}) {
		t.Errorf("got the mark %v, %v, want 33 (retired)", m, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.EvictAll(ended, nil); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("got %v, want failed", err)
	}
}
