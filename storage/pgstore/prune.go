package pgstore

import (
	"context"
	_ "embed" // the statement
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/internal/prune"
)

//go:embed sql/prune.sql
var pruneSQL string

// pruneVersion is the oldest version of the schema that has what pruning needs.
const pruneVersion = 8

// MinPruneAge is the least age that [Backend.Prune] takes, an hour: the longest TTL of a
// lock. A mark is then only dropped when no request of its token is under way any more, and
// what is refused in its place is told the number of a floor, which is that of no token.
const MinPruneAge = prune.MinAge

// ErrPlain matches the error of [Backend.Prune] for a store that has ever taken a plain number.
var ErrPlain = prune.ErrPlain

// pruneWait is how long a step waits for its lock. That is the raises of new resources that are
// under way; those that come after it wait for the step. So it waits for a moment only, and
// comes back.
const pruneWait = 250 * time.Millisecond

// Prune drops the marks that are retired, or of an earlier incarnation, and have not been
// raised, retired or evicted for olderThan by the server's clock; [MinPruneAge] or more. In
// their place the floor rises to the highest number that was dropped: where there is no mark,
// every token up to it is refused, and no later one can be raised up to it. So no number that
// was dropped is ever accepted again, in any resource; the next grant of one without a mark
// has a number above the floor. In the same way no version of a record comes twice.
//
// Never dropped are live marks (also of holders that died without a release: evict them, or
// wait for the next grant), records, and marks whose number, or whose highest version of a
// deleted record, is above 2^52: the floor is everybody's, and one resource that somebody has
// bricked must not use up the numbers of all.
//
// A store that has ever taken a plain number (one without a grant id, as classic stores do from
// an outside lock service) is not pruned, [ErrPlain]: such a service cannot be told of a floor,
// and its numbers below it, in any resource, would be refused for ever. For the same reason
// do not give a store that was pruned to such a service.
//
// It works in steps, by name: each looks at up to 1,000 marks and is a transaction of its
// own. Only a step that drops something holds off others, and those are the first raises of
// resources that have no mark. progress, if it is not nil, is told after every step how many
// marks were looked at and dropped so far.
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

func (b *Backend) prune(ctx context.Context, olderThan time.Duration, drop bool, progress func(looked, dropped int)) (int, error) {
	if err := prune.Validate(olderThan); err != nil {
		return 0, err
	}
	if err := pgtx.Check(ctx, b.pool, pruneVersion); err != nil {
		return 0, err
	}
	return prune.Run(ctx, b.pruneStep(olderThan, drop), progress)
}

func (b *Backend) pruneStep(olderThan time.Duration, drop bool) prune.Step {
	return func(ctx context.Context, after string) (last string, looked, dropped int, err error) {
		err = pgtx.Call(ctx, b.pool, pgtx.Limits{Wait: pruneWait}, pgtx.Row(&last, &looked, &dropped),
			pruneSQL, after, olderThan.Milliseconds(), prune.Page, drop)
		if pgtx.HasCode(err, pgtx.LockNotAvailable) {
			err = fencing.AsFailed(errors.Join(prune.ErrBusy, err))
		}
		if pgtx.HasCode(err, prune.CodePlain) {
			err = fencing.AsFailed(ErrPlain)
		}
		if err != nil {
			return "", 0, 0, err
		}
		return last, looked, dropped, nil
	}
}
