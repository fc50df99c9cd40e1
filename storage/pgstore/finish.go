package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/storage"
)

// errMoved says that a token was not the mark when the fence looked, and is now: it was
// raised in between. Nothing but another look is right.
var errMoved = errors.New("the mark changed while it was checked")

var errBusy = errors.New("somebody else has the mark locked")

// again reports whether an attempt that ended with err, before its COMMIT, may be repeated.
func again(err error) bool {
	return fencing.OutcomeOf(err) == fencing.Failed &&
		(errors.Is(err, errMoved) || pgtx.HasCode(err, pgtx.SerializationFailure, pgtx.DeadlockDetected))
}

func asStale(err error) (*fencing.StaleError, bool) { return errors.AsType[*fencing.StaleError](err) }

// finish writes what was judged and commits, in one round trip; in the same one it asks why
// marks could not be locked.
func (r *round) finish(ctx context.Context, wait bool) []verdict {
	batch := &pgx.Batch{}
	explain := r.queueExplain(batch, wait)
	asked := batch.Len()
	r.queueWrites(batch)
	writes := batch.Len() - asked
	switch {
	case batch.Len() == 0:
		return r.out // nothing to write: the transaction is rolled back
	case writes == 0:
		batch.Queue("rollback")
	default:
		batch.Queue("commit")
	}
	if err := ctx.Err(); err != nil {
		return r.failed(fencing.AsFailed(err))
	}
	pgtx.Forget(r.conn.Conn())
	br := r.conn.SendBatch(ctx, batch)
	defer br.Close()
	if err := explain(br); err != nil {
		return r.broken(pgtx.Before(fmt.Errorf("read the marks of refused tokens: %w", err), writes > 0))
	}
	for range writes {
		if _, err := br.Exec(); err != nil {
			return r.broken(pgtx.Before(err, true))
		}
	}
	if writes == 0 {
		return r.out
	}
	tag, err := br.Exec()
	if err := pgtx.Committed(r.conn.Conn(), tag, err); err != nil {
		return r.broken(err)
	}
	return r.out
}

// broken gives those commits the error of the round whose answer rests on it. If it is
// unknown whether the round was committed, so it is of each that wrote; but not of one that
// only looked.
func (r *round) broken(err error) []verdict {
	if fencing.OutcomeOf(err) == fencing.Failed {
		return r.failed(err)
	}
	for i := range r.out {
		switch {
		case r.rests[i] == onItself:
			r.out[i] = verdict{Outcome: storage.Outcome{Err: err}}
		case r.rests[i] == onOthers || slices.Contains(r.missing, i):
			r.out[i] = verdict{Outcome: storage.Outcome{Err: fencing.AsFailed(err)}, next: alone}
		}
	}
	return r.out
}

// queueExplain asks for the marks that were not locked, and settles what that says.
//
// A token that is not the mark is refused: without a key that needs no lock, for a mark never
// goes back. With one, a transaction that has the mark locked may be about to write the key's
// record. So it is refused only if there was no mark at all to lock; and as one may have been
// made since, the record is looked up once more, behind the marks.
func (r *round) queueExplain(batch *pgx.Batch, wait bool) func(pgx.BatchResults) error {
	var resources []string
	list := r.missing
	for _, i := range r.missing {
		if r.commits[i].Key != "" && !wait {
			r.out[i] = verdict{Outcome: storage.Outcome{Err: fencing.AsFailed(errBusy)}, next: busy}
			list = without(list, i)
			continue
		}
		for _, t := range r.commits[i].Tokens {
			resources = append(resources, t.Resource)
		}
	}
	if len(list) == 0 {
		return func(pgx.BatchResults) error { return nil }
	}
	slices.Sort(resources)
	batch.Queue(marksSQL, slices.Compact(resources))
	asked := r.queueAnswers(batch, list)
	return func(br pgx.BatchResults) error {
		marks, err := readMarks(br.Query())
		if err == nil && asked {
			err = r.readAnswers(br)
		}
		if err != nil {
			return err
		}
		for _, i := range list {
			r.out[i] = r.explain(r.commits[i], marks, wait)
		}
		return nil
	}
}

func (r *round) explain(c storage.Commit, marks map[string]fencing.Mark, wait bool) verdict {
	if id, keyed := c.KeyID(); keyed && r.answers[id] != nil {
		res, _, err := storage.Evaluate(c, storage.View{Answer: r.answers[id]})
		return verdict{Outcome: storage.Outcome{Result: res, Err: err}}
	}
	for _, t := range c.Tokens {
		if err := marks[t.Resource].Current(t); err != nil {
			return verdict{Outcome: storage.Outcome{Err: err}}
		}
	}
	if wait {
		return verdict{Outcome: storage.Outcome{Err: fencing.AsFailed(errMoved)}, next: alone}
	}
	return verdict{Outcome: storage.Outcome{Err: fencing.AsFailed(errBusy)}, next: busy}
}

func readMarks(rows pgx.Rows, err error) (map[string]fencing.Mark, error) {
	if err != nil {
		return nil, err
	}
	marks := map[string]fencing.Mark{}
	var resource string
	var m fencing.Mark
	_, err = pgx.ForEachRow(rows, []any{&resource, &m.Number, &m.Grant, &m.Retired}, func() error {
		marks[resource] = m
		return nil
	})
	return marks, err
}

// queueWrites queues what the round changes: idempotency records, then data, in order.
func (r *round) queueWrites(batch *pgx.Batch) {
	r.queueFresh(batch)
	var put struct {
		resources, keys []string
		values          [][]byte
		versions        []int64
	}
	var gone struct{ resources, keys []string }
	for _, id := range slices.SortedFunc(maps.Keys(r.changed), compareID) {
		rec, ok := r.view.Records[id]
		if !ok {
			gone.resources, gone.keys = append(gone.resources, id.Resource), append(gone.keys, id.Key)
			continue
		}
		if rec.Value == nil {
			rec.Value = []byte{} // nil would be sent as NULL
		}
		put.resources, put.keys = append(put.resources, id.Resource), append(put.keys, id.Key)
		put.values, put.versions = append(put.values, rec.Value), append(put.versions, rec.Version)
	}
	if len(put.keys) > 0 {
		batch.Queue(putSQL, put.resources, put.keys, put.values, put.versions)
	}
	if len(gone.keys) > 0 {
		batch.Queue(deleteSQL, gone.resources, gone.keys)
	}
	if len(r.raised) > 0 {
		resources := slices.Sorted(maps.Keys(r.raised))
		bases := make([]int64, len(resources))
		for i, resource := range resources {
			bases[i] = r.view.Bases[resource]
		}
		batch.Queue(basesSQL, resources, bases)
	}
}

func compareID(a, b storage.RecordID) int {
	return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Key, b.Key))
}

func without(list []int, n int) []int {
	return slices.DeleteFunc(slices.Clone(list), func(i int) bool { return i == n })
}
