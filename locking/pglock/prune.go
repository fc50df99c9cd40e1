package pglock

import (
	"context"
	_ "embed" // the statements
	"time"

	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/internal/prune"
)

var (
	//go:embed sql/prune.sql
	pruneSQL string
	//go:embed sql/row_prune.sql
	rowPruneSQL string
)

// pruneVersion is the oldest version of the schema that has what pruning needs.
const pruneVersion = 8

// MinPruneAge is the least age that [Backend.Prune] takes: locking.MaxTTL, an hour. With a
// counter goes the memory of its last grant. A delayed repeat of that grant's request, which
// is told ErrLost as long as it is there, would take the lock anew: a hold with a number of
// its own, which does no harm but that nobody works under it until its TTL is over. So the age
// has to be longer than any request is repeated, or is on its way.
const MinPruneAge = prune.MinAge

// Prune drops the counters of locks, of both modes of this package, that nobody holds or
// waits for, and nobody did for olderThan by the server's clock; [MinPruneAge] or more.
// In their place a floor rises to the highest number that was dropped, and the first number of
// a lock that has no counter is drawn above it. So no number comes twice.
//
// Never dropped are counters of locks that are held or waited for, and counters above 2^52:
// the floor is everybody's, and one lock must not use up the numbers of all.
//
// It works in steps, by name: each looks at up to 1,000 counters and is a transaction of its
// own. A request that comes for a counter just as it is dropped waits for that, or is told
// held, with nothing remaining. progress, if it is not nil, is told after every step how many
// counters were looked at and dropped so far.
//
// When ctx ends, Prune stops between two steps. Beside an error, of ctx too, dropped counts what
// was done before it, which stays done; the outcome is failed only if that is nothing. It is safe to call at any
// time, from several processes at once, and again. [ErrSchema] says that the database has a
// schema of before version 8; a *fencing.InvalidError that the age is too low.
func (b *Backend) Prune(ctx context.Context, olderThan time.Duration, progress func(looked, dropped int)) (dropped int, err error) {
	return prune.Partly(b.prune(ctx, olderThan, true, progress))
}

// Prunable counts what Prune would drop now, and changes nothing.
func (b *Backend) Prunable(ctx context.Context, olderThan time.Duration, progress func(looked, dropped int)) (n int, err error) {
	return b.prune(ctx, olderThan, false, progress)
}

// Prune is [Backend.Prune]: it drops the counters of both modes.
func (b *RowLocks) Prune(ctx context.Context, olderThan time.Duration, progress func(looked, dropped int)) (dropped int, err error) {
	return prune.Partly(b.prune(ctx, olderThan, true, progress))
}

// Prunable is [Backend.Prunable].
func (b *RowLocks) Prunable(ctx context.Context, olderThan time.Duration, progress func(looked, dropped int)) (n int, err error) {
	return b.prune(ctx, olderThan, false, progress)
}

func (c caller) prune(ctx context.Context, olderThan time.Duration, drop bool, progress func(looked, dropped int)) (int, error) {
	if err := prune.Validate(olderThan); err != nil {
		return 0, err
	}
	if err := pgtx.Check(ctx, c.pool, pruneVersion); err != nil {
		return 0, err
	}
	return c.pruneBoth(ctx, olderThan, drop, progress)
}

// pruneBoth is one pass over the leases' counters and one over those of row locks.
func (c caller) pruneBoth(ctx context.Context, olderThan time.Duration, drop bool, progress func(looked, dropped int)) (dropped int, err error) {
	var looked int
	sum := func(l, d int) {
		looked = l
		if progress != nil {
			progress(l, d)
		}
	}
	dropped, err = prune.Run(ctx, c.pruneStep(pruneSQL, olderThan, drop), sum)
	if err != nil {
		return dropped, err
	}
	leases, first := looked, dropped
	dropped, err = prune.Run(ctx, c.pruneStep(rowPruneSQL, olderThan, drop), func(l, d int) { sum(leases+l, first+d) })
	return first + dropped, err
}

func (c caller) pruneStep(sql string, olderThan time.Duration, drop bool) prune.Step {
	return func(ctx context.Context, after string) (last string, looked, dropped int, err error) {
		err = c.row(ctx, []any{&last, &looked, &dropped}, sql, after, olderThan.Milliseconds(), prune.Page, drop)
		if err != nil {
			return "", 0, 0, err
		}
		return last, looked, dropped, nil
	}
}
