package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/storage"
)

//go:embed sql/evict_all.sql
var evictAllSQL string

const (
	// evictAllMarks is how many marks a step of EvictAll retires in one transaction.
	evictAllMarks = 1000
	// evictAllErrors is how many marks that it could not retire EvictAll names.
	evictAllErrors = 10
)

var _ storage.AllEvicter = (*Backend)(nil)

// EvictAll implements storage.AllEvicter. A step is a transaction of up to 1,000 marks that
// waits for nobody. The marks that fenced transactions had locked come last, one by one, as
// Evict does it: each waits for Options.RaiseTimeout at most, and a transaction that is seen at
// work for longer than Options.MaxIdle is ended. One that may not be ended does not keep the
// others: the error names it, and the rest is retired.
func (b *Backend) EvictAll(ctx context.Context, progress func(evicted int)) (evicted int, err error) {
	tell := func(n int) {
		evicted += n
		if progress != nil {
			progress(evicted)
		}
	}
	var locked []fencing.Token
	for after := ""; ; {
		step, err := b.evictStep(ctx, after)
		if err != nil {
			return evicted, partly(evicted, err)
		}
		n := 0
		for _, m := range step {
			if m.evicted {
				n++
			} else {
				locked = append(locked, fencing.Token{Resource: m.resource, Number: m.number})
			}
		}
		tell(n)
		if len(step) < evictAllMarks {
			break
		}
		after = step[len(step)-1].resource
	}
	var failed []error
	for _, t := range locked {
		changed, err := b.evictLocked(ctx, t)
		switch {
		case err != nil && ctx.Err() != nil:
			return evicted, partly(evicted, errors.Join(append(failed, err)...))
		case err != nil:
			failed = append(failed, err)
		case changed:
			tell(1)
		}
	}
	if more := len(failed) - evictAllErrors; more > 0 {
		failed = append(failed[:evictAllErrors], fencing.AsFailed(fmt.Errorf("and %d more", more)))
	}
	return evicted, partly(evicted, errors.Join(failed...))
}

// partly is err with the outcome of a call that has retired so many marks.
func partly(evicted int, err error) error {
	if evicted == 0 {
		return err
	}
	return fencing.AsPartial(err)
}

// seenMark is a mark as a step found it.
type seenMark struct {
	resource string
	number   int64
	evicted  bool
}

// evictStep retires the next marks after a resource, but for those that are locked.
func (b *Backend) evictStep(ctx context.Context, after string) (step []seenMark, err error) {
	ctx, wait, cancel := pgtx.Deadline(ctx, b.o.RaiseTimeout, b.changeTimeout())
	defer cancel()
	read := func(rows pgx.Rows) error {
		var m seenMark
		_, err := pgx.ForEachRow(rows, []any{&m.resource, &m.number, &m.evicted}, func() error {
			step = append(step, m)
			return nil
		})
		return err
	}
	err = pgtx.Call(ctx, b.pool, pgtx.Limits{Idle: b.o.MaxIdle, Wait: wait}, read, evictAllSQL, after, evictAllMarks)
	return step, err
}

// evictLocked is Evict for a mark that was locked. It reports whether the mark was changed.
func (b *Backend) evictLocked(ctx context.Context, t fencing.Token) (changed bool, err error) {
	// The first must not use up what the others have. The context lasts longer than the wait: only the server's answer
	// tells for sure that nothing happened, and who was in the way.
	ctx, cancel := context.WithTimeout(ctx, b.changeTimeout())
	defer cancel()
	ctx, wait, end := pgtx.Deadline(ctx, b.o.RaiseTimeout, b.changeTimeout())
	defer end()
	err = b.changeWithin(ctx, min(wait, b.o.RaiseTimeout), "evict", t, evictSQL, &changed)
	return changed, err
}
