package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
)

// freeAtOnce is how many locks of one commit are given back at once.
const freeAtOnce = 8

// briefly is how long a crew waits whose members' waits are over, after a turn of its own: not at
// all would be to push in before those who have waited meanwhile.
const briefly = time.Millisecond

// run takes the lock for the crew.
func (c *combiner) run(ctx context.Context, w *crew) {
	for c.attempt(ctx, w, true) {
	}
}

// attempt asks for the lock once. It reports whether another attempt is needed: not if a turn has
// begun, nor if nobody is left. A crew's first attempt does not wait: so those whom the lock is
// free for have it, and those who do not want to wait have their answer.
func (c *combiner) attempt(ctx context.Context, w *crew, begun bool) (again bool) {
	gone := make(chan struct{})
	defer close(gone)
	ctx, cancel, r, left := c.prepare(ctx, w, begun, gone)
	if !left {
		return false
	}
	sent := time.Now()
	granted, err := c.grant(ctx, r)
	c.mu.Lock()
	w.waiting, w.looked, w.giveUp = false, nil, nil
	c.mu.Unlock()
	allLeft := errors.Is(ctx.Err(), context.Canceled)
	cancel()
	ctx = context.WithoutCancel(ctx)
	held, isHeld := errors.AsType[*locking.HeldError](err)
	switch {
	case err == nil:
		return !c.begin(ctx, w, granted.Token, sent.Add(granted.Waited+granted.ExpiresIn))
	case allLeft, tooLate(err, sent):
		// Who has come since, or is still there, wants an attempt of its own.
	case isHeld && fencing.OutcomeOf(err) == fencing.Refused:
		if held.Number == 0 {
			held = cmp.Or(c.holder(ctx, w.resource), held)
		}
		now := time.Now()
		c.answer(w, held, func(m *member) bool { return !m.end.After(now) })
	default:
		c.answer(w, notWritten(err), func(*member) bool { return true })
	}
	return true
}

// prepare says what to ask the issuer for; left is false if nobody wants it, and the crew is gone
// then. ctx ends when everybody has left; the caller closes gone after that.
func (c *combiner) prepare(parent context.Context, w *crew, begun bool, gone chan struct{}) (ctx context.Context, cancel context.CancelFunc, r locking.Request, left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.queue.Len() == 0 {
		delete(c.crews, w.resource)
		return parent, nil, r, false
	}
	r = locking.Request{Resource: w.resource, TTL: holdTTL, Label: w.first().label}
	if begun {
		r.Wait = briefly
		now := time.Now()
		for e := w.queue.Front(); e != nil && !w.waiting; e = e.Next() {
			w.waiting = e.Value.(*member).end.After(now) //nolint:errcheck // nothing else is in it
		}
	}
	if w.waiting {
		r.Wait = c.o.MaxWait
	}
	ctx, cancel = context.WithTimeout(parent, r.Wait+c.o.Timeout)
	w.giveUp, w.gone = cancel, gone
	return ctx, cancel, r, true
}

func (c *combiner) grant(ctx context.Context, r locking.Request) (granted locking.Granted, err error) {
	defer c.caught("a grant", &err)
	return c.o.Issuer.Grant(ctx, r)
}

// holder says who holds a lock; nil if nobody does, or that cannot be learnt.
func (c *combiner) holder(ctx context.Context, resource string) (held *locking.HeldError) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Cleanup)
	defer cancel()
	var err error
	defer c.caught("a status", &err)
	st, err := c.o.Issuer.Status(ctx, resource)
	if err != nil || !st.Held {
		return nil
	}
	return &locking.HeldError{Resource: resource, Number: st.Number, Label: st.Label, Remaining: st.Remaining}
}

// begin opens a turn, under a grant that can be trusted until then, and reports whether somebody
// works in it. No commit starts in the last third of the hold's time.
func (c *combiner) begin(ctx context.Context, w *crew, token fencing.Token, trust time.Time) bool {
	t := &turn{crew: w, token: token, left: turnMost, until: time.Now().Add(turnTime)}
	if last := trust.Add(-holdTTL / 3); last.Before(t.until) {
		t.until = last
	}
	c.mu.Lock()
	w.turn = t
	w.pass()
	over := w.isOver(t)
	if !over {
		t.kept = c.keep(ctx, token)
		t.kept.finish(func() { c.expire(ctx, t) })
	}
	c.mu.Unlock()
	if over {
		c.free(ctx, token)
	}
	return !over
}

