package locking

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// keeper keeps one hold for the leases on it: when it is renewed, and until when they can be
// trusted. The Locker's scheduler acts on it.
type keeper struct {
	locker *Locker
	token  fencing.Token
	end    moment          // of the longest hold; never: none
	ctx    context.Context // ends with the leases; not the caller's
	cancel context.CancelCauseFunc
	first  Lease

	// The scheduler's mu guards what follows.
	leases   int // not released yet
	deadline moment
	next     moment // when to renew; never: a renewal is under way, or none is to come
	warn     moment // when to call OnExpiring
	batch    *batch // which renews the hold now
	place    int    // on the schedule; -1: not on it
}

// newLease returns the first lease on a hold.
func newLease(ctx context.Context, locker *Locker, t fencing.Token, begun, deadline moment) *Lease {
	k := &keeper{locker: locker, token: t, end: never, deadline: deadline, leases: 1, place: -1}
	k.first.k = k
	if hold := locker.o.MaxHold; hold != 0 && hold < never-begun {
		k.end = begun + hold
	}
	k.ctx, k.cancel = context.WithCancelCause(k.inside(context.WithoutCancel(ctx)))
	s := locker.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	k.plan(now, now)
	s.add(k)
	s.arm()
	return &k.first
}

// within finds the keeper in whose leases ctx is.
type within struct {
	locker   *Locker
	resource string
}

// inside returns a context in which acquiring the same resource is a re-entry, and which carries
// the token to where it is sent on, see fencing.FromContext.
func (k *keeper) inside(ctx context.Context) context.Context {
	return context.WithValue(fencing.NewContext(ctx, k.token), within{k.locker, k.token.Resource}, k)
}

// reenter returns one more lease on the hold that ctx is inside of: nil if there is none,
// or its leases have been released; ErrLost if they were lost, for a new hold would have
// another token, and what the outer lease's holder does with the old one would be refused.
func (l *Locker) reenter(ctx context.Context, resource string) (*Lease, error) {
	k, ok := ctx.Value(within{l, resource}).(*keeper)
	if !ok {
		return nil, nil
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	switch cause := context.Cause(k.ctx); {
	case cause == nil:
		k.leases++
		return &Lease{k: k}, nil
	case errors.Is(cause, ErrReleased):
		return nil, nil
	default:
		return nil, cause
	}
}

// leave gives up one lease and reports whether it was the last.
func (k *keeper) leave() (last bool) {
	s := k.locker.s
	s.mu.Lock()
	defer s.mu.Unlock()
	k.leases--
	if k.leases > 0 {
		return false
	}
	k.stop(ErrReleased) // under mu: nobody re-enters between this and the release
	s.arm()
	return true
}

// stop ends the leases, unless they have ended: nothing is due for them any more. Callers
// hold mu.
func (k *keeper) stop(cause error) (ended bool) {
	if k.ctx.Err() != nil {
		return false
	}
	k.cancel(cause)
	k.locker.s.remove(k)
	if k.batch != nil {
		k.batch.leave(k)
	}
	return true
}

// release frees the hold, after the last lease on it has left.
func (k *keeper) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.locker.o.ReleaseTimeout)
	defer cancel()
	k.awaitRenewal()
	freed, err := k.locker.i.Release(ctx, k.token)
	if !freed && err == nil {
		return ErrLost
	}
	return err
}

// awaitRenewal puts the release after a renewal that is under way: it waits for that, but no
// longer than until the renewal has taken a quarter of ReleaseTimeout. A call that
// hangs, or does not heed its context, must not keep the lock.
func (k *keeper) awaitRenewal() {
	s := k.locker.s
	s.mu.Lock()
	b := k.batch
	if b == nil {
		s.mu.Unlock()
		return
	}
	left := b.sent + k.locker.o.ReleaseTimeout/4 - s.now()
	s.mu.Unlock()
	if left <= 0 {
		return
	}
	patience := time.NewTimer(left)
	defer patience.Stop()
	select {
	case <-b.done:
	case <-patience.C:
	}
}

