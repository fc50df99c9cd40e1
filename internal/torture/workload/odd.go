package workload

import (
	"context"
	"slices"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
)

// act is what is odd about a turn.
type act int

// The acts. All but ordinary are equally likely.
const (
	ordinary  act = iota
	forgeID       // write with the right number and another grant
	forgeNext     // write with a number that was never granted
	replay        // write with a token that was released in an earlier turn
	renew         // renew what was released
	reenter       // take the lease again within itself
	leave         // go without a release
	forget        // hold without renewing, and work on past the end
	acts
)

func (t *turn) drawAct() act {
	if !chance(t.Rand, t.Odd) {
		return ordinary
	}
	return ordinary + 1 + act(t.Rand.IntN(int(acts-1)))
}

// before is what is odd before the turn's own commit. Nothing of it may have an effect.
func (t *turn) before(ctx context.Context, act act, h *hold, cells []history.Cell) {
	if ctx.Err() != nil {
		return
	}
	tokens := slices.Clone(h.tokens)
	at := t.Rand.IntN(len(tokens))
	how := manner{forged: true, bare: t.Rand.IntN(2) == 0}
	switch act {
	case forgeID:
		if !how.bare || t.transact == nil {
			tokens[at].Grant = fencing.NewGrant()
		}
	case forgeNext:
		how.bare = false
		tokens[at].Number += 1000
	case replay:
		how.bare = false
		old, ok := t.past[t.resources[0]]
		if !ok {
			return
		}
		tokens = old
	case reenter:
		t.reenter(ctx, h)
		return
	default:
		return
	}
	if len(cells) < len(t.reads) {
		return
	}
	t.writeOnce(ctx, tokens, cells, how)
}

// insist sends stale writes after one was refused: the token is not the mark any more, and never will be again.
func (t *turn) insist(ctx context.Context, tokens []fencing.Token, cells []history.Cell) {
	if !chance(t.Rand, t.Late) {
		return
	}
	for range 3 + t.Rand.IntN(4) {
		if ctx.Err() != nil {
			return
		}
		t.writeOnce(ctx, tokens, cells, manner{})
	}
}

// after is what is odd after the release; clean says that it was acknowledged.
func (t *turn) after(ctx context.Context, act act, tokens []fencing.Token, cells []history.Cell, clean bool) {
	if act == renew && ctx.Err() == nil {
		t.renew(ctx, tokens, clean)
	}
	if !clean || ctx.Err() != nil || len(cells) < len(t.reads) {
		return
	}
	if chance(t.Rand, t.Late) {
		t.writeOnce(ctx, tokens, cells, manner{forged: true})
	}
}

// renew renews what was released. Where the release was acknowledged it must be lost.
func (t *turn) renew(ctx context.Context, tokens []fencing.Token, clean bool) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	for _, tok := range tokens {
		op := t.op(history.Renew)
		op.Tokens, op.Forged = written([]fencing.Token{tok}), clean
		_ = t.call(&op, func() error { return t.Issuer.Renew(ctx, t.TTL, []fencing.Token{tok})[0] })
	}
}

// reenter takes a lease again within itself: the token must be the same, and giving it back must free nothing.
func (t *turn) reenter(ctx context.Context, h *hold) {
	lease := h.leases[t.Rand.IntN(len(h.leases))]
	op := t.op(history.Reenter)
	outer := lease.Token() // as it was: a re-entry that changes it is what is looked for
	op.Tokens = written([]fencing.Token{outer})
	_ = t.call(&op, func() error {
		inside, cancel := context.WithTimeout(lease.Context(), t.Call)
		defer cancel()
		again, err := t.Locker.Acquire(inside, outer.Resource)
		if err != nil {
			return err
		}
		op.Tokens = written([]fencing.Token{outer, again.Token()})
		return again.Release(ctx)
	})
}
