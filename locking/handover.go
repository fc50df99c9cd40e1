package locking

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

const (
	// maxRun is how often in a row a lock is handed over inside an issuer, past those who
	// wait elsewhere; nor does a run last longer than a TTL. Then the lock is released,
	// and whoever is next in the lock store's line has it.
	maxRun = 64
	// patience is how long the head of the line waits for a hand-over before it takes a
	// place in the lock store's line.
	patience = 50 * time.Millisecond
)

// run is a row of hand-overs inside an issuer.
type run struct {
	length int
	begun  time.Time
	last   time.Time
}

// handover is what the head of a line is given while it waits: a hold and when the call
// that brought it was sent, or an error; neither, if it has to look for itself.
type handover struct {
	hold Hold
	sent time.Time
	err  error
}

// free ends t's hold, which its holder gives back: the lock goes to the next waiter of
// this issuer in one call, if that is possible and fair, and else to whoever is next.
func (i *LocalIssuer) free(ctx context.Context, t fencing.Token) (freed bool, err error) {
	if i.transferrer != nil {
		if p := i.lines.successor(t.Resource); p != nil {
			return i.transfer(ctx, t, p)
		}
	}
	return i.release(ctx, t)
}

func (i *LocalIssuer) release(ctx context.Context, t fencing.Token) (freed bool, err error) {
	freed, err = i.b.Release(ctx, t)
	i.lines.wake(t.Resource)
	return freed, err
}

// successor returns the place that the lock of a resource is to be handed to, and ends the
// run if there is none, or if others must have their turn. What becomes of it is to be
// delivered.
func (l *lines) successor(resource string) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.m[resource]
	if n == nil {
		return nil
	}
	now := time.Now()
	if len(n.places) == 0 || n.places[0].state != parked || n.run.length == maxRun ||
		n.run.length > 0 && now.Sub(n.run.begun) > n.places[0].r.TTL {
		n.run = run{}
		if len(n.places) == 0 {
			delete(l.m, resource)
		}
		return nil
	}
	if n.run.length == 0 {
		n.run.begun = now
	}
	n.run.length++
	n.run.last = now
	p := n.places[0]
	p.state = handing
	return p
}

// transfer hands t's lock to the request at p. Its time is bounded: p waits for it.
func (i *LocalIssuer) transfer(ctx context.Context, t fencing.Token, p *place) (freed bool, err error) {
	h := handover{err: fencing.AsUnknown(errPanicked)}
	delivered := false
	defer func() {
		if !delivered { // something panicked
			i.deliver(ctx, p, h)
		}
	}()
	limited, cancel := context.WithTimeout(ctx, i.o.Cleanup)
	defer cancel()
	sent := time.Now()
	hold, err := i.transferrer.Transfer(limited, t, p.r)
	switch {
	case err == nil:
		h = handover{hold: hold, sent: sent}
	case fencing.OutcomeOf(err) == fencing.Unknown:
		h = handover{err: fencing.AsUnknown(errHandOver)} // the releaser's own reasons are not p's
	default:
		h = handover{}
	}
	delivered = true
	i.deliver(ctx, p, h)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, ErrLost):
		return false, nil
	case fencing.OutcomeOf(err) == fencing.Unknown:
		return false, err
	}
	return i.release(ctx, t) // nothing has happened yet
}

// errHandOver is what the next one learns of a hand-over whose reply was lost.
var errHandOver = errors.New("the lock was being handed over, and the reply was lost")

// deliver gives h to whoever waits at p. If nobody does any more, it is cleaned up, not on
// the releaser's time.
func (i *LocalIssuer) deliver(ctx context.Context, p *place, h handover) {
	i.lines.mu.Lock()
	defer i.lines.mu.Unlock()
	if p.state != gone {
		p.state = handed
		p.given <- h // has room: who was handed something has taken it before it parks again
		return
	}
	go func() {
		defer p.end()
		i.discard(ctx, p, h)
	}()
}

// endRun says that the lock of a resource changed hands without a hand-over.
func (l *lines) endRun(resource string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.m[resource]; n != nil {
		n.run = run{}
		if len(n.places) == 0 {
			delete(l.m, resource)
		}
	}
}

// discard ends what was handed to a request that does not wait any more, and gives up the
// place that it may have in the lock store's line. What cannot be ended now ends by itself:
// a hold after its TTL, a place after PlaceTTL.
func (i *LocalIssuer) discard(ctx context.Context, p *place, h handover) {
	_ = i.giveUp(ctx, p.r, h.hold.Token, h.err != nil, nil)
	if i.waiter == nil || !p.joined {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.o.Cleanup)
	defer cancel()
	_ = i.waiter.Leave(ctx, p.r)
}
