package locking

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

const (
	// maxBatch is how many leases one call renews: what a gateway takes in one request.
	maxBatch = 1000
	// maxCalls is how many calls of one round are under way at once.
	maxCalls = 4
)

// batch is one call that renews many holds, all for the same time. The scheduler's mu guards
// it.
type batch struct {
	ttl     time.Duration
	members []*keeper // as they joined; those that left before the call was sent have another batch, or none
	live    int       // members whose leases have not ended
	sent    moment
	cancel  context.CancelFunc // ends the call; nil until it is sent
	done    chan struct{}      // closed when the verdicts are taken in; nil until the call is sent
}

// leave says that a member's leases have ended. The call is for the others: only with the
// last of them it ends early. Callers hold mu.
func (b *batch) leave(k *keeper) {
	b.live--
	switch {
	case b.cancel == nil:
		k.batch = nil
	case b.live == 0:
		b.cancel()
	}
}

// tick does what is due: it ends leases whose time is up, warns those whose time is nearly
// up, and begins renewals.
//
// A renewal that is due takes along those that are due soon. From then on they are due
// together: leases that were taken out at different times gather into few batches.
func (l *Locker) tick() {
	s := l.s
	s.mu.Lock()
	s.woken++
	s.fires = never
	now := s.now()
	due, by := s.take(nil, now), now
	if slices.ContainsFunc(due, func(k *keeper) bool { return k.next <= now }) {
		by = now + l.early
		due = s.take(due, by)
	}
	var lost []*keeper
	var renew batches
	for _, k := range due {
		if k.deadline <= now {
			k.stop(ErrLost)
			lost = append(lost, k)
			continue
		}
		if k.warn <= now {
			k.warn = never
			go k.expiring()
		}
		if k.next <= by {
			k.next = never
			if ttl := k.ttl(now); ttl != 0 {
				renew.add(k, ttl)
			}
		}
		s.add(k)
	}
	s.arm()
	s.mu.Unlock()
	l.renewAll(renew.all)
	for _, k := range lost {
		k.lost("its time is up and no renewal was answered")
	}
}

// batches is what one tick renews.
type batches struct {
	all  []*batch
	open map[time.Duration]*batch // by TTL, the one that has room
}

// add lets k join a batch of this TTL. Callers hold mu.
func (bs *batches) add(k *keeper, ttl time.Duration) {
	b := bs.open[ttl]
	if b == nil || len(b.members) == maxBatch {
		b = &batch{ttl: ttl}
		bs.all = append(bs.all, b)
		if bs.open == nil {
			bs.open = map[time.Duration]*batch{}
		}
		bs.open[ttl] = b
	}
	b.members = append(b.members, k)
	b.live++
	k.batch = b
}

// renewAll sends every batch, a few at once, and does not wait for them.
func (l *Locker) renewAll(all []*batch) {
	queue := make(chan *batch, len(all))
	for _, b := range all {
		queue <- b
	}
	close(queue)
	for range min(len(all), maxCalls) {
		go l.work(queue)
	}
}

// work sends one batch after the other. Behind a call that is not answered soon somebody
// else takes over: a call that hangs must not hold up the others.
func (l *Locker) work(queue <-chan *batch) {
	for b := range queue {
		if len(queue) == 0 {
			l.renew(b)
			return
		}
		relief := time.AfterFunc(l.early, func() { l.work(queue) })
		l.renew(b)
		if !relief.Stop() {
			return
		}
	}
}

// renew sends a batch and takes in the verdicts.
func (l *Locker) renew(b *batch) {
	s := l.s
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.mu.Lock()
	sent := s.now()
	limit := sent
	var members []*keeper
	var tokens []fencing.Token
	for _, k := range b.members {
		if k.batch == b {
			members, tokens = append(members, k), append(tokens, k.token)
			limit = max(limit, k.deadline)
		}
	}
	if len(members) == 0 {
		s.mu.Unlock()
		return
	}
	b.sent, b.cancel, b.done = sent, cancel, make(chan struct{})
	s.mu.Unlock()

	// The call lasts for half of the time in which it can help anybody, so that one which
	// hangs leaves time for another. Whose own deadline is earlier is ended by the scheduler,
	// whatever becomes of the call. After its TTL an answer is worth nothing.
	last := min(limit-sent, b.ttl)
	if last > 2*MinTTL {
		last /= 2
	}
	ctx, stop := context.WithTimeout(ctx, last)
	defer stop()
	verdicts := l.i.Renew(ctx, b.ttl, tokens)

	for _, k := range l.renewed(b, members, verdicts) {
		k.lost("the lock store has ended the hold")
	}
}

var errNoVerdict = fencing.AsUnknown(errors.New("the issuer gave no verdict"))

// verdict returns the one about token i. Issuers are written by others: one is missing rather
// than a panic.
func verdict(verdicts []error, i int) error {
	if i < len(verdicts) {
		return verdicts[i]
	}
	return errNoVerdict
}

// renewed takes in the verdicts and returns those whose leases ended by them.
func (l *Locker) renewed(b *batch, members []*keeper, verdicts []error) (lost []*keeper) {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.arm()
	defer close(b.done)
	now := s.now()
	again := now + l.o.RenewEvery/10 + rand.N(l.o.RenewEvery/10+1) // one for all: they stay together
	for i, k := range members {
		k.batch = nil
		switch err := verdict(verdicts, i); {
		case k.ctx.Err() != nil: // released or lost meanwhile: the answer means nothing
			continue
		case errors.Is(err, ErrLost):
			k.stop(ErrLost)
			lost = append(lost, k)
			continue
		case err == nil:
			k.prolong(b.sent, b.ttl, k.end)
			k.plan(b.sent, now)
		default: // the deadline stands
			k.next = again
		}
		s.moved(k)
	}
	return lost
}
