package locking

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// maxRounds bounds how often one Grant asks for a number: the first, and re-issues.
const maxRounds = 3

// errPanicked stands for the error of a grant that a panic ended.
var errPanicked = errors.New("a panic ended the grant")

// Grant implements [Issuer].
func (i *LocalIssuer) Grant(ctx context.Context, r Request) (Granted, error) {
	arrived := time.Now()
	brought := r.Grant != ""
	if !brought {
		r.Grant = fencing.NewGrant()
	}
	if err := r.Validate(); err != nil {
		return Granted{}, err
	}
	leave, err := i.attempts.enter(ctx, r.Resource, r.Grant)
	if err != nil {
		return Granted{}, err
	}
	if r.Wait == 0 {
		defer leave()
		return i.grant(ctx, r, nil, arrived)
	}
	return i.waitForGrant(ctx, r, brought, arrived, leave)
}

// waitForGrant is Grant for a request that waits. leave ends the attempt.
func (i *LocalIssuer) waitForGrant(ctx context.Context, r Request, brought bool, arrived time.Time, leave func()) (g Granted, err error) {
	var p *place
	err = errPanicked
	defer func() {
		late, isGone := i.lines.leave(p, err == nil)
		if isGone {
			return // whoever is handing the lock over cleans up, and ends the attempt
		}
		defer leave()
		if err != nil && p != nil {
			i.discard(ctx, p, late)
		}
	}()
	if brought && i.lines.length(r.Resource) > 0 {
		// It may be the holder, who lost a reply: then it must not stand in line behind
		// those who wait for its own hold.
		if g, err = i.grant(ctx, r, nil, arrived); !errors.Is(err, ErrHeld) || fencing.OutcomeOf(err) != fencing.Refused {
			return g, err
		}
	}
	if p, err = i.lines.join(r, leave); err != nil {
		return Granted{}, err
	}
	err = errPanicked
	g, err = i.grant(ctx, r, p, arrived)
	return g, err
}

// grant is Grant for a request that has its place in the line.
func (i *LocalIssuer) grant(ctx context.Context, r Request, p *place, arrived time.Time) (Granted, error) {
	var hold Hold
	var sent time.Time
	lost := false // the last answer was lost: there may be a hold, of whatever number
	for round := 1; ; round++ {
		h, at, err := i.acquire(ctx, r, p, arrived)
		if fencing.OutcomeOf(err) == fencing.Unknown {
			lost = true
			if round < maxRounds && ctx.Err() == nil {
				continue // the same grant again finds the hold, if there is one
			}
		}
		if err != nil {
			return Granted{}, i.giveUp(ctx, r, hold.Token, lost, err)
		}
		hold, sent, lost = h, at, false
		floor, err := i.settle(ctx, hold)
		if err == nil && floor == 0 {
			break
		}
		if err == nil && round == maxRounds {
			err = ErrUnsettled
		}
		if err != nil {
			return Granted{}, i.giveUp(ctx, r, hold.Token, false, err)
		}
		r.Floor = floor
	}
	if time.Since(sent) >= hold.Remaining {
		return Granted{}, i.giveUp(ctx, r, hold.Token, false, ErrLost)
	}
	if i.o.OnEvent != nil {
		e := i.event(fencing.EventGranted, hold.Token, arrived, nil)
		e.Label = r.Label
		i.emit(e)
	}
	return Granted{Token: hold.Token, ExpiresIn: hold.Remaining, Waited: sent.Sub(arrived)}, nil
}

// settle makes the hold's token the mark of every bound store. Where a store refuses it,
// settle returns the floor that a new number must exceed; an error means that the grant
// has failed. A number is raised only by the call that drew it, and only once: a raise
// that was delayed on its way could else arrive when its store was replaced by a standby
// that has not seen it, after the client read from the old one. Everything else only
// confirms that the mark equals the token.
func (i *LocalIssuer) settle(ctx context.Context, h Hold) (floor int64, err error) {
	for _, f := range i.fences {
		if h.Drawn {
			err = f.Raise(ctx, h.Token)
		}
		if !h.Drawn || err != nil && fencing.OutcomeOf(err) == fencing.Unknown && ctx.Err() == nil {
			err = confirm(ctx, f, h.Token)
		}
		stale, ok := errors.AsType[*fencing.StaleError](err)
		switch {
		case err == nil:
		case ok:
			if n, ours := overtaken(ctx, f, h.Token, stale); ours {
				return n - 1, nil // asked for one above that, the lock store returns that hold
			}
			i.reissue(h, stale)
			return max(stale.Highest, h.Token.Number), nil
		default:
			return 0, err
		}
	}
	return 0, nil
}

// overtaken reports whether the store refused t because a repeat of the same grant,
// through another issuer, was given a higher number meanwhile: to outbid that one would
// end a token that was delivered.
func overtaken(ctx context.Context, f fencing.Fence, t fencing.Token, stale *fencing.StaleError) (number int64, ours bool) {
	if stale.Highest <= t.Number {
		return 0, false
	}
	m, err := f.Mark(ctx, t.Resource)
	return m.Number, err == nil && !m.Retired && m.Grant == t.Grant && m.Number > t.Number
}

func confirm(ctx context.Context, f fencing.Fence, t fencing.Token) error {
	m, err := f.Mark(ctx, t.Resource)
	if err != nil {
		return err
	}
	return m.Current(t)
}

// reissue reports that a number was not accepted. A number that was just drawn and is not
// above the store's says that the lock store's counter has gone back.
func (i *LocalIssuer) reissue(h Hold, stale *fencing.StaleError) {
	kind := fencing.EventReissued
	if h.Drawn && (stale.Reason == fencing.Superseded || stale.Reason == fencing.Duplicate) {
		kind = fencing.EventRegression
	}
	i.emit(fencing.Event{
		Time: time.Now(), Kind: kind, Resource: h.Token.Resource, Number: h.Token.Number,
		Highest: stale.Highest, Reason: string(stale.Reason),
	})
}

// giveUp ends what a failed grant may have left: its hold t, if there was one, in the
// stores first, so that a raise of it that is still under way is refused when it arrives.
// It returns cause, joined by what went wrong here. If a reply was lost, the hold's number
// is unknown and the lock store is asked again with the same grant; should that take the
// lock afresh, it is freed at once.
func (i *LocalIssuer) giveUp(ctx context.Context, r Request, t fencing.Token, lost bool, cause error) error {
	if t.Number == 0 && !lost {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.o.Cleanup)
	defer cancel()
	start := time.Now()
	if lost {
		r.Floor = 0
		hold, err := i.b.TryAcquire(ctx, r)
		if fencing.OutcomeOf(err) == fencing.Refused {
			return cause // held by another, or ended: nothing is left
		}
		if err != nil {
			return errors.Join(cause, err)
		}
		t = hold.Token
	}
	err := i.inStores(ctx, func(ctx context.Context, f fencing.Fence) error { return f.Evict(ctx, t) })
	_, freeErr := i.b.Release(ctx, t)
	i.lines.wake(r.Resource)
	e := i.event(fencing.EventEvicted, t, start, nil)
	e.Reason = "the grant failed"
	i.emit(e)
	return errors.Join(cause, err, freeErr)
}
