package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// TestEvictAllInSteps: others are served between two steps, and ctx is looked at.
func TestEvictAllInSteps(t *testing.T) {
	t.Parallel()
	const marks = 2500
	b := memstore.New(nil)
	for i := range marks {
		tok := fencing.Token{Resource: fmt.Sprintf("r:%d", i), Number: 1, Grant: fencing.NewGrant()}
		if err := b.Raise(t.Context(), tok); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	if n, err := b.EvictAll(ended, func(int) { cancel() }); n != 1024 || fencing.OutcomeOf(err) != fencing.Unknown || !errors.Is(err, context.Canceled) {
		t.Errorf("ended after a step: got %d, %v, want 1024, partly done", n, err)
	}
	var told []int
	n, err := b.EvictAll(t.Context(), func(n int) { told = append(told, n) })
	if n != marks-1024 || err != nil || !slices.Equal(told, []int{0, 1024, marks - 1024}) {
		t.Errorf("got %d, %v, told %v, want %d in three steps", n, err, told, marks-1024)
	}
	for i := range marks {
		resource := fmt.Sprintf("r:%d", i)
		if m, err := b.Mark(t.Context(), resource); err != nil || m != (fencing.Mark{Number: 1, Retired: true}) {
			t.Fatalf("%s: got the mark %v, %v, want 1 (retired)", resource, m, err)
		}
	}
}
