package locking

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// acquire asks the lock store until it grants or r.Wait has passed since arrived. Who waits
// asks when it is p's turn; a nil p does not wait. sent is when the call that brought the
// hold was made.
func (i *LocalIssuer) acquire(ctx context.Context, r Request, p *place, arrived time.Time) (h Hold, sent time.Time, err error) {
	if p == nil {
		sent = time.Now()
		h, err = i.b.TryAcquire(ctx, r)
		return h, sent, err
	}
	waiting := ctx
	if r.Wait > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithDeadline(ctx, arrived.Add(r.Wait))
		defer cancel()
	}
	err = &HeldError{Resource: r.Resource}
	if !p.first() {
		select {
		case <-p.turn:
		case <-waiting.Done():
		}
	}
	rest, first := i.lines.takeTurn(p, r)
	if !first {
		return Hold{}, sent, notGranted(ctx, err)
	}
	asked := false
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, i.o.Poll) {
		if rest > 0 {
			switch given := i.park(ctx, waiting, p, rest); {
			case given.err != nil:
				return Hold{}, sent, given.err
			case given.hold.Token.Number > 0:
				return given.hold, given.sent, nil
			case waiting.Err() != nil && (asked || ctx.Err() != nil):
				return Hold{}, sent, notGranted(ctx, err)
			}
		}
		asked = true
		sent = time.Now()
		h, err = i.ask(ctx, r, p)
		held, ok := errors.AsType[*HeldError](err)
		if !ok {
			return h, sent, err
		}
		if i.waiter != nil {
			rest = untilNextJoin(i.o.Poll, held.Remaining)
		} else {
			rest = untilNextLook(pause, held.Remaining)
		}
	}
}

// ask is one attempt, which takes a place in the lock store's line if it has one.
func (i *LocalIssuer) ask(ctx context.Context, r Request, p *place) (Hold, error) {
	if i.waiter == nil {
		return i.b.TryAcquire(ctx, r)
	}
	p.joined = true
	return i.waiter.Join(ctx, r, p.look)
}

// takeTurn is called at the head of the line, or when the waiting is over. It returns how
// long to wait for a hand-over before looking.
func (l *lines) takeTurn(p *place, r Request) (rest time.Duration, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.state == asking {
		p.r = r // with the floor of this round
		return 0, p.first()
	}
	return patience, true
}

// park waits at the head of the line until something is handed over, or it is time to
// look, or waiting ends: then the handover is zero. waiting ends with ctx or before.
func (i *LocalIssuer) park(ctx, waiting context.Context, p *place, rest time.Duration) handover {
	timer := time.NewTimer(rest)
	defer timer.Stop()
	i.lines.shift(p, asking, parked)
	select {
	case h := <-p.given:
		return i.lines.took(p, h)
	case <-p.wake:
	case <-timer.C:
	case <-waiting.Done():
	}
	if i.lines.shift(p, parked, asking) {
		return handover{}
	}
	// A release has begun to hand the lock over: that is worth waiting for, even if
	// waiting has ended.
	select {
	case h := <-p.given:
		return i.lines.took(p, h)
	case <-ctx.Done():
	}
	if i.lines.shift(p, handing, gone) {
		return handover{}
	}
	return i.lines.took(p, <-p.given) // it has arrived just now
}

func (l *lines) took(p *place, h handover) handover {
	l.shift(p, handed, asking)
	return h
}

// shift changes the posture of a head, if it is the one given.
func (l *lines) shift(p *place, from, to posture) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.state != from {
		return false
	}
	p.state = to
	return true
}

// notGranted is held, and the end of ctx if it was that which ended the waiting.
func notGranted(ctx context.Context, held error) error {
	if ctx.Err() == nil {
		return held
	}
	return errors.Join(held, ended(ctx))
}

// untilNextLook is the pause, shortened to the holder's remaining time, and jittered so
// that waiters of several processes do not look in step.
func untilNextLook(pause, remaining time.Duration) time.Duration {
	if remaining > 0 {
		pause = min(pause, remaining+time.Millisecond)
	}
	return pause/2 + rand.N(pause/2+1)
}

// untilNextJoin is when whoever has a place in the lock store's line asks again unless it
// is woken: to keep its place, and just after the holder's time is up.
func untilNextJoin(pause, remaining time.Duration) time.Duration {
	pause -= rand.N(pause/4 + 1)
	if remaining > 0 {
		pause = min(pause, remaining+time.Millisecond+rand.N(10*time.Millisecond))
	}
	return pause
}

// ended says why ctx has ended: both its error and its cause, where they differ. Nothing
// was sent.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if !errors.Is(cause, err) {
		err = errors.Join(err, cause)
	}
	return fencing.AsFailed(err)
}
