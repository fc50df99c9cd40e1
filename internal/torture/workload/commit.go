package workload

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/storage"
)

// patience is for how long a commit with a key is sent again while its outcome is unknown.
const patience = 20 * time.Second

// attempt is a commit as it is sent.
type attempt struct {
	id     string // of the op
	tokens []fencing.Token
	cells  []history.Cell
	ops    []storage.Op
	key    string
	forged bool
}

// commit makes the turn's commit. The hold that it returns is the one that the turn has afterwards: a commit with
// a key may need another one than it began with.
func (t *turn) commit(ctx context.Context, h *hold, cells []history.Cell, how manner) (*hold, error) {
	if t.transact != nil {
		return h, t.transact(ctx, t, h.tokens, how)
	}
	a := t.attempt(h.tokens, cells)
	err := t.send(ctx, a)
	if a.key == "" {
		return h, err
	}
	if h, err = t.resolve(ctx, h, a, err); err == nil && ctx.Err() == nil && chance(t.Rand, t.Odd) {
		a.id = t.Next()
		_ = t.send(ctx, a) // what was applied is answered as it was
	}
	return h, err
}

// writeOnce is one more commit of the turn, which is not pursued.
func (t *turn) writeOnce(ctx context.Context, tokens []fencing.Token, cells []history.Cell, how manner) {
	if t.transact != nil {
		_ = t.transact(ctx, t, tokens, how)
		return
	}
	a := t.attempt(tokens, cells)
	a.forged = how.forged
	_ = t.send(ctx, a)
}

func (t *turn) attempt(tokens []fencing.Token, cells []history.Cell) attempt {
	a := attempt{id: t.Next(), tokens: tokens, cells: cells}
	a.ops = t.write(tokens, cells, a.id)
	if t.keyed {
		a.key = a.id
	}
	return a
}

// send sends an attempt; one without tokens is a one-call commit.
func (t *turn) send(ctx context.Context, a attempt) error {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	op := t.op(history.Commit)
	op.ID, op.Key, op.Cells, op.Forged = a.id, a.key, a.cells, a.forged
	op.Writes, op.Once = writes(a.ops), a.tokens == nil
	commit := t.Store.Commit
	if op.Once {
		commit = t.Locked
	} else {
		op.Tokens = written(a.tokens)
	}
	return t.call(&op, func() error {
		// Stores sort the tokens: they get their own.
		res, err := commit(ctx, storage.Commit{Tokens: slices.Clone(a.tokens), Ops: a.ops, Key: a.key})
		if err == nil {
			op.Writes, op.Replayed = answered(op.Writes, res), res.Replayed
		}
		return err
	})
}

// resolve sends a commit with a key again while its outcome is unknown, each time as an op of its own; err is what
// came of the first attempt. An attempt that the fence refused says nothing of those before it: then the locks are taken
// again. h is nil for a one-call commit.
func (t *turn) resolve(ctx context.Context, h *hold, a attempt, err error) (*hold, error) {
	if fencing.OutcomeOf(err) != fencing.Unknown {
		return h, err
	}
	end := time.Now().Add(patience)
	for pause := 5 * time.Millisecond; ctx.Err() == nil && time.Now().Before(end); pause = min(2*pause, 200*time.Millisecond) {
		sleep(ctx, about(t.Rand, pause))
		a.id = t.Next()
		err = t.send(ctx, a)
		switch outcome := fencing.OutcomeOf(err); {
		case outcome == fencing.Applied || outcome == fencing.Refused && final(err):
			return h, err
		case outcome == fencing.Refused && h != nil && ctx.Err() == nil:
			t.release(ctx, h)
			if again := t.acquire(ctx); again != nil {
				h, a.tokens = again, again.tokens
			}
		}
	}
	return h, fencing.AsUnknown(errUnresolved)
}

var errUnresolved = errors.New("no attempt under the key was answered")

// final reports whether a refusal is the data's, which is recorded under the key, or of the request itself.
func final(err error) bool {
	_, data := errors.AsType[*storage.RefusedError](err)
	return data || errors.Is(err, fencing.ErrInvalid)
}

// writes are operations as they are written down.
func writes(ops []storage.Op) []history.Write {
	list := make([]history.Write, len(ops))
	for i, op := range ops {
		list[i] = history.Write{Kind: string(op.Kind), Resource: op.Resource, Key: op.Key, Value: string(op.Value), Delta: op.Delta, Min: op.Min}
	}
	return list
}

// answered are writes with their results.
func answered(list []history.Write, res storage.Result) []history.Write {
	list = slices.Clone(list)
	for i := range min(len(list), len(res.Ops)) {
		list[i].Version, list[i].Counter = res.Ops[i].Version, res.Ops[i].Counter
	}
	return list
}
