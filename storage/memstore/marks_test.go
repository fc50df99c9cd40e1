package memstore_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage/memstore"
)

// TestMarkSize: a resource of which only the mark is known takes 64 bytes beside its name. Where
// the table has just grown it is a few bytes more than before. The table is as full with a million.
func TestMarkSize(t *testing.T) { //nolint:paralleltest // it measures the heap of the process
	const n, most = 125_000, 64
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("coupon:%07d", i)
	}
	copies := make([]string, n)
	start := heap()
	for i, name := range names {
		copies[i] = strings.Clone(name)
	}
	keys := heap() - start
	runtime.KeepAlive(copies)
	grant := fencing.NewGrant()
	start = heap()
	b := memstore.New(nil)
	for _, name := range names {
		if err := b.Raise(t.Context(), fencing.Token{Resource: name, Number: 1, Grant: grant}); err != nil {
			t.Fatal(err)
		}
	}
	got := float64(heap()-start-keys) / n
	runtime.KeepAlive(b)
	runtime.KeepAlive(names)
	t.Logf("%.1f bytes for a mark beside its name", got)
	if got > most {
		t.Errorf("got %.1f bytes for a mark beside its name, want %d or less", got, most)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMarks: every mark comes back as it was, while the table grows, with any grant id.
func TestMarks(t *testing.T) {
	t.Parallel()
	const n = 3000
	b := memstore.New(nil)
	want := map[string]fencing.Mark{}
	check := func() {
		t.Helper()
		for resource, m := range want {
			if got, err := b.Mark(t.Context(), resource); err != nil || got != m {
				t.Fatalf("%s: got the mark %v, %v, want %v (the grant ids may differ too)", resource, got, err, m)
			}
		}
	}
	for i := range n {
		resource := fmt.Sprintf("r:%d", i)
		tok := fencing.Token{Resource: resource, Number: int64(i + 1), Grant: fencing.NewGrant()}
		switch i % 16 {
		case 0:
			tok.Grant = ""
		case 1:
			tok.Grant = strings.Repeat("7", fencing.GrantLen)
		case 2:
			tok.Grant = strings.Repeat("A", fencing.GrantLen-1) + "B"
		case 3:
			tok.Number = fencing.MaxNumber
		}
		if err := b.Raise(t.Context(), tok); err != nil {
			t.Fatal(err)
		}
		want[resource] = fencing.Mark{Number: tok.Number, Grant: tok.Grant}
		if i%16 == 5 {
			if err := b.Retire(t.Context(), tok); err != nil {
				t.Fatal(err)
			}
			want[resource] = fencing.Mark{Number: tok.Number, Retired: true}
		}
		if i < 20 {
			check()
		}
	}
	check()
	for _, grant := range []string{"A", strings.Repeat("A", 25) + "1", strings.Repeat("a", 26)} {
		if err := b.Raise(t.Context(), fencing.Token{Resource: "r:0", Number: 10, Grant: grant}); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("the grant id %q: got %v, want an *InvalidError", grant, err)
		}
	}
	check()
}
