package sqlitestore

import (
	"context"
	_ "embed" // the statements
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/prune"
	"github.com/fencegate/fencegate/storage"
)

//go:embed sql/prune_look.sql
var pruneLookSQL string

//go:embed sql/prune_floor.sql
var pruneFloorSQL string

//go:embed sql/prune_plain.sql
var prunePlainSQL string

//go:embed sql/prune_set_plain.sql
var pruneSetPlainSQL string

//go:embed sql/prune_bases.sql
var pruneBasesSQL string

//go:embed sql/prune_marks.sql
var pruneMarksSQL string

// MinPruneAge is the least age that [Backend.Prune] takes, an hour: the longest TTL of a
// lock. A mark is then only dropped when no request of its token is under way any more, and
// what is refused in its place is told the number of a floor, which is that of no token.
const MinPruneAge = prune.MinAge

// ErrPlain matches the error of [Backend.Prune] for a store that has ever taken a plain number.
var ErrPlain = prune.ErrPlain

// mostPruned is the highest number, and base, that is dropped: half of all numbers. The floor
// is everybody's, and one resource that somebody has bricked must not use up the numbers of all.
const mostPruned = fencing.MaxNumber/2 + 1

// Prune drops the marks that are retired, or of an earlier run of the store, and have not been
// raised, retired or evicted for olderThan by the system's clock; [MinPruneAge] or more. With
// them go the highest versions of their resources' deleted records. In their place floors
// rise to the highest that was dropped: where there is no mark, every token up to the floor
// is refused, and no later one can be raised up to it. So no number that was dropped is ever
// accepted again, in any resource; the next grant of one without a mark has a number above the
// floor. In the same way no version of a record comes twice.
//
// Never dropped are live marks (those that this run has raised, and nobody has retired or
// evicted), records, and marks whose number, or whose highest version of a deleted record, is
// above 2^52.
//
// A store that has ever taken a plain number (one without a grant id, as classic stores do from
// an outside lock service) is not pruned, [ErrPlain]: such a service cannot be told of a floor,
// and its numbers below it, in any resource, would be refused for ever. For the same reason
// do not give a store that was pruned to such a service.
//
// It works in steps, by name: each looks at up to 1,000 marks and is one call among others
// for the writer, so that commits get in between. progress, if it is not nil, is told after
// every step how many marks were looked at and dropped so far. The file does not become smaller:
// what is free is used again.
//
// When ctx ends, Prune stops between two steps. Beside an error, of ctx too, dropped counts what
// was done before it, which stays done; the outcome is failed only if that is nothing. It is safe to call at any
// time, and again. A *fencing.InvalidError says that the age is too low.
func (b *Backend) Prune(ctx context.Context, olderThan time.Duration, progress func(looked, dropped int)) (dropped int, err error) {
	if err := prune.Validate(olderThan); err != nil {
		return 0, err
	}
	return prune.Partly(prune.Run(ctx, b.pruneStep(olderThan, true), progress))
}

// Prunable counts what Prune would drop now, and changes nothing.
func (b *Backend) Prunable(ctx context.Context, olderThan time.Duration, progress func(looked, dropped int)) (n int, err error) {
	if err := prune.Validate(olderThan); err != nil {
		return 0, err
	}
	return prune.Run(ctx, b.pruneStep(olderThan, false), progress)
}

// pruned is what a step found, and dropped.
type pruned struct {
	last           string
	looked, marks  int
	highest, bases int64
}

func (b *Backend) pruneStep(olderThan time.Duration, drop bool) prune.Step {
	return func(ctx context.Context, after string) (last string, looked, dropped int, err error) {
		var p pruned
		before := time.Now().Add(-olderThan).Unix()
		out := b.lane.Do(ctx, func(t txn) (_ storage.Outcome, err error) {
			var plain bool
			if err := t.QueryRowContext(noContext, prunePlainSQL).Scan(&plain); err != nil || plain {
				return storage.Outcome{Err: fencing.AsFailed(ErrPlain)}, err
			}
			p, err = t.prune(after, before, drop)
			return storage.Outcome{}, err
		})
		if err := out[0].Err; err != nil {
			return "", 0, 0, err
		}
		return p.last, p.looked, p.marks, nil
	}
}

// notePlain notes for good that a plain number has become a mark.
func (t txn) notePlain() error {
	_, err := t.ExecContext(noContext, pruneSetPlainSQL)
	return err
}

// prune is one step. Whoever is judged by a mark is judged by the same writer, before or after
// it: so no lock is needed.
func (t txn) prune(after string, before int64, drop bool) (p pruned, err error) {
	err = t.QueryRowContext(noContext, pruneLookSQL, after, t.incarnation, before, prune.Page, int64(mostPruned)).
		Scan(&p.last, &p.looked, &p.marks, &p.highest, &p.bases)
	if err != nil || p.marks == 0 || !drop {
		return p, err
	}
	if _, err := t.ExecContext(noContext, pruneFloorSQL, p.highest, p.bases); err != nil {
		return p, fmt.Errorf("prune: %w", err)
	}
	for _, sql := range []string{pruneBasesSQL, pruneMarksSQL} {
		if _, err := t.ExecContext(noContext, sql, after, t.incarnation, before, p.last, int64(mostPruned)); err != nil {
			return p, fmt.Errorf("prune: %w", err)
		}
	}
	return p, nil
}
