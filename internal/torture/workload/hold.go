package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/locking"
)

// hold is the locks of a group, as a turn has them.
type hold struct {
	tokens          []fencing.Token // one per resource, in their order
	leases          locking.Leases  // nil where nobody renews it
	stop            []func() bool   // ends the watching of the leases
	ended           atomic.Int64    // when the first of the leases was seen to end; 0: none was
	released, clean bool            // release was called, and what it returned
	// deadline is until when it can be trusted where there are no leases, on history's clock.
	deadline int64
}

// acquire takes leases on all resources; nil where it got none.
func (t *turn) acquire(ctx context.Context) *hold {
	ctx, cancel := context.WithTimeout(ctx, t.Wait+t.Call)
	defer cancel()
	h := &hold{}
	op := t.op(history.Acquire)
	err := t.call(&op, func() (err error) {
		if h.leases, err = t.Locker.AcquireAll(ctx, t.resources...); err != nil {
			return err
		}
		for _, l := range h.leases {
			h.stop = append(h.stop, context.AfterFunc(l.Context(), func() { h.ended.CompareAndSwap(0, history.Now()) }))
		}
		h.tokens = h.leases.Tokens()
		op.Tokens, op.Until = written(h.tokens), until(h.leases)
		return nil
	})
	if err != nil {
		return nil
	}
	return h
}

// grant takes the locks from the issuer itself: nobody renews them, and nobody tells when they have ended: its acts
// leave them, or work beyond their end. nil where it got none.
func (t *turn) grant(ctx context.Context) *hold {
	ctx, cancel := context.WithTimeout(ctx, t.Wait+t.Call)
	defer cancel()
	h := &hold{}
	op := t.op(history.Acquire)
	op.Left = true
	err := t.call(&op, func() error {
		end := time.Now().Add(t.Wait)
		for _, r := range t.resources { // in sorted order, as everybody takes them
			sent := history.Now()
			g, err := t.Issuer.Grant(ctx, locking.Request{
				Resource: r, TTL: t.TTL, Wait: max(0, time.Until(end)), Label: fmt.Sprintf("client-%d-%d", t.Process, t.Seat.Seat),
			})
			if err != nil {
				_, undone := t.giveBack(ctx, h.tokens)
				return errors.Join(err, undone)
			}
			deadline := sent + int64(g.Waited+g.ExpiresIn-t.drift())
			if len(h.tokens) == 0 || deadline < h.deadline {
				h.deadline = deadline
			}
			h.tokens = append(h.tokens, g.Token)
		}
		op.Tokens, op.Until = written(h.tokens), h.deadline
		return nil
	})
	if err != nil {
		return nil
	}
	return h
}

// drift is what a Locker takes off by default.
func (t *turn) drift() time.Duration { return t.TTL/100 + 2*time.Millisecond }

// giveBack releases tokens at the issuer, the last first.
func (t *turn) giveBack(ctx context.Context, tokens []fencing.Token) (freed bool, errs error) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	freed = true
	for _, tok := range slices.Backward(tokens) {
		f, err := t.Issuer.Release(ctx, tok)
		freed = freed && f
		errs = errors.Join(errs, err)
	}
	return freed, errs
}

// release ends the hold, and reports whether that was acknowledged without any doubt: the tokens are no
// mark any more, and never will be. A second call does nothing.
func (t *turn) release(ctx context.Context, h *hold) (clean bool) {
	if h.released {
		return h.clean
	}
	h.released = true
	op := t.op(history.Release)
	op.Tokens = written(h.tokens)
	op.Until, op.Lost = h.trusted()
	for _, stop := range h.stop {
		stop()
	}
	err := t.call(&op, func() (err error) {
		if h.leases != nil {
			err = h.leases.Release(ctx)
			op.Freed = err == nil // else it may have been: the lease does not tell
			return err
		}
		op.Freed, err = t.giveBack(ctx, h.tokens)
		return err
	})
	if err != nil {
		return false
	}
	h.clean = true
	t.remember(t.resources[0], h.tokens)
	return true
}

// trusted returns until when the hold was trusted, now that it is to be released, and whether it was lost before.
func (h *hold) trusted() (end int64, lost bool) {
	end = history.Now()
	if h.leases == nil {
		return min(end, h.deadline), false
	}
	end = min(end, until(h.leases))
	for _, l := range h.leases {
		lost = lost || errors.Is(context.Cause(l.Context()), locking.ErrLost)
	}
	// What noted the end of a context may itself have stood still: the deadline may be earlier.
	if ended := h.ended.Load(); ended != 0 {
		end = min(end, ended)
	}
	return end, lost
}

// until is the earliest of the leases' deadlines.
func until(leases locking.Leases) int64 {
	earliest := clock(leases[0].Deadline())
	for _, l := range leases[1:] {
		earliest = min(earliest, clock(l.Deadline()))
	}
	return earliest
}

// remember keeps tokens that have ended, for replays.
func (s *Seat) remember(group string, tokens []fencing.Token) {
	if s.past == nil {
		s.past = map[string][]fencing.Token{}
	}
	s.past[group] = tokens
}

// written are tokens without their secrets.
func written(tokens []fencing.Token) []history.Token {
	list := make([]history.Token, len(tokens))
	for i, tok := range tokens {
		list[i] = history.TokenOf(tok)
	}
	return list
}
