package memstore

import (
	"testing"

	"github.com/fencegate/fencegate/fencing"
)

// SetMark puts a mark into the backend, past the rule.
func (b *Backend) SetMark(tb testing.TB, resource string, m fencing.Mark) {
	tb.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.marks.set(resource, m); err != nil {
		tb.Fatal(err)
	}
}

// Age makes the idempotency records that a resource has now overdue.
func (b *Backend) Age(resource string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of := b.answers[resource]; of != nil {
		for key, a := range of.byKey {
			a.written = a.written.Add(-b.retention)
			of.byKey[key] = a
		}
	}
}