// lose ends the leases because the lock store has ended the hold.
func (k *keeper) lose() {
	s := k.locker.s
	s.mu.Lock()
	ended := k.stop(ErrLost)
	s.arm()
	s.mu.Unlock()
	if ended {
		k.lost("the lock store has ended the hold")
	}
}

// lost tells of leases that were lost. Callers do not hold mu: OnEvent may call their
// methods.
func (k *keeper) lost(reason string) {
	if on := k.locker.o.OnEvent; on != nil {
		on(fencing.Event{
			Time: time.Now(), Kind: fencing.EventLost, Resource: k.token.Resource, Number: k.token.Number,
			Label: k.locker.o.Label, Reason: reason,
		})
	}
}

// expiring calls OnExpiring, unless the leases have ended.
func (k *keeper) expiring() {
	if k.ctx.Err() == nil {
		k.locker.o.OnExpiring(&k.first)
	}
}

// due is when the scheduler has to look at k. Callers hold mu.
func (k *keeper) due() moment { return min(k.next, k.warn, k.deadline) }

// plan sets the next renewal, after one that was sent then: a period later, but a little
// after its answer at the earliest, and no later than when half of what is left has passed:
// a lease that was waited for may begin with little. Callers hold mu.
func (k *keeper) plan(sent, now moment) {
	k.next = never
	if !k.lastsToTheEnd() {
		k.next = now + max(0, min(max(sent+k.locker.period-now, k.locker.early), (k.deadline-now)/2))
	}
	k.planWarning()
}

// planWarning sets the warning before the deadline. A lease that begins with little is not
// warned before its first renewal had time to be answered. Callers hold mu.
func (k *keeper) planWarning() {
	k.warn = never
	if k.locker.o.OnExpiring == nil {
		return
	}
	k.warn = k.deadline - k.locker.o.BeforeExpiry
	if k.next != never && k.warn < k.next {
		k.warn = k.next + (k.deadline-k.next)/2
	}
}

// lastsToTheEnd reports whether the hold needs no renewal any more: it lasts for as long as
// it may, but for the drift. Callers hold mu.
func (k *keeper) lastsToTheEnd() bool {
	return k.end != never && k.end <= k.deadline+k.locker.o.Drift
}

// ttl is for how long to renew: the TTL, or what is left of the longest hold; 0 if the hold
// needs no renewal, or there is less than MinTTL left: then the deadline stands. What is
// left is rounded up to a twentieth of the TTL: leases that end at about the same time are
// renewed by one call. Callers hold mu.
func (k *keeper) ttl(now moment) time.Duration {
	ttl := k.locker.o.TTL
	if k.end == never {
		return ttl
	}
	left := k.end - now
	if k.lastsToTheEnd() || left < MinTTL {
		return 0
	}
	step := (ttl / 20).Truncate(time.Millisecond)
	return min(ttl, (left + step - 1).Truncate(step))
}

// prolong takes in that a renewal for ttl, sent then, was carried out. The leases are not
// trusted beyond end for it. Callers hold mu.
func (k *keeper) prolong(sent moment, ttl time.Duration, end moment) {
	drift := k.locker.o.Drift
	if ttl > k.locker.o.TTL { // clocks drift apart for longer
		drift = time.Duration(float64(drift) * float64(ttl) / float64(k.locker.o.TTL))
	}
	k.deadline = max(k.deadline, min(sent+ttl-drift, end))
}

// extend renews the hold once for ttl, beside the regular renewals.
func (k *keeper) extend(ctx context.Context, ttl time.Duration) error {
	if cause := context.Cause(k.ctx); cause != nil {
		return cause
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(k.ctx, func() { cancel(context.Cause(k.ctx)) })()
	s := k.locker.s
	sent := s.now()
	err := verdict(k.locker.i.Renew(ctx, ttl, []fencing.Token{k.token}), 0)
	if errors.Is(err, ErrLost) {
		k.lose()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cause := context.Cause(k.ctx); cause != nil {
		return cause
	}
	if err == nil {
		k.prolong(sent, ttl, never)
		k.planWarning()
		s.moved(k)
		s.arm()
	}
	return err
}
