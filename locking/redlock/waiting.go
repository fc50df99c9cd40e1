package redlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencegate/fencegate/locking"
)

// There is no line of waiters: those who wait ask again, at random moments. Join wakes them
//
//   - when a release, an eviction or a failed grant ended a hold: its scripts publish the
//     hold's number on each node, on a channel of the resource;
//   - when the holder's time is up, as the last answer knew it;
//   - a random time after a split vote, longer after each one in a row;
//   - when the subscription has begun, for what may have been published before.
//
// A channel for each resource, and not one for all: a process then hears of what it waits
// for and of nothing else, and the nodes know how many processes wait for the same, which
// says over how long a time these should spread their attempts.

// quiet is how long a release that is heard of from too few nodes waits for the others.
const quiet = 20 * time.Millisecond

// bell is what this process waits for. The subscriptions begin with the first waiter, and end
// some time after the last one.
type bell struct {
	mu     sync.Mutex // guards what follows and every topic; nothing blocks under it
	topics map[string]*topic
	ears   []*ear // one for each node; nil while nobody waits
}

// topic is one resource that is waited for, or was a short time ago.
type topic struct {
	sleepers map[string]*sleeper // by grant
	number   int64               // the last one that was heard to have ended
	heard    int                 // from so many nodes
	roused   int                 // how often word came that it is worth asking again
	begun    int                 // how many nodes listen for us
	idle     *time.Timer         // ends the subscription; nil while somebody waits
}

// sleeper is somebody who waits.
type sleeper struct {
	mu      sync.Mutex // held while wake is called: after Leave it is not
	wake    func()     // nil after Leave
	alarm   *time.Timer
	forget  time.Time // nobody has joined for so long that nobody will
	retries int       // split votes in a row
}

// Join implements locking.Waiter, without a line: whoever asks first after a release gets
// the lock. The subscription to a resource begins when a Join is first answered with a
// *HeldError, and ends locking.LookEvery after its last waiter has left: then no goroutine
// and no connection is left. A server that forbids SUBSCRIBE or PUBLISH makes waiters slow:
// they look when the holder's time is up, and every locking.LookEvery.
func (b *Backend) Join(ctx context.Context, r locking.Request, wake func()) (locking.Hold, error) {
	before, roused := b.roused(r.Resource)
	h, err := b.TryAcquire(ctx, r)
	held, ok := errors.AsType[*locking.HeldError](err)
	if !ok {
		b.forget(r, nil)
		return h, err
	}
	b.sleep(r, wake, held, before, roused)
	return h, err
}

// roused returns a resource's topic, if there is one, and how often word came.
func (b *Backend) roused(resource string) (*topic, int) {
	b.bell.mu.Lock()
	defer b.bell.mu.Unlock()
	if t := b.bell.topics[resource]; t != nil {
		return t, t.roused
	}
	return nil, 0
}

// Leave implements locking.Waiter.
func (b *Backend) Leave(_ context.Context, r locking.Request) error {
	b.forget(r, nil)
	return nil
}

// MaxStall implements locking.Waiter: what a process that died had been granted by nodes and
// had not confirmed ends after the window between the phases, and who looked just before
// that looks again within locking.LookEvery. If it died while its confirms were under way,
// so that only a minority of the nodes has them, those last for their TTL; that stalls the others
// only where several such processes keep a majority together. Split votes among living
// processes are not part of it: they end at random, soon.
func (b *Backend) MaxStall() time.Duration {
	return b.window(b.o.MaxTTL) + locking.LookEvery
}