// isOver ends the open turn if nobody works in it any more. Callers hold c.mu.
func (w *crew) isOver(t *turn) bool {
	if w.turn != t || t.working > 0 {
		return false
	}
	w.turn = nil
	return true
}

// done ends a member's part in a turn; refused says that the store has refused the turn's token.
// The last one gives the lock back: so whoever was alone finds it free when it is answered.
func (c *combiner) done(ctx context.Context, t *turn, refused bool) {
	c.mu.Lock()
	t.working--
	t.dead = t.dead || refused
	if t.crew.turn == t {
		t.crew.pass()
	}
	over := t.crew.isOver(t)
	c.mu.Unlock()
	if over {
		c.end(ctx, t)
	}
}

// expire gives up a turn whose commits the store holds up for longer than holdMost, while they may
// still be under way. What comes of them the store decides, by the token.
func (c *combiner) expire(ctx context.Context, t *turn) {
	c.mu.Lock()
	open := t.crew.turn == t
	if open {
		t.crew.turn = nil
	}
	c.mu.Unlock()
	if open {
		c.end(ctx, t)
	}
}

// end gives a turn's lock back and lets the crew go on.
func (c *combiner) end(ctx context.Context, t *turn) {
	ctx = context.WithoutCancel(ctx)
	t.kept.stop()
	c.free(ctx, t.token)
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.crew.queue.Len() == 0 {
		delete(c.crews, t.crew.resource)
		return
	}
	go c.run(ctx, t.crew)
}

// free gives locks back, also where the caller's context has ended, all of them within Cleanup. What
// cannot be given back ends with its TTL.
func (c *combiner) free(ctx context.Context, tokens ...fencing.Token) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.Cleanup)
	defer cancel()
	half, cancelHalf := context.WithTimeout(ctx, c.o.Cleanup/2) // the rest is for evictions
	defer cancelHalf()
	if len(tokens) == 1 {
		c.freeOne(half, ctx, tokens[0])
		return
	}
	var wg sync.WaitGroup
	places := make(chan struct{}, freeAtOnce)
	for _, t := range tokens {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			c.freeOne(half, ctx, t)
		})
	}
	wg.Wait()
}

// freeOne releases a lock, or, where that fails, evicts its holder.
func (c *combiner) freeOne(half, whole context.Context, t fencing.Token) {
	err := c.release(half, t)
	if err == nil {
		return
	}
	if evictErr := c.evict(whole, t); evictErr != nil {
		c.o.Logger.Error("the lock of a one-call commit could not be given back; it ends with its TTL",
			"resource", wire.Redact(t.Resource), "number", t.Number, "error", redactErr(err), "evict_error", redactErr(evictErr))
	}
}

func (c *combiner) release(ctx context.Context, t fencing.Token) (err error) {
	defer c.caught("a release", &err)
	_, err = c.o.Issuer.Release(ctx, t)
	return err
}

func (c *combiner) evict(ctx context.Context, t fencing.Token) (err error) {
	defer c.caught("an eviction", &err)
	return c.o.Issuer.Evict(ctx, t.Resource, t.Number, "its release failed")
}

// caught makes an error of a panic: no request's own goroutine is there to answer for it.
func (c *combiner) caught(what string, err *error) {
	v := recover()
	if v == nil {
		return
	}
	*err = fencing.AsUnknown(fmt.Errorf("%s panicked: %v", what, v))
	c.o.Logger.Error(what+" panicked", "panic", wire.Redact(fmt.Sprint(v)), "stack", wire.Redact(string(debug.Stack())))
}

// notWritten is the error of a one-call commit that did not come to its commit. What the issuer
// refused for its own reasons is not the client's fault: it may try again.
func notWritten(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, locking.ErrLost), fencing.OutcomeOf(err) == fencing.Unknown, errors.Is(err, fencing.ErrStale):
		return fencing.AsFailed(errors.New("the lock was not to be had, nothing was written: " + err.Error()))
	}
	return err
}
