package locking

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Options tunes a [Locker]. The zero value is the default.
type Options struct {
	// TTL is how long a hold lasts when its holder falls silent, MinTTL..MaxTTL in
	// whole milliseconds. Default: 30 s (DefaultTTL).
	TTL time.Duration
	// RenewEvery is the longest time between two renewals of a lease, 1 ms to half of
	// TTL. The leases of a Locker are renewed together, up to 1,000 in one call of the
	// issuer; for that a renewal may come up to a fifth early. Lockers do not renew in step:
	// each has a period of its own. Default: TTL/3.
	RenewEvery time.Duration
	// MaxHold ends every lease at the latest so long after it was asked for, so that work
	// which never returns does not keep the lock for ever; at least TTL, and equal to TTL
	// for a lease time that is fixed. Lease.Extend may go beyond it. The lock itself may be
	// held by a twentieth of TTL longer, if nobody releases it. Default: none.
	MaxHold time.Duration
	// Drift is by how much the lock store's clock may run faster than this process's
	// over one TTL; leases end earlier by it. At most a quarter of TTL.
	// Default: 1 % of TTL, and 2 ms.
	Drift time.Duration
	// Wait is how long Acquire and Do wait for a lock. Default: as long as their
	// context lasts.
	Wait time.Duration
	// ReleaseTimeout bounds Lease.Release, which outlives its context's cancellation,
	// 10 ms to 1 min. Default: 5 s.
	ReleaseTimeout time.Duration
	// Label is what this holder calls itself in Status: at most 200 bytes of printable
	// ASCII. Not a secret. Default: none.
	Label string
	// BeforeExpiry is how long before a lease's deadline OnExpiring is called, more than 0
	// and at most TTL-RenewEvery-Drift, which is what a lease has left when its renewal is
	// due: close to that, a renewal that is merely slow is told of too. Default: half of it.
	BeforeExpiry time.Duration
	// OnExpiring is called when a lease will soon be lost, so that its work can be wound up:
	// its renewals keep failing, or MaxHold is nearly over. That is once, and again only if a
	// renewal or Lease.Extend succeeded in between. It gets the lease that took the lock
	// (re-entries share its token and its context), may call its methods, and runs on a
	// goroutine of its own. It is not called for a lease that has ended; one that ends while
	// it is called is told by its context. It must be safe for concurrent use.
	// Default: nobody.
	OnExpiring func(*Lease)
	// OnEvent is told of leases that are lost. Default: nobody.
	OnEvent func(fencing.Event)
}

// Locker takes out leases and keeps them alive. It is safe for concurrent use: each
// call takes out a lease of its own. It needs no closing; its leases do.
type Locker struct {
	i      Issuer
	o      Options
	period time.Duration // from one renewal to the next: RenewEvery, or up to a tenth less
	early  time.Duration // by how much a renewal may come before that, to go with another
	s      *scheduler
}

// New returns a Locker at an issuer's desk. A value outside its range is a
// [*fencing.InvalidError].
func New(i Issuer, o *Options) (*Locker, error) {
	if i == nil {
		return nil, &fencing.InvalidError{What: "issuer", Allowed: "one, not nil"}
	}
	opt := Options{}
	if o != nil {
		opt = *o
	}
	if opt.TTL == 0 {
		opt.TTL = DefaultTTL
	}
	if err := errors.Join(ValidateTTL(opt.TTL), validateLabel(opt.Label)); err != nil {
		return nil, err
	}
	if opt.RenewEvery == 0 {
		opt.RenewEvery = opt.TTL / 3
	}
	if opt.Drift == 0 {
		opt.Drift = opt.TTL/100 + 2*time.Millisecond
	}
	if opt.Wait == 0 {
		opt.Wait = -1
	}
	if opt.ReleaseTimeout == 0 {
		opt.ReleaseTimeout = 5 * time.Second
	}
	spare := opt.TTL - opt.RenewEvery - opt.Drift // what a lease has left when its renewal is due
	if opt.BeforeExpiry == 0 {
		opt.BeforeExpiry = spare / 2
	}
	switch {
	case opt.RenewEvery < time.Millisecond || opt.RenewEvery > opt.TTL/2:
		return nil, &fencing.InvalidError{What: "RenewEvery", Got: opt.RenewEvery.String(), Allowed: "1ms to half of the TTL"}
	case opt.MaxHold != 0 && opt.MaxHold < opt.TTL:
		return nil, &fencing.InvalidError{What: "MaxHold", Got: opt.MaxHold.String(), Allowed: "the TTL or more"}
	case opt.Drift < 0 || opt.Drift > opt.TTL/4:
		return nil, &fencing.InvalidError{What: "Drift", Got: opt.Drift.String(), Allowed: "0 to a quarter of the TTL"}
	case opt.BeforeExpiry < 0 || opt.BeforeExpiry > spare:
		return nil, &fencing.InvalidError{What: "BeforeExpiry", Got: opt.BeforeExpiry.String(), Allowed: "up to TTL-RenewEvery-Drift, " + spare.String()}
	case opt.ReleaseTimeout < 10*time.Millisecond || opt.ReleaseTimeout > time.Minute:
		return nil, &fencing.InvalidError{What: "ReleaseTimeout", Got: opt.ReleaseTimeout.String(), Allowed: "10ms to 1m"}
	}
	// Lockers that began together drift apart: each has its own period. With what a batch
	// takes along, a renewal is up to a fifth early.
	early := opt.RenewEvery / 10
	l := &Locker{i: i, o: opt, early: early, period: opt.RenewEvery - rand.N(early+1)}
	l.s = newScheduler(l.tick)
	return l, nil
}

