package locking

import (
	"slices"
	"sync"
	"time"
)

// lines keeps one line of waiters per resource. Only the head of a line asks the lock
// store; the others wait for their turn.
type lines struct {
	most      int  // waiters in one line
	handsOver bool // the lock store can

	mu    sync.Mutex // guards what follows, every line and the places in it; nothing blocks under it
	m     map[string]*line
	sweep int // the next time that so many lines are kept, those of long ago are forgotten
}

type line struct {
	places []*place
	run    run
}

// place is where a waiting request stands. Its channels are never closed but for turn.
type place struct {
	r    Request
	turn chan struct{} // closed once the place is at the head
	wake chan struct{} // holds one element when the head should look now

	state posture       // of the head
	given chan handover // holds one element when something was handed over

	end    func()
	joined bool // used by the waiter alone: the lock store may have a place for r
}

// posture is what the head of a line is about.
type posture int

const (
	asking  posture = iota // the lock store, or nothing yet
	parked                 // it waits: the lock may be handed to it
	handing                // a release has begun to hand the lock to it
	handed                 // and has done so: given has the result
	gone                   // or nobody waits for that any more
)

// join puts a request at the end of its resource's line, for as long as it lasts: a re-issue
// keeps the place. It must leave. end is called by whoever cleans up after a place that is
// gone.
func (l *lines) join(r Request, end func()) (*place, error) {
	p := &place{r: r, end: end, turn: make(chan struct{}), wake: make(chan struct{}, 1), given: make(chan handover, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = map[string]*line{}
	}
	n := l.m[r.Resource]
	if n == nil {
		l.forget()
		n = &line{}
		l.m[r.Resource] = n
	}
	if len(n.places) >= l.most {
		return nil, ErrTooManyWaiters
	}
	n.places = append(n.places, p)
	if len(n.places) == 1 {
		l.lead(n, n.run.length > 0)
	}
	return p, nil
}

// leave takes a place out of the line, wherever it stands; the next one becomes the head.
// granted says that its request holds the lock now. late is what was handed over just
// before. If that is still under way the place is gone: whoever does it cleans up. A nil
// place stands in no line.
func (l *lines) leave(p *place, granted bool) (late handover, isGone bool) {
	if p == nil {
		return handover{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.m[p.r.Resource]
	i := slices.Index(n.places, p)
	n.places = slices.Delete(n.places, i, i+1)
	switch {
	case len(n.places) > 0 && i == 0:
		l.lead(n, granted)
	case len(n.places) == 0 && n.run.length == 0:
		delete(l.m, p.r.Resource)
	}
	switch p.state {
	case handing, gone:
		p.state = gone
		return handover{}, true
	case handed:
		return <-p.given, false
	}
	return handover{}, false
}

// lead tells the first in a line that it is. Where a holder of this issuer may soon hand
// over, the first may be given the lock before it has even heard so. Callers hold l.mu.
func (l *lines) lead(n *line, soon bool) {
	if soon && l.handsOver {
		n.places[0].state = parked
	}
	close(n.places[0].turn)
}

// first reports whether the place is at the head.
func (p *place) first() bool {
	select {
	case <-p.turn:
		return true
	default:
		return false
	}
}

// look tells whoever waits at the place to look at the lock now.
func (p *place) look() {
	select {
	case p.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// wake tells the head of the line to look at the lock now.
func (l *lines) wake(resource string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.m[resource]; n != nil && len(n.places) > 0 {
		n.places[0].look()
	}
}

// length returns how many wait for a resource.
func (l *lines) length(resource string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.m[resource]; n != nil {
		return len(n.places)
	}
	return 0
}

// forget drops lines that nobody stands in and whose last hand-over is so long ago that the
// lock has surely changed hands since: holders that never gave it back leave them behind.
// Callers hold l.mu.
func (l *lines) forget() {
	if len(l.m) < l.sweep {
		return
	}
	for resource, n := range l.m {
		if len(n.places) == 0 && time.Since(n.run.last) > 2*MaxTTL {
			delete(l.m, resource)
		}
	}
	l.sweep = max(64, 2*len(l.m))
}
