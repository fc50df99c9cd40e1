package sqlitestore_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/storage"
)

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestNamesAreCopied: a name is often a piece of a request. What the store knows of the record must not
// keep the rest, neither when the name is new nor when it comes again.
func TestNamesAreCopied(t *testing.T) { //nolint:paralleltest // it measures the heap of the process
	const puts, size = 50, 1 << 20
	b := openNew(t)
	b.Exec(t, "PRAGMA synchronous = OFF")
	tok := raised(t, b, "a", 1)
	before := heap()
	for range 2 {
		for i := range puts {
			large := fmt.Sprintf("%06d", i) + strings.Repeat("k", size)
			if _, err := commit(context.Background(), b, tok, storage.Put("a", large[:6], nil)); err != nil {
				t.Fatal(err)
			}
		}
		if got := heap() - before; got > puts*size/10 {
			t.Errorf("%d names keep %d KiB", puts, got>>10)
		}
	}
	runtime.KeepAlive(b)
}

// TestValuesAreLetGo: a statement that was prepared for good keeps nothing of its last call.
func TestValuesAreLetGo(t *testing.T) { //nolint:paralleltest // the same
	const size = 8 << 20
	b := openNew(t)
	b.Exec(t, "PRAGMA synchronous = OFF")
	tok := raised(t, b, "a", 1)
	before := heap()
	large := func() storage.Op { return storage.Put("a", "k", make([]byte, size)) }
	for _, step := range []struct {
		name string
		ops  func() []storage.Op
	}{
		{"a put", func() []storage.Op { return []storage.Op{large()} }},
		{"a put of a known version", func() []storage.Op { return []storage.Op{large()} }},
		{"two puts", func() []storage.Op { return []storage.Op{large(), storage.Put("a", "l", nil)} }},
		{"a read", func() []storage.Op { return []storage.Op{storage.Require("a", "k", 3)} }},
	} {
		if _, err := commit(context.Background(), b, tok, step.ops()...); err != nil {
			t.Fatal(err)
		}
		if got := heap() - before; got > size/2 {
			t.Errorf("after %s %d KiB are kept", step.name, got>>10)
		}
	}
	runtime.KeepAlive(b)
}

// TestGuessesAreBounded: what the store knows of versions does not grow with the number of records.
func TestGuessesAreBounded(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	const records, most = 40_000, 1 << 14
	if got := b.Guess(records); got == 0 || got > most {
		t.Errorf("got the versions of %d records, of %d that were written, want %d at most", got, records, most)
	}
}
