package memstore

import (
	"context"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

var _ storage.AllEvicter = (*Backend)(nil)

// EvictAll implements storage.AllEvicter, in one step.
func (b *Backend) EvictAll(ctx context.Context, progress func(evicted int)) (evicted int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, fencing.AsFailed(err)
	}
	b.mu.Lock()
	b.marks.all(func(m fencing.Mark) fencing.Mark {
		if m.Retired {
			return m
		}
		evicted++
		return fencing.Mark{Number: m.Number, Retired: true}
	})
	b.mu.Unlock()
	if progress != nil {
		progress(evicted)
	}
	return evicted, nil
}
