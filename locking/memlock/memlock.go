// Package memlock is a lock store in memory: for one process that guards its own data,
// for tests and for the lab.
//
// # Guarantees
//
// Those of locking.Backend for as long as the process lives. After a restart the numbers
// begin at 1 again, and the issuer heals them from the stores' marks.
//
// # Clocks
//
// The process's monotonic clock.
package memlock

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// shards is no power of two, so that the maps of the shards do not all grow at once.
const shards = 80

// Backend is a locking.Backend in memory. It is safe for concurrent use and never blocks:
// contexts are looked at once, before anything is done.
type Backend struct {
	seed   maphash.Seed
	start  time.Time
	shards [shards]shard
}

type shard struct {
	mu     sync.Mutex // guards what follows; nothing blocks under it
	locks  map[string]*lock
	labels map[string]string // the holders', where they have one
	lines  map[string]*line  // only of locks that somebody waits for, or was given
}

// lock is what is remembered of a resource. It stays when its hold has ended: the number
// must not come again, and the last grant must not take the lock again.
type lock struct {
	number  int64
	expires time.Duration // since the backend's start; 0: ended
	grant   [26]byte      // of the last hold; in here, so that a lock is one small block
}

func (l *lock) held(now time.Duration) bool { return l.expires > now }

var (
	_ locking.Waiter      = (*Backend)(nil)
	_ locking.Transferrer = (*Backend)(nil)
)

// New returns an empty backend.
func New() *Backend {
	b := &Backend{seed: maphash.MakeSeed(), start: time.Now()}
	for i := range b.shards {
		b.shards[i].locks = map[string]*lock{}
		b.shards[i].labels = map[string]string{}
		b.shards[i].lines = map[string]*line{}
	}
	return b
}

func (b *Backend) now() time.Duration { return time.Since(b.start) }

func (b *Backend) shard(resource string) *shard {
	return &b.shards[maphash.String(b.seed, resource)%shards]
}

// TryAcquire implements locking.Backend.
func (b *Backend) TryAcquire(ctx context.Context, r locking.Request) (locking.Hold, error) {
	return b.try(ctx, r, nil)
}

// Join implements locking.Waiter.
func (b *Backend) Join(ctx context.Context, r locking.Request, wake func()) (locking.Hold, error) {
	return b.try(ctx, r, wake)
}

// try is one attempt; with wake it takes a place in line where it does not succeed.
func (b *Backend) try(ctx context.Context, r locking.Request, wake func()) (locking.Hold, error) {
	if err := ctx.Err(); err != nil {
		return locking.Hold{}, fencing.AsFailed(err)
	}
	if err := r.Validate(); err != nil {
		return locking.Hold{}, err
	}
	s := b.shard(r.Resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := b.now()
	l, seen := s.locks[r.Resource]
	if !seen {
		l = &lock{}
	}
	n := s.lines[r.Resource]
	if n != nil && !l.held(now) && n.first(now) != r.Grant {
		s.serve(r.Resource, now)
	}
	held, mine := l.held(now), l.is(r.Grant)
	given := mine && n != nil && n.given
	switch {
	case held && !mine:
		if wake != nil {
			s.join(r, wake, now)
		}
		return locking.Hold{}, &locking.HeldError{
			Resource: r.Resource, Number: l.number, Label: s.labels[r.Resource], Remaining: l.expires - now,
		}
	case !held && mine && !given:
		return locking.Hold{}, locking.ErrLost
	case held && !given && l.number > r.Floor:
		return l.hold(r, false, now), nil
	}
	if !held || l.number <= r.Floor {
		if err := l.draw(r.Floor); err != nil {
			return locking.Hold{}, err
		}
	}
	if !seen {
		s.locks[strings.Clone(r.Resource)] = l
	}
	if !held || given {
		s.grant(l, r.Resource, r.Grant, r.Label, now+r.TTL)
		s.leave(r)
	}
	return l.hold(r, true, now), nil
}

func (l *lock) is(grant string) bool { return string(l.grant[:]) == grant }

// grant lets a lock be held by a grant until then. Callers hold s.mu.
func (s *shard) grant(l *lock, resource, grant, label string, until time.Duration) {
	copy(l.grant[:], grant)
	l.expires = until
	if label == "" {
		delete(s.labels, resource)
	} else if s.labels[resource] != label {
		s.labels[strings.Clone(resource)] = strings.Clone(label) // what they are parts of may be large
	}
}

// end ends the hold of a lock and serves whoever is next. Callers hold s.mu.
func (s *shard) end(l *lock, resource string, now time.Duration) {
	l.expires = 0
	delete(s.labels, resource)
	s.serve(resource, now)
}

// draw gives the lock its next number.
func (l *lock) draw(floor int64) error {
	number := max(l.number, floor) + 1
	if number > fencing.MaxNumber {
		return locking.ErrExhausted
	}
	l.number = number
	return nil
}

func (l *lock) hold(r locking.Request, drawn bool, now time.Duration) locking.Hold {
	return locking.Hold{
		Token:     fencing.Token{Resource: r.Resource, Number: l.number, Grant: r.Grant},
		Drawn:     drawn,
		Remaining: l.expires - now,
	}
}

// Renew implements locking.Backend.
func (b *Backend) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	verdicts := make([]error, len(held))
	for i, t := range held {
		verdicts[i] = b.onHold(ctx, t, func(_ *shard, l *lock, now time.Duration) {
			l.expires = max(l.expires, now+ttl)
		})
	}
	return verdicts
}

