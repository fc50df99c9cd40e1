package workload

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/storage"
)

// plan is what a workload's turns differ by.
type plan struct {
	name string
	// reads are the records that the writes are computed from.
	reads []storage.RecordID
	// write computes the operations of a commit; id makes its values unique.
	write func(tokens []fencing.Token, cells []history.Cell, id string) []storage.Op
	// keyed: the commit has an idempotency key, its id, and is sent again until its outcome is known.
	keyed bool
	// transact, where it is set, makes the commit in reads' and write's place.
	transact func(ctx context.Context, t *turn, tokens []fencing.Token, how manner) error
}

// manner is how a commit is sent.
type manner struct {
	forged bool
	bare   bool          // without showing the token, where that can be
	stand  time.Duration // how long the commit itself stands still, where it can
}

// turn is one turn of a seat on a group.
type turn struct {
	*Seat
	plan
	resources []string // the first is the group
}

// take takes a turn: lock, read, stand still, commit, release, with what is odd in between. A holder never looks at its
// lease before it writes: that the store refuses is the point.
func (s *Seat) take(ctx context.Context, p plan, resources []string) {
	t := &turn{Seat: s, plan: p, resources: resources}
	act := t.drawAct()
	var h *hold
	if act == leave || act == forget {
		h = t.grant(ctx)
	} else {
		h = t.acquire(ctx)
	}
	if h == nil {
		return
	}
	cells, err := t.read(ctx, h.tokens)
	how := t.standStill(ctx, h, act)
	t.before(ctx, act, h, cells)
	if err == nil {
		h, err = t.commit(ctx, h, cells, how)
		if errors.Is(err, fencing.ErrStale) && fencing.OutcomeOf(err) == fencing.Refused {
			t.insist(ctx, h.tokens, cells)
		}
	}
	if act == leave && h.leases == nil { // a Locker would renew it for ever
		return
	}
	clean := t.release(ctx, h)
	t.after(ctx, act, h.tokens, cells, clean)
}

// read reads the records of the plan, each by a fenced read. The error is that of the first read that was not applied.
func (t *turn) read(ctx context.Context, tokens []fencing.Token) ([]history.Cell, error) {
	var cells []history.Cell
	for _, id := range t.reads {
		c, err := t.readOne(ctx, tokens, id)
		if err != nil {
			return nil, err
		}
		cells = append(cells, c)
	}
	return cells, nil
}

func (t *turn) readOne(ctx context.Context, tokens []fencing.Token, id storage.RecordID) (c history.Cell, err error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	op := t.op(history.Read)
	for _, tok := range tokens {
		if tok.Resource == id.Resource {
			op.Tokens = written([]fencing.Token{tok})
			err = t.call(&op, func() error {
				rec, err := t.Store.GetFenced(ctx, tok, id.Key)
				if errors.Is(err, storage.ErrNotFound) {
					err = nil // that is an answer
				}
				if err == nil {
					c = history.Cell{Resource: id.Resource, Key: id.Key, Value: string(rec.Value), Version: rec.Version}
					op.Cells = []history.Cell{c}
				}
				return err
			})
		}
	}
	return c, err
}

// standStill is the work between the read and the write, and returns how the write is to be made.
func (t *turn) standStill(ctx context.Context, h *hold, act act) manner {
	if act == forget {
		beyond := time.Duration(h.deadline-history.Now()) + t.drift() + time.Duration(t.Rand.Int64N(int64(t.TTL/2)))
		sleep(ctx, beyond)
		return manner{}
	}
	d := about(t.Rand, t.Hold)
	if t.transact != nil && t.Rand.IntN(2) == 0 {
		return manner{stand: d}
	}
	sleep(ctx, d)
	return manner{}
}
