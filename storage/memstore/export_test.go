package memstore

import "github.com/fencegate/fencegate/fencing"

// SetMark puts a mark into the backend, past the rule.
func (b *Backend) SetMark(resource string, m fencing.Mark) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.resource(resource).mark = m
}
