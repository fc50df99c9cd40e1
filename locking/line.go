package locking

import (
	"slices"
	"sync"
	"time"
)

// lines keeps one line of waiters per resource. Only the head of a line asks the lock
// store; the others wait for their turn.
type lines struct {
	most int // waiters in one line

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

	patient bool          // set with turn: a holder of this issuer may soon hand over
	parked  bool          // the head is not asking: the lock may be handed to it
	gone    bool          // nobody takes what is being handed over
	given   chan handover // holds one element when something was handed over

	joined bool // used by the waiter alone: the lock store may have a place for r
}

// join puts a request at the end of its resource's line, for as long as it lasts: a re-issue
// keeps the place. It must leave. A request that does not wait gets nil.
func (l *lines) join(r Request) (*place, error) {
	if r.Wait == 0 {
		return nil, nil
	}
	p := &place{r: r, turn: make(chan struct{}), wake: make(chan struct{}, 1), given: make(chan handover, 1)}
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
		p.patient = n.run.length > 0
		close(p.turn)
	}
	return p, nil
}

// leave takes a place out of the line, wherever it stands; the next one becomes the head.
// granted says that its request holds the lock now. A nil place stands in none.
func (l *lines) leave(p *place, granted bool) {
	if p == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.m[p.r.Resource]
	i := slices.Index(n.places, p)
	n.places = slices.Delete(n.places, i, i+1)
	switch {
	case len(n.places) > 0 && i == 0:
		n.places[0].patient = granted
		close(n.places[0].turn)
	case len(n.places) == 0 && n.run.length == 0:
		delete(l.m, p.r.Resource)
	}
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
