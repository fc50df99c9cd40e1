package memstore

import (
	"context"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

var _ storage.AllEvicter = (*Backend)(nil)

// EvictAll implements storage.AllEvicter. Between two of its steps, of up to 1,024 marks, others are
// served.
func (b *Backend) EvictAll(ctx context.Context, progress func(evicted int)) (evicted int, err error) {
	for chunk, more := 0, true; more; chunk++ {
		if err := ctx.Err(); err != nil {
			if evicted > 0 {
				return evicted, fencing.AsPartial(err)
			}
			return 0, fencing.AsFailed(err)
		}
		var n int
		n, more = b.evictStep(chunk)
		evicted += n
		if progress != nil {
			progress(evicted)
		}
	}
	return evicted, nil
}

// evictStep retires the marks of a chunk, and says whether there is another one. A mark never moves.
func (b *Backend) evictStep(chunk int) (evicted int, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.marks.retire(chunk), chunk+1 < len(b.marks.chunks)
}