// Release implements locking.Backend.
func (b *Backend) Release(ctx context.Context, t fencing.Token) (bool, error) {
	err := b.onHold(ctx, t, func(s *shard, l *lock, now time.Duration) {
		s.end(l, t.Resource, now)
	})
	if errors.Is(err, locking.ErrLost) {
		return false, nil
	}
	return err == nil, err
}

// onHold runs fn on t's hold, or returns ErrLost if it has ended.
func (b *Backend) onHold(ctx context.Context, t fencing.Token, fn func(*shard, *lock, time.Duration)) error {
	if err := ctx.Err(); err != nil {
		return fencing.AsFailed(err)
	}
	s := b.shard(t.Resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := b.now()
	l, seen := s.locks[t.Resource]
	if !seen || !l.held(now) || l.number != t.Number || !l.is(t.Grant) {
		return locking.ErrLost
	}
	fn(s, l, now)
	return nil
}

// Evict implements locking.Backend.
func (b *Backend) Evict(ctx context.Context, resource string, number int64) error {
	if err := ctx.Err(); err != nil {
		return fencing.AsFailed(err)
	}
	s := b.shard(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, seen := s.locks[resource]; seen && l.number == number {
		if n := s.lines[resource]; n != nil {
			n.given = false // whoever it was given to has been evicted, too
		}
		s.end(l, resource, b.now())
	}
	return nil
}

// Status implements locking.Backend.
func (b *Backend) Status(ctx context.Context, resource string) (locking.Status, error) {
	if err := ctx.Err(); err != nil {
		return locking.Status{}, fencing.AsFailed(err)
	}
	s := b.shard(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	l, seen := s.locks[resource]
	if !seen {
		return locking.Status{Resource: resource}, nil
	}
	now := b.now()
	st := s.status(l, resource, now)
	if n := s.lines[resource]; n != nil {
		n.first(now) // without the dead
		st.Waiters = len(n.places)
	}
	return st, nil
}

func (s *shard) status(l *lock, resource string, now time.Duration) locking.Status {
	st := locking.Status{Resource: resource, Number: l.number, Held: l.held(now)}
	if st.Held {
		st.Label, st.Remaining = s.labels[resource], l.expires-now
	}
	return st
}

// List implements locking.Backend.
func (b *Backend) List(ctx context.Context, prefix, after string, limit int) ([]locking.Status, error) {
	if err := ctx.Err(); err != nil {
		return nil, fencing.AsFailed(err)
	}
	var list []locking.Status
	for i := range b.shards {
		list = b.shards[i].list(list, prefix, after, b.now())
	}
	slices.SortFunc(list, func(x, y locking.Status) int { return strings.Compare(x.Resource, y.Resource) })
	return list[:min(limit, len(list))], nil
}

func (s *shard) list(list []locking.Status, prefix, after string, now time.Duration) []locking.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.locks {
		if l.held(now) && strings.HasPrefix(name, prefix) && name > after {
			list = append(list, s.status(l, name, now))
		}
	}
	return list
}
