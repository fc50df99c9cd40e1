package memlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// line is who waits for a lock, in order of arrival.
type line struct {
	places []place
	given  bool // the last hold was given to a waiter, who has not asked for it yet
}

type place struct {
	grant, label string
	ttl          time.Duration
	seen         time.Duration // the last Join, since the backend's start
	wake         func()
}

// MaxStall is by how much waiters that joined and never ask again delay the others. Their
// places end PlaceTTL after their last Join; a lock given to the last of them just before
// that lasts for PushTTL, and whoever lives looks again within LookEvery.
const MaxStall = locking.PlaceTTL + locking.PushTTL + locking.LookEvery

// MaxStall implements locking.Waiter.
func (b *Backend) MaxStall() time.Duration { return MaxStall }

// first drops the dead from the head of the line, and returns the grant of the first.
func (n *line) first(now time.Duration) (grant string) {
	for len(n.places) > 0 && now-n.places[0].seen > locking.PlaceTTL {
		n.places = n.places[1:]
	}
	if len(n.places) == 0 {
		return ""
	}
	return n.places[0].grant
}

// serve gives a lock that nobody holds to the first in line. Callers hold s.mu.
func (s *shard) serve(resource string, now time.Duration) {
	n := s.lines[resource]
	if n == nil || n.first(now) == "" {
		return
	}
	l := s.locks[resource]
	p := n.places[0]
	if l.draw(0) != nil {
		return // it learns so when it asks
	}
	n.places = n.places[1:]
	n.given = true
	s.grant(l, resource, p.grant, p.label, now+min(p.ttl, locking.PushTTL))
	p.wake()
}

// join takes a place, or keeps the one that r has. Callers hold s.mu.
func (s *shard) join(r locking.Request, wake func(), now time.Duration) {
	n := s.lines[r.Resource]
	if n == nil {
		n = &line{}
		s.lines[r.Resource] = n
	}
	p := place{grant: r.Grant, label: r.Label, ttl: r.TTL, seen: now, wake: wake}
	if i := n.place(r.Grant); i >= 0 {
		n.places[i] = p
	} else {
		n.places = append(n.places, p)
	}
}

func (n *line) place(grant string) int {
	return slices.IndexFunc(n.places, func(p place) bool { return p.grant == grant })
}

// leave gives up r's place, and what it was given. Callers hold s.mu.
func (s *shard) leave(r locking.Request) {
	n := s.lines[r.Resource]
	if n == nil {
		return
	}
	if i := n.place(r.Grant); i >= 0 {
		n.places = slices.Delete(n.places, i, i+1)
	}
	if s.locks[r.Resource].is(r.Grant) {
		n.given = false
	}
	if len(n.places) == 0 && !n.given {
		delete(s.lines, r.Resource)
	}
}

// Leave implements locking.Waiter.
func (b *Backend) Leave(_ context.Context, r locking.Request) error {
	s := b.shard(r.Resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.lines[r.Resource]
	if n == nil {
		return nil
	}
	if l := s.locks[r.Resource]; n.given && l.is(r.Grant) {
		l.expires = 0
	}
	s.leave(r)
	if now := b.now(); !s.locks[r.Resource].held(now) {
		s.serve(r.Resource, now)
	}
	return nil
}

// Transfer implements locking.Transferrer.
func (b *Backend) Transfer(ctx context.Context, from fencing.Token, r locking.Request) (hold locking.Hold, err error) {
	if err := r.ValidateTransfer(from); err != nil {
		return hold, err
	}
	ended := b.onHold(ctx, from, func(s *shard, l *lock, now time.Duration) {
		if err = l.draw(r.Floor); err != nil {
			return
		}
		s.grant(l, r.Resource, r.Grant, r.Label, now+r.TTL)
		s.leave(r)
		hold = l.hold(r, true, now)
	})
	return hold, errors.Join(ended, err)
}
