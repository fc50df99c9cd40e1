package sqlitestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// job is one call's part of a batch. A refusal is an Outcome and wrote nothing; an error
// is SQLite's and ends the whole batch.
type job func(txn) (storage.Outcome, error)

// runBatch runs the jobs that have come by the time that the write lock is there, in one
// transaction. Each is judged by what those before it left.
func (b *Backend) runBatch(take func() []job) []storage.Outcome {
	fail := func(jobs []job, err error) []storage.Outcome {
		return slices.Repeat([]storage.Outcome{{Err: err}}, len(jobs))
	}
	tx, err := b.writer.BeginTx(noContext, nil) // waits for an Update, if one is running
	if err != nil {
		return fail(take(), fencing.AsFailed(fmt.Errorf("begin: %w", err)))
	}
	defer tx.Rollback() //nolint:errcheck // after COMMIT it does nothing
	b.batches.Add(1)
	jobs := take()
	out := make([]storage.Outcome, len(jobs))
	for i, do := range jobs {
		if out[i], err = do(txn{tx, b.write, b.incarnation}); err != nil {
			return fail(jobs, fencing.AsFailed(err))
		}
	}
	if err := committed(tx.Commit()); err != nil {
		return fail(jobs, err)
	}
	return out
}

// committed gives an error of COMMIT its outcome. The driver has rolled back by then, but
// after an input/output error the commit's pages may be in the WAL all the same, and the
// next run would find them there.
func committed(err error) error {
	if err == nil {
		return nil
	}
	wrapped := fmt.Errorf("commit: %w", err)
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff { // the rest is detail
		case sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM,
			sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_READONLY:
			return fencing.AsFailed(wrapped)
		}
	}
	return fencing.AsUnknown(wrapped)
}

// Apply implements storage.Backend.
func (b *Backend) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	jobs := make([]job, len(batch))
	for i, c := range batch {
		c = own(c)
		jobs[i] = func(t txn) (storage.Outcome, error) { return apply(t, c) }
	}
	return b.lane.Do(ctx, jobs...)
}

// own copies what the caller may change: it can be gone, its context at an end, while the
// batch still reads.
func own(c storage.Commit) storage.Commit {
	c.Tokens = slices.Clone(c.Tokens)
	c.Ops = slices.Clone(c.Ops)
	for i := range c.Ops {
		c.Ops[i].Value = bytes.Clone(c.Ops[i].Value)
	}
	return c
}

func apply(t txn, c storage.Commit) (storage.Outcome, error) {
	v, err := t.view(c)
	if err != nil {
		return storage.Outcome{}, err
	}
	res, ch, err := storage.Evaluate(c, v)
	if err != nil {
		return storage.Outcome{Err: err}, nil //nolint:nilerr // a refusal is an outcome, not a failure of the batch
	}
	return storage.Outcome{Result: res}, t.write(ch)
}

// change replaces a resource's mark.
func (b *Backend) change(ctx context.Context, resource string, op func(fencing.Mark) (fencing.Mark, error)) error {
	return b.lane.Do(ctx, func(t txn) (storage.Outcome, error) {
		before, _, err := t.mark(resource)
		if err != nil {
			return storage.Outcome{}, err
		}
		after, err := op(before)
		if err != nil || after == before {
			return storage.Outcome{Err: err}, nil //nolint:nilerr // the same
		}
		return storage.Outcome{}, t.setMark(resource, after)
	})[0].Err
}

// Raise implements fencing.Fence.
func (b *Backend) Raise(ctx context.Context, t fencing.Token) error {
	return b.change(ctx, t.Resource, func(m fencing.Mark) (fencing.Mark, error) { return m.Raise(t) })
}

// Retire implements fencing.Fence.
func (b *Backend) Retire(ctx context.Context, t fencing.Token) error {
	return b.change(ctx, t.Resource, func(m fencing.Mark) (fencing.Mark, error) { return m.Retire(t), nil })
}

// Evict implements fencing.Fence.
func (b *Backend) Evict(ctx context.Context, t fencing.Token) error {
	return b.change(ctx, t.Resource, func(m fencing.Mark) (fencing.Mark, error) { return m.Evict(t), nil })
}