// Acquire takes out a lease on a resource and waits for the lock if it is held. The lease
// renews itself until it is released: release it. It is not bound to ctx, which only
// bounds the waiting. Within a lease of this Locker on the resource (its context, or that
// of Do) it is a re-entry: the same hold and token once more, and ErrLost if that lease was
// lost. Errors: those of [Issuer.Grant]; ErrLost if the grant came too late
// to be trusted, and was given back.
func (l *Locker) Acquire(ctx context.Context, resource string) (*Lease, error) {
	return l.acquire(ctx, resource, l.o.Wait)
}

// TryAcquire is Acquire without waiting: a [*HeldError] if the lock is held. Over a lock
// store without a line it may overtake those who wait. It re-enters like Acquire.
func (l *Locker) TryAcquire(ctx context.Context, resource string) (*Lease, error) {
	return l.acquire(ctx, resource, 0)
}

func (l *Locker) acquire(ctx context.Context, resource string, wait time.Duration) (*Lease, error) {
	if lease, err := l.reenter(ctx, resource); lease != nil || err != nil {
		return lease, err
	}
	sent := l.s.now() // trust counts from before the request: it may take long to arrive
	g, err := l.i.Grant(ctx, Request{
		Resource: resource, Label: l.o.Label, TTL: l.o.TTL, Wait: wait,
	})
	if err != nil {
		return nil, err
	}
	deadline := sent + g.Waited + g.ExpiresIn - l.o.Drift
	if deadline <= l.s.now() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.o.ReleaseTimeout)
		defer cancel()
		_, err := l.i.Release(ctx, g.Token)
		return nil, errors.Join(ErrLost, err)
	}
	return newLease(ctx, l, g.Token, sent+g.Waited, deadline), nil
}

// Locked reports whether anybody holds the resource's lock, as the lock store knows it now.
// The answer may be old when it arrives.
func (l *Locker) Locked(ctx context.Context, resource string) (bool, error) {
	st, err := l.i.Status(ctx, resource)
	return st.Held, err
}

// Do runs fn while it holds the resource's lock. fn's context ends with ctx, and with
// cause ErrLost when the lease can no longer be trusted; its token goes with every write, and
// fencing.FromContext finds it in the context.
// The lock is released whatever fn does, panic included.
//
// Do returns fn's error, joined by what went wrong with the lease: ErrLost if it was lost
// before fn returned, or what kept the release from being answered (the lock then frees
// itself after its TTL). If fn returned nil its work is done, and the outcome of such an
// error is unknown, never failed: what fn wrote was accepted, and to run it again would do
// it twice.
func (l *Locker) Do(ctx context.Context, resource string, fn func(context.Context, fencing.Token) error) (err error) {
	lease, err := l.Acquire(ctx, resource)
	if err != nil {
		return err
	}
	work, cancel := context.WithCancelCause(lease.k.inside(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(lease.Context(), func() { cancel(context.Cause(lease.Context())) })
	defer func() {
		stop()
		cause := context.Cause(lease.Context())
		released := lease.Release(ctx)
		if errors.Is(cause, ErrLost) && !errors.Is(released, ErrLost) {
			released = errors.Join(cause, released)
		}
		if err == nil {
			err = fencing.AsPartial(released)
		} else {
			err = errors.Join(err, released)
		}
	}()
	return fn(work, lease.Token())
}