// sleep notes that r waits after this answer. Word that came since before, while the answer
// was under way, is not lost.
func (b *Backend) sleep(r locking.Request, wake func(), held *locking.HeldError, before *topic, roused int) {
	b.bell.mu.Lock()
	defer b.bell.mu.Unlock()
	t := b.topic(r.Resource)
	s := t.sleepers[r.Grant]
	if s == nil {
		s = &sleeper{}
		s.alarm = time.AfterFunc(time.Hour, func() { b.ring(r, s) })
		t.sleepers[r.Grant] = s
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake, s.forget = wake, time.Now().Add(locking.PlaceTTL)
	next := locking.PlaceTTL
	switch {
	case t == before && t.roused != roused:
		next = b.spread(len(t.sleepers) + 1)
	case held.Number == 0: // no majority says who holds it
		next = b.backOff(s.retries)
		s.retries++
	case held.Remaining > 0:
		s.retries = 0
		next = min(next, held.Remaining+b.spread(len(t.sleepers)+1))
	}
	s.alarm.Reset(next)
}

// topic returns the topic of a resource, which begins if it is new. It needs bell.mu.
func (b *Backend) topic(resource string) *topic {
	t := b.bell.topics[resource]
	if t == nil {
		t = &topic{sleepers: map[string]*sleeper{}}
		if b.bell.topics == nil {
			b.bell.topics = map[string]*topic{}
		}
		b.bell.topics[resource] = t
		b.listen()
	}
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	return t
}

// spread is a random time within which n attempts hardly meet.
func (b *Backend) spread(n int) time.Duration { return time.Duration(rand.N(max(n, 1))) * b.pace() }

// ring wakes s, or forgets it if nobody has joined for long.
func (b *Backend) ring(r locking.Request, s *sleeper) {
	s.mu.Lock()
	late := time.Until(s.forget)
	if s.wake != nil && late > 0 {
		s.alarm.Reset(late)
		s.wake()
	}
	s.mu.Unlock()
	if late <= 0 {
		b.forget(r, s)
	}
}

// forget ends the waiting of r, if it waits: of a given sleeper only if it is still that one,
// and overdue. After the last one of a resource the subscription lingers.
func (b *Backend) forget(r locking.Request, overdue *sleeper) {
	b.bell.mu.Lock()
	defer b.bell.mu.Unlock()
	t := b.bell.topics[r.Resource]
	if t == nil || t.sleepers[r.Grant] == nil {
		return
	}
	s := t.sleepers[r.Grant]
	s.mu.Lock()
	defer s.mu.Unlock()
	if overdue != nil && (s != overdue || time.Until(s.forget) > 0) {
		return
	}
	delete(t.sleepers, r.Grant)
	s.alarm.Stop()
	s.wake = nil
	if len(t.sleepers) == 0 {
		t.idle = time.AfterFunc(locking.LookEvery, func() { b.finish(r.Resource, t) })
	}
}

// finish ends a subscription that nobody came back to.
func (b *Backend) finish(resource string, t *topic) {
	b.bell.mu.Lock()
	defer b.bell.mu.Unlock()
	if len(t.sleepers) > 0 || b.bell.topics[resource] != t {
		return
	}
	delete(b.bell.topics, resource)
	b.listen()
}

// begun is called when a node listens, perhaps again. With a majority of them nothing is
// missed from now on; what was missed before is looked for.
func (b *Backend) begun(resource string) {
	b.bell.mu.Lock()
	defer b.bell.mu.Unlock()
	t := b.bell.topics[resource]
	if t == nil {
		return
	}
	if t.begun++; t.begun >= b.quorum {
		t.rouse(func() time.Duration { return b.spread(2) })
	}
}

// ended is called for each node on which a hold has ended, while so many processes listen.
func (b *Backend) ended(resource string, number int64, ears int) {
	b.bell.mu.Lock()
	defer b.bell.mu.Unlock()
	t := b.bell.topics[resource]
	if t == nil {
		return
	}
	if number != t.number {
		t.number, t.heard = number, 0
	}
	switch t.heard++; t.heard {
	case b.quorum: // the lock is free
		t.rouse(func() time.Duration { return b.spread(max(ears, len(t.sleepers))) })
	case 1:
		t.rouse(func() time.Duration { return quiet + b.spread(max(ears, len(t.sleepers))) })
	}
}

// rouse lets every sleeper of the topic wake after a time, if not before. It needs bell.mu.
func (t *topic) rouse(after func() time.Duration) {
	t.roused++
	for _, s := range t.sleepers {
		s.mu.Lock()
		s.retries = 0
		s.alarm.Reset(after())
		s.mu.Unlock()
	}
}
