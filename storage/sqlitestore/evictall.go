package sqlitestore

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

//go:embed sql/evict_all_step.sql
var evictAllStepSQL string

//go:embed sql/evict_all.sql
var evictAllSQL string

// evictAllMarks is how many marks a step of EvictAll retires: a few milliseconds of the
// writer.
const evictAllMarks = 1000

var _ storage.AllEvicter = (*Backend)(nil)

// EvictAll implements storage.AllEvicter. Between two of its transactions, of up to 1,000
// marks, others write. It is for a file whose rows were changed while it was open: what was
// raised before the file was opened is refused anyway.
func (b *Backend) EvictAll(ctx context.Context, progress func(evicted int)) (evicted int, err error) {
	for after := ""; ; {
		n, last, err := b.evictStep(ctx, after)
		if err != nil {
			if evicted > 0 {
				err = fencing.AsPartial(err)
			}
			return evicted, err
		}
		evicted += n
		if progress != nil {
			progress(evicted)
		}
		if n < evictAllMarks {
			return evicted, nil
		}
		after = last
	}
}

// evictStep retires the next marks after a resource; last is the resource of the last one.
func (b *Backend) evictStep(ctx context.Context, after string) (n int, last string, err error) {
	var step struct {
		n    int
		last string
	}
	out := b.lane.Do(ctx, func(t txn) (storage.Outcome, error) {
		err := t.QueryRowContext(noContext, evictAllStepSQL, after, evictAllMarks).Scan(&step.n, &step.last)
		if err == nil && step.n > 0 {
			_, err = t.ExecContext(noContext, evictAllSQL, after, step.last)
		}
		if err != nil {
			err = fmt.Errorf("evict all: %w", err)
		}
		return storage.Outcome{}, err
	})
	if err := out[0].Err; err != nil {
		return 0, "", err // the job may not be over, and write to step still
	}
	return step.n, step.last, nil
}
