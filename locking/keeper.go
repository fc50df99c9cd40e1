package locking

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// keeper keeps one hold alive for the leases on it: it renews the hold and ends the leases'
// context when they can no longer be trusted.
type keeper struct {
	locker *Locker
	token  fencing.Token
	end    time.Time       // of the longest hold; zero: none
	ctx    context.Context // ends with the leases; not the caller's
	cancel context.CancelCauseFunc

	mu       sync.Mutex // guards what follows; the issuer is never called under it
	leases   int        // not released yet
	deadline time.Time
	trust    *time.Timer   // ends the leases at their deadline
	renewal  *time.Timer   // begins the next renewal
	renewing chan struct{} // closed when the renewal under way is over; nil if there is none
}

// newLease returns the first lease on a hold.
func newLease(ctx context.Context, locker *Locker, t fencing.Token, begun, deadline time.Time) *Lease {
	k := &keeper{locker: locker, token: t, deadline: deadline, leases: 1}
	if locker.o.MaxHold != 0 {
		k.end = begun.Add(locker.o.MaxHold)
	}
	k.ctx, k.cancel = context.WithCancelCause(k.inside(context.WithoutCancel(ctx)))
	k.mu.Lock() // the timers may fire before they are assigned
	defer k.mu.Unlock()
	k.trust = time.AfterFunc(time.Until(deadline), k.distrust)
	k.renewal = time.AfterFunc(k.untilRenewal(), k.renew)
	return &Lease{k: k}
}

// within finds the keeper in whose leases ctx is.
type within struct {
	locker   *Locker
	resource string
}

// inside returns a context in which acquiring the same resource is a re-entry.
func (k *keeper) inside(ctx context.Context) context.Context {
	return context.WithValue(ctx, within{k.locker, k.token.Resource}, k)
}

// reenter returns one more lease on the hold that ctx is inside of: nil if there is none,
// or its leases have been released; ErrLost if they were lost, for a new hold would have
// another token, and what the outer lease's holder does with the old one would be refused.
func (l *Locker) reenter(ctx context.Context, resource string) (*Lease, error) {
	k, ok := ctx.Value(within{l, resource}).(*keeper)
	if !ok {
		return nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
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
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leases--
	if k.leases > 0 {
		return false
	}
	if k.ctx.Err() == nil {
		k.cancel(ErrReleased) // under mu: nobody re-enters between this and the release
	}
	return true
}

func (k *keeper) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.locker.o.ReleaseTimeout)
	defer cancel()
	k.mu.Lock()
	k.cancel(ErrReleased)
	k.trust.Stop()
	k.renewal.Stop()
	renewing := k.renewing
	k.mu.Unlock()
	if renewing != nil {
		// Its context has ended with the lease's. Waiting orders the two calls; a
		// renewal that does not heed its context must not keep the lock.
		select {
		case <-renewing:
		case <-time.After(k.locker.o.ReleaseTimeout / 4):
		}
	}
	freed, err := k.locker.i.Release(ctx, k.token)
	if !freed && err == nil {
		return ErrLost
	}
	return err
}

// distrust ends the lease at its deadline.
func (k *keeper) distrust() {
	k.mu.Lock()
	left := time.Until(k.deadline)
	if left > 0 {
		k.trust.Reset(left) // a renewal came in between
	}
	k.mu.Unlock()
	if left <= 0 {
		k.lose("its time is up and no renewal was answered")
	}
}

// lose ends the lease, unless it has ended. Callers do not hold k.mu: OnEvent may call
// the lease's methods.
func (k *keeper) lose(reason string) {
	k.mu.Lock()
	ended := k.ctx.Err() != nil
	k.cancel(ErrLost)
	k.trust.Stop()
	k.renewal.Stop()
	k.mu.Unlock()
	if on := k.locker.o.OnEvent; on != nil && !ended {
		on(fencing.Event{
			Time: time.Now(), Kind: fencing.EventLost, Resource: k.token.Resource, Number: k.token.Number,
			Label: k.locker.o.Label, Reason: reason,
		})
	}
}

// renew renews the lease once and sets the timer for the next time.
func (k *keeper) renew() {
	k.mu.Lock()
	if k.ctx.Err() != nil {
		k.mu.Unlock()
		return
	}
	deadline := k.deadline
	ttl := k.ttl()
	if ttl < MinTTL {
		k.mu.Unlock()
		return // the longest hold is nearly over: the deadline stands
	}
	k.renewing = make(chan struct{})
	k.mu.Unlock()

	ctx, cancel := context.WithDeadline(k.ctx, deadline)
	sent := time.Now()
	err := k.locker.i.Renew(ctx, ttl, []fencing.Token{k.token})[0]
	cancel()

	if k.renewed(sent, ttl, err) {
		k.lose("the lock store has ended the hold")
	}
}

// renewed takes in a renewal's answer and reports whether the lease is lost.
func (k *keeper) renewed(sent time.Time, ttl time.Duration, err error) (lost bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.renewing)
	k.renewing = nil
	switch {
	case k.ctx.Err() != nil: // released or lost meanwhile: the answer means nothing
	case errors.Is(err, ErrLost):
		return true
	case err == nil:
		k.prolong(sent, ttl)
		k.renewal.Reset(k.untilRenewal())
	default: // try again soon; the deadline stands
		k.renewal.Reset(k.locker.o.RenewEvery/10 + rand.N(k.locker.o.RenewEvery/10+1))
	}
	return false
}

// ttl is for how long to renew: the TTL, or what is left of the longest hold; 0 if the hold
// lasts until then as it is. Callers hold k.mu.
func (k *keeper) ttl() time.Duration {
	ttl := k.locker.o.TTL
	if k.end.IsZero() {
		return ttl
	}
	if !k.end.After(k.deadline.Add(k.locker.o.Drift)) {
		return 0
	}
	return min(ttl, time.Until(k.end).Truncate(time.Millisecond))
}

// prolong takes in that a renewal for ttl, sent then, was carried out. Callers hold k.mu.
func (k *keeper) prolong(sent time.Time, ttl time.Duration) {
	drift := k.locker.o.Drift
	if ttl > k.locker.o.TTL { // clocks drift apart for longer
		drift = time.Duration(float64(drift) * float64(ttl) / float64(k.locker.o.TTL))
	}
	if until := sent.Add(ttl - drift); until.After(k.deadline) {
		k.deadline = until
		k.trust.Reset(time.Until(until))
	}
}

// extend renews the hold once for ttl, beside the regular renewals.
func (k *keeper) extend(ctx context.Context, ttl time.Duration) error {
	if cause := context.Cause(k.ctx); cause != nil {
		return cause
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(k.ctx, func() { cancel(context.Cause(k.ctx)) })()
	sent := time.Now()
	err := k.locker.i.Renew(ctx, ttl, []fencing.Token{k.token})[0]
	if errors.Is(err, ErrLost) {
		k.lose("the lock store has ended the hold")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if cause := context.Cause(k.ctx); cause != nil {
		return cause
	}
	if err == nil {
		k.prolong(sent, ttl)
	}
	return err
}

// untilRenewal is RenewEvery less up to a fifth, and no more than half of what is left:
// a lease that was waited for may begin with little. Callers hold k.mu.
func (k *keeper) untilRenewal() time.Duration {
	every := k.locker.o.RenewEvery
	every -= rand.N(every/5 + 1)
	return max(0, min(every, time.Until(k.deadline)/2))
}
