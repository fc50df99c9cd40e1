package gateway

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// The bounds of one turn: how many commits may be sent to the store in it, and for how long, before
// those who wait elsewhere get theirs; and how many of them at once.
const (
	turnMost   = 256
	turnTime   = time.Second
	turnAtOnce = 128
)

// crewMost is how many one-call commits may wait for one resource.
const crewMost = 10_000

// lookAgain is how often a crew looks whether the lock is another's, for those whose waits are over.
const lookAgain = 10 * time.Millisecond

// combiner lets the one-call commits on a resource share grants: those that come while one of
// them takes the lock, or works under it, join it. It is safe for concurrent use.
//
// A crew is all that want one resource. Whoever comes first tries to take the lock, for all;
// whoever is the last to work under it gives it back; where it has to be waited for, or more is to
// be done, a goroutine sees to it. The commits themselves are sent by the goroutines of their
// requests, in their contexts. So nobody's hanging up touches another, nobody who is alone waits
// for another goroutine, and nothing is left when nobody is.
type combiner struct {
	o *Options

	mu    sync.Mutex // guards what follows, every crew, and the turns; nothing blocks under it
	crews map[string]*crew
}

// crew is the requests for one resource.
type crew struct {
	resource string
	queue    list.List // of *member, those that have no turn yet
	turn     *turn     // in which commits may start; nil for none
	giveUp   context.CancelFunc
	gone     chan struct{} // closed when what giveUp ends has ended, and left the line
	waiting  bool          // the lock was held by another, and is waited for
	looking  bool
	looked   *look // the last look while waiting; nil for none yet
}

// look is what was found when somebody looked at the lock.
type look struct {
	at   time.Time
	held *locking.HeldError // nil: it is free, or that is not known
}

// member is a request that wants a turn.
type member struct {
	label string
	end   time.Time // of its wait
	again bool      // it had a turn that came to nothing, and goes to the front

	place *list.Element // in the queue; nil once something was given
	given chan handed   // has room for one
}

// handed is what a member gets: a turn, which it must end, or an error.
type handed struct {
	turn *turn
	err  error
}

// turn is one grant and the commits under it.
type turn struct {
	crew    *crew
	token   fencing.Token
	until   time.Time // no commit starts later
	left    int       // how many may still start
	working int
	dead    bool     // the store has refused its token
	kept    *keeping // its lock; nil until somebody works in it
}

// enter waits for a turn, until m.end while another holds the lock, and in any case no longer than
// ctx lasts. The caller must end its part in it, with done, also if ctx has ended meanwhile.
func (c *combiner) enter(ctx context.Context, resource string, m *member) (*turn, error) {
	m.given = make(chan handed, 1)
	c.mu.Lock()
	w := c.crews[resource]
	if w != nil && w.queue.Len() >= crewMost {
		c.mu.Unlock()
		return nil, locking.ErrTooManyWaiters
	}
	lead := w == nil
	if lead {
		w = &crew{resource: resource}
		if c.crews == nil {
			c.crews = map[string]*crew{}
		}
		c.crews[resource] = w
	}
	if m.again {
		m.place = w.queue.PushFront(m)
	} else {
		m.place = w.queue.PushBack(m)
	}
	w.pass()
	c.mu.Unlock()
	if lead && c.attempt(context.WithoutCancel(ctx), w, false) {
		go c.run(context.WithoutCancel(ctx), w)
	}
	return c.await(ctx, w, m)
}

func (c *combiner) await(ctx context.Context, w *crew, m *member) (*turn, error) {
	// At least 1 ns: Go 1.26's race detector crashes within testing/synctest where two goroutines select on timers that
	// are over already.
	timer := time.NewTimer(max(1, time.Until(m.end)))
	defer timer.Stop()
	var last *look
	heldLooks := 0 // of those since the wait was over, how many in a row found the lock held
	for {
		select {
		case h := <-m.given:
			return h.turn, h.err
		case <-ctx.Done():
			if c.leave(w, m) {
				return nil, ended(ctx)
			}
			h := <-m.given
			return h.turn, h.err
		case <-timer.C:
			l := c.look(ctx, w)
			switch {
			case l != nil && (l == last || l.at.Before(m.end)): // the next one will tell
			case l == nil || l.held == nil:
				last, heldLooks = l, 0
			default:
				// One look is not enough: it could have met our own grant, whose reply is on its way.
				last = l
				if heldLooks++; heldLooks >= 2 && c.leave(w, m) {
					return nil, l.held
				}
			}
			timer.Reset(lookAgain)
		}
	}
}

// look returns the crew's last look at the lock, if it waits for it, and sees to the next: one at a
// time for all of its members.
func (c *combiner) look(ctx context.Context, w *crew) *look {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !w.waiting {
		return nil
	}
	if !w.looking && (w.looked == nil || time.Since(w.looked.at) >= lookAgain) {
		w.looking = true
		go c.lookNow(context.WithoutCancel(ctx), w, &look{at: time.Now()})
	}
	return w.looked
}

func (c *combiner) lookNow(ctx context.Context, w *crew, l *look) {
	l.held = c.holder(ctx, w.resource)
	c.mu.Lock()
	defer c.mu.Unlock()
	w.looking = false
	if w.waiting {
		w.looked = l
	}
}

// leave takes a member out of the queue, unless something was given to it. With the last one the
// waiting for the lock ends, and leave returns when nobody is in line for it any more.
func (c *combiner) leave(w *crew, m *member) bool {
	c.mu.Lock()
	if m.place == nil {
		c.mu.Unlock()
		return false
	}
	w.take(m)
	var gone <-chan struct{}
	if w.queue.Len() == 0 && w.giveUp != nil {
		w.giveUp()
		gone = w.gone
	}
	c.mu.Unlock()
	if gone != nil {
		timer := time.NewTimer(c.o.Cleanup) // no lock store may keep an answer back for ever
		defer timer.Stop()
		select {
		case <-gone:
		case <-timer.C:
		}
	}
	return true
}

// take takes a member out of the queue. Callers hold combiner.mu, here and below.
func (w *crew) take(m *member) {
	w.queue.Remove(m.place)
	m.place = nil
}

// first returns the member at the head of the queue.
func (w *crew) first() *member { return w.queue.Front().Value.(*member) } //nolint:errcheck // nothing else is in it

// pass gives the open turn to those who may start.
func (w *crew) pass() {
	t := w.turn
	for t != nil && w.queue.Len() > 0 && !t.dead && t.left > 0 && t.working < turnAtOnce && time.Now().Before(t.until) {
		m := w.first()
		w.take(m)
		t.working++
		t.left--
		m.given <- handed{turn: t}
	}
}

// answer gives an error to those whom it is for.
func (c *combiner) answer(w *crew, err error, whom func(*member) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := w.queue.Front(); e != nil; {
		m := e.Value.(*member) //nolint:errcheck // nothing else is in it
		e = e.Next()
		if whom(m) {
			w.take(m)
			m.given <- handed{err: err}
		}
	}
}

// ended says why ctx has ended: its error, and its cause where that is another. Nothing was sent.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if !errors.Is(cause, err) {
		err = errors.Join(err, cause)
	}
	return fencing.AsFailed(err)
}
