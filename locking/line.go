package locking

import (
	"slices"
	"sync"
)

// lines keeps one line of waiters per resource. Only the head of a line asks the lock
// store; the others wait for their turn.
type lines struct {
	mu sync.Mutex // guards m and every line in it; nothing blocks under it
	m  map[string][]*waiter
}

type waiter struct {
	turn chan struct{} // closed once the waiter is the head
	wake chan struct{} // holds one element when the head should look now
}

// join puts a request at the end of its resource's line, for as long as it lasts: a re-issue
// keeps the place. It must leave. A request that does not wait gets nil.
func (l *lines) join(r Request) *waiter {
	if r.Wait == 0 {
		return nil
	}
	resource := r.Resource
	w := &waiter{turn: make(chan struct{}), wake: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = map[string][]*waiter{}
	}
	l.m[resource] = append(l.m[resource], w)
	if len(l.m[resource]) == 1 {
		close(w.turn)
	}
	return w
}

// leave takes a waiter out of the line, wherever it stands; the next one becomes the head.
// A nil waiter stands in none.
func (l *lines) leave(resource string, w *waiter) {
	if w == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.m[resource]
	i := slices.Index(line, w)
	line = slices.Delete(line, i, i+1)
	if len(line) == 0 {
		delete(l.m, resource)
		return
	}
	l.m[resource] = line
	if i == 0 {
		close(line[0].turn)
	}
}

// first reports whether the waiter is the head.
func (w *waiter) first() bool {
	select {
	case <-w.turn:
		return true
	default:
		return false
	}
}

// wake tells the head of the line to look at the lock now.
func (l *lines) wake(resource string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := l.m[resource]; len(line) > 0 {
		select {
		case line[0].wake <- struct{}{}:
		default: // it will look anyway
		}
	}
}

// length returns how many wait for a resource.
func (l *lines) length(resource string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.m[resource])
}
