package client

import (
	"sync"
	"time"
)

// fleet is the replicas of one gateway, and which of them did not answer lately.
type fleet struct {
	bases []string // without a slash at the end

	mu    sync.Mutex  // guards what follows; nothing blocks under it
	aside []time.Time // until when a replica is passed over; zero: it is well
	left  []time.Time // when it was last found not to be
}

// How long a replica that did not answer is passed over, and the most that it may ask for itself.
const (
	passOver = 5 * time.Second
	longest  = time.Minute
)

func newFleet(bases []string) *fleet {
	return &fleet{bases: bases, aside: make([]time.Time, len(bases)), left: make([]time.Time, len(bases))}
}

// choose returns the replica for the next request: the first that is well. One whose time aside
// is over gets this one request, if it may be the one to look, and is passed over by the others
// until that is answered. Where none is well, the one that has been aside for longest is tried.
func (f *fleet) choose(look bool) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	best := 0
	for i, until := range f.aside {
		if until.IsZero() {
			return i
		}
		if look && !until.After(now) {
			f.aside[i] = now.Add(passOver)
			return i
		}
		if until.Before(f.aside[best]) {
			best = i
		}
	}
	return best
}

// answered takes in that a replica works: it has answered a request that was sent at a time. One from
// before it was left, whose reply is read late, says nothing of what it does now.
func (f *fleet) answered(i int, sent time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.left[i].After(sent) {
		f.aside[i] = time.Time{}
	}
}

// avoid takes in that a replica does not work, or sends its clients away for at least d.
func (f *fleet) avoid(i int, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left[i] = time.Now()
	f.aside[i] = f.left[i].Add(min(max(d, passOver), longest))
}

// another reports whether a request need not wait for replica i: one besides it is well, or its
// time aside is over.
func (f *fleet) another(i int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if !f.aside[i].After(now) {
		return false // i itself is the next to be asked, or may be
	}
	for k, until := range f.aside {
		if k != i && !until.After(now) {
			return true
		}
	}
	return false
}
