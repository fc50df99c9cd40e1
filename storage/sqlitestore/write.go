package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// job is one call's part of a batch. A refusal is an Outcome and wrote nothing; an error
// is SQLite's and ends the whole batch.
type job func(txn) (storage.Outcome, error)

// alone takes the turn for a caller whose context cannot end, so that it waits in any case, if nobody
// has it or waits for it. Such a caller works on its own goroutine, by runAlone.
func (b *Backend) alone(ctx context.Context) bool {
	if ctx.Done() != nil {
		return false
	}
	select {
	case b.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func (b *Backend) runAlone(do job) []storage.Outcome {
	defer b.passOn()
	end, err := b.begin()
	if err != nil {
		return []storage.Outcome{{Err: err}}
	}
	defer end()
	return b.runBatch([]job{do})
}

func (b *Backend) passOn() { <-b.turn }

// runLane runs the jobs that have come by the time that it is the lane's turn to write.
func (b *Backend) runLane(take func() []job) []storage.Outcome {
	growStack()
	if b.crowded.Load() {
		runtime.Gosched() // those whom the last batch has answered come back now, and not one batch later
	}
	b.turn <- struct{}{} // waits for an Update, if one is running
	defer b.passOn()
	jobs := take()
	b.crowded.Store(len(jobs) > 1)
	return b.runBatch(jobs)
}

// growStack lets the lane's new goroutine get at once the stack that SQLite will need, and not by doubling
// it several times, in the middle of SQLite's deep calls.
//
//go:noinline
func growStack() byte {
	var frame [stackNeed]byte
	return frame[int(stackUse.Load())%stackNeed]
}

const stackNeed = 20 << 10

var stackUse atomic.Uint32 // keeps the compiler from seeing through growStack

// runBatch runs jobs in one transaction. Each is judged by what those before it left. Callers have the
// turn.
func (b *Backend) runBatch(jobs []job) (out []storage.Outcome) {
	if len(jobs) == 0 {
		return nil
	}
	b.batches.Add(1)
	if b.onBatch != nil {
		b.onBatch(len(jobs))
	}
	fail := func(err error) []storage.Outcome {
		return slices.Repeat([]storage.Outcome{{Err: err}}, len(jobs))
	}
	undone := func(err error) []storage.Outcome {
		clear(b.writer.guesses)
		return fail(err)
	}
	err := b.useWriter(func(dc any) error {
		t := txn{&work{conn: b.writer, dc: dc, incarnation: b.incarnation, retention: b.retention, alone: len(jobs) == 1}}
		defer t.undo() // after COMMIT there is nothing to undo
		out = make([]storage.Outcome, len(jobs))
		for i, do := range jobs {
			var err error
			if out[i], err = do(t); err != nil {
				out = undone(t.failed(err))
				return nil
			}
		}
		if err := committed("commit", t.end()); err != nil {
			out = undone(err)
		}
		return nil
	})
	if err != nil {
		return fail(fencing.AsFailed(err)) // there is no connection: nothing was tried
	}
	return out
}

// useWriter is use of the lane's connection, or of a new one where a panic has closed it. Callers have
// the turn.
func (b *Backend) useWriter(f func(dc any) error) error {
	err := b.writer.use(f)
	if !errors.Is(err, sql.ErrConnDone) { // that is: f did not run
		return err
	}
	next, err := connect(noContext, b.lanes)
	if err != nil {
		return err
	}
	b.writer = next
	return next.use(f)
}

// committed gives an error of COMMIT, or of a statement that commits itself, its outcome. The driver
// has rolled back by then, but after an input/output error the commit's pages may be in the WAL all
// the same, and the next run would find them there.
func committed(what string, err error) error {
	if err == nil {
		return nil
	}
	wrapped := fmt.Errorf("%s: %w", what, err)
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff { // the rest is detail
		case sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM,
			sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_READONLY,
			// These are found before the commit's first page is written: by reading, or between two steps.
			sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_INTERRUPT:
			return fencing.AsFailed(wrapped)
		}
	}
	return fencing.AsUnknown(wrapped)
}

// Apply implements storage.Backend.
func (b *Backend) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	if len(batch) == 1 && b.alone(ctx) {
		return b.runAlone(func(t txn) (storage.Outcome, error) { return apply(t, batch[0]) })
	}
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
	if isLonePut(c) {
		if res, ok, err := t.lonePut(c); ok || err != nil {
			return storage.Outcome{Result: res}, err
		}
	}
	v, err := t.view(c)
	if err != nil {
		return storage.Outcome{}, err
	}
	res, ch, err := storage.Evaluate(c, v)
	if err != nil { // an outcome, not a failure of the batch
		return storage.Outcome{Err: err}, t.write(c, storage.Changes{Answer: ch.Answer})
	}
	return storage.Outcome{Result: res}, t.write(c, ch)
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
		if err := t.setMark(resource, after); err != nil || after.Grant != "" || after.Retired {
			return storage.Outcome{}, err
		}
		return storage.Outcome{}, t.notePlain()
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
