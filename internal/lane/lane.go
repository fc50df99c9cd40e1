// Package lane combines concurrent calls into batches: group commit. While one batch is
// on its way to the disk, the next one gathers.
//
// # Guarantees
//
//   - One batch at a time. Items are taken in the order in which they came, each once.
//
//   - A caller whose context ends before its item was taken is told that the item failed;
//     it will never be taken. After that it is told that the outcome is unknown.
//
//   - A lane has a goroutine from its first item until it is idle, and none else.
//
//   - Where nobody is in the lane and nobody in line, a caller may take the lane for itself,
//     with Enter and Leave, and do its work on its own goroutine: alone, it pays for nothing.
//
// # What is not guaranteed
//
// That two items come into one batch, or that a batch ends when its callers have gone: it
// belongs to all of them, so no single context governs it.
package lane

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// ErrClosed is what a closed lane answers, as [fencing.ErrFailed].
var ErrClosed = errors.New("the store is closed")

// Run executes one batch. It gets hold of what it needs first (a connection) and then
// calls take, exactly once: what has come by then is the batch, empty if every caller has
// gone meanwhile. It returns one result for each item of the batch, in order, also where
// it could not get what it needed.
type Run[T, R any] func(take func() []T) []R

// Lane is safe for concurrent use. Make it with [New].
type Lane[T, R any] struct {
	run  Run[T, R]
	gone func(error) R // the result for an item that has none
	most int

	mu      sync.Mutex // guards everything below; nothing blocks under it
	queue   []*item[T, R]
	running bool // a batch, or a caller between Enter and Leave
	closed  bool
	idle    sync.Cond // signalled when running becomes false

	visit, visits int           // the caller in the lane, 0 if none; how many there were
	patience      time.Duration // of those who come during this visit
	timer         *time.Timer   // ends the visit, if somebody still waits; set once somebody does
}

type item[T, R any] struct {
	value  T
	taken  bool
	result R
	done   chan struct{} // closed when result is there
}

// New returns a lane whose batches have at most so many items. gone makes a result of
// the error for an item that was withdrawn, or whose caller did not wait; the error carries
// its outcome.
func New[T, R any](most int, run Run[T, R], gone func(error) R) *Lane[T, R] {
	l := &Lane[T, R]{run: run, gone: gone, most: most}
	l.idle.L = &l.mu
	return l
}

// Do puts the values in line together and returns their results, in order, when all are
// there or ctx ends.
func (l *Lane[T, R]) Do(ctx context.Context, values ...T) []R {
	results := make([]R, len(values))
	items, err := l.join(ctx, values)
	if err != nil {
		for i := range results {
			results[i] = l.gone(fencing.AsFailed(err))
		}
		return results
	}
	for i, it := range items {
		results[i] = l.wait(ctx, it)
	}
	return results
}

func (l *Lane[T, R]) join(ctx context.Context, values []T) ([]*item[T, R], error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	items := make([]*item[T, R], len(values))
	for i, v := range values {
		items[i] = &item[T, R]{value: v, done: make(chan struct{})}
	}
	l.queue = append(l.queue, items...)
	switch {
	case len(items) == 0:
	case !l.running:
		l.running = true
		go l.work()
	case l.visit != 0 && l.timer == nil:
		visit := l.visit
		l.timer = time.AfterFunc(l.patience, func() { l.overtake(visit) })
	}
	return items, nil
}

func (l *Lane[T, R]) wait(ctx context.Context, it *item[T, R]) R {
	select {
	case <-it.done:
		return it.result
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-it.done: // both at once: the answer is worth more
		return it.result
	default:
	}
	if it.taken {
		return l.gone(fencing.AsUnknown(ctx.Err()))
	}
	for i, q := range l.queue {
		if q == it {
			l.queue = append(l.queue[:i:i], l.queue[i+1:]...)
			break
		}
	}
	return l.gone(fencing.AsFailed(ctx.Err()))
}

// Enter takes the lane for its caller, if nobody is in it and nobody in line. What comes until
// Leave gathers, and is the next batch; but it does not wait for longer than patience. visit
// is for Leave; 0 if the lane was not to be had.
func (l *Lane[T, R]) Enter(patience time.Duration) (visit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running || l.closed {
		return 0
	}
	l.running = true
	l.visits++
	l.visit, l.patience = l.visits, patience
	return l.visit
}

// Leave lets those go on who came since Enter. Nothing happens if visit is 0, or was left before.
func (l *Lane[T, R]) Leave(visit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave(visit)
}

// overtake ends a visit whose time is up, for those who wait. Where they have all gone meanwhile,
// the visitor has the lane still, and the next one to come waits for as long again.
func (l *Lane[T, R]) overtake(visit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.visit == visit && len(l.queue) == 0 {
		l.timer = nil
		return
	}
	l.leave(visit)
}

// leave ends a visit, unless somebody else has ended it. Callers hold l.mu.
func (l *Lane[T, R]) leave(visit int) {
	if visit == 0 || l.visit != visit {
		return
	}
	l.visit = 0
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if len(l.queue) > 0 {
		go l.work()
		return
	}
	l.running = false
	l.idle.Broadcast()
}

// Waiting returns how many items are in line and not taken.
func (l *Lane[T, R]) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

// Idle reports whether nobody is in the lane, nor in line.
func (l *Lane[T, R]) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.running
}

// work runs batches until nothing is in line.
func (l *Lane[T, R]) work() {
	for {
		var batch []*item[T, R]
		results := l.run(func() []T {
			batch = l.take()
			values := make([]T, len(batch))
			for i, it := range batch {
				values[i] = it.value
				it.value = *new(T) // the line's array outlives a burst, and must not keep what was in it
			}
			return values
		})
		for i, it := range batch {
			it.result = results[i]
			close(it.done)
		}
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.queue = nil
			l.running = false
			l.idle.Broadcast()
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

func (l *Lane[T, R]) take() []*item[T, R] {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.queue), l.most)
	batch := l.queue[:n:n]
	l.queue = l.queue[n:]
	for _, it := range batch {
		it.taken = true
	}
	return batch
}

// Close refuses new items, and returns when those in line have been answered.
func (l *Lane[T, R]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.running {
		l.idle.Wait()
	}
}
