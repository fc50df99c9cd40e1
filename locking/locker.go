package locking

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Options tunes a [Locker]. The zero value is the default.
type Options struct {
	// TTL is how long a hold lasts when its holder falls silent, MinTTL..MaxTTL in
	// whole milliseconds. Default: 30 s (DefaultTTL).
	TTL time.Duration
	// RenewEvery is the longest time between two renewals of a lease; each is a little
	// early, at random, so that leases do not renew in step. At most half of TTL.
	// Default: TTL/3.
	RenewEvery time.Duration
	// MaxHold ends every lease at the latest so long after it was asked for, so that work
	// which never returns does not keep the lock for ever; at least TTL, and equal to TTL
	// for a lease time that is fixed. Lease.Extend may go beyond it. Default: none.
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
	// OnEvent is told of leases that are lost. Default: nobody.
	OnEvent func(fencing.Event)
}

// Locker takes out leases and keeps them alive. It is safe for concurrent use: each
// call takes out a lease of its own. It needs no closing; its leases do.
type Locker struct {
	i Issuer
	o Options
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
	switch {
	case opt.RenewEvery < time.Millisecond || opt.RenewEvery > opt.TTL/2:
		return nil, &fencing.InvalidError{What: "RenewEvery", Got: opt.RenewEvery.String(), Allowed: "1ms to half of the TTL"}
	case opt.MaxHold != 0 && opt.MaxHold < opt.TTL:
		return nil, &fencing.InvalidError{What: "MaxHold", Got: opt.MaxHold.String(), Allowed: "the TTL or more"}
	case opt.Drift < 0 || opt.Drift > opt.TTL/4:
		return nil, &fencing.InvalidError{What: "Drift", Got: opt.Drift.String(), Allowed: "0 to a quarter of the TTL"}
	case opt.ReleaseTimeout < 10*time.Millisecond || opt.ReleaseTimeout > time.Minute:
		return nil, &fencing.InvalidError{What: "ReleaseTimeout", Got: opt.ReleaseTimeout.String(), Allowed: "10ms to 1m"}
	}
	return &Locker{i: i, o: opt}, nil
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

// TryAcquire is Acquire without waiting: a [*HeldError] if the lock is held. Like every
// attempt without waiting it may overtake those who wait. It re-enters like Acquire.
func (l *Locker) TryAcquire(ctx context.Context, resource string) (*Lease, error) {
	return l.acquire(ctx, resource, 0)
}

func (l *Locker) acquire(ctx context.Context, resource string, wait time.Duration) (*Lease, error) {
	if lease, err := l.reenter(ctx, resource); lease != nil || err != nil {
		return lease, err
	}
	sent := time.Now() // trust counts from before the request: it may take long to arrive
	g, err := l.i.Grant(ctx, Request{
		Resource: resource, Grant: fencing.NewGrant(), Label: l.o.Label, TTL: l.o.TTL, Wait: wait,
	})
	if err != nil {
		return nil, err
	}
	deadline := sent.Add(g.Waited + g.ExpiresIn - l.o.Drift)
	if !deadline.After(time.Now()) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.o.ReleaseTimeout)
		defer cancel()
		_, err := l.i.Release(ctx, g.Token)
		return nil, errors.Join(ErrLost, err)
	}
	return newLease(ctx, l, g.Token, sent.Add(g.Waited), deadline), nil
}

// Locked reports whether anybody holds the resource's lock, as the lock store knows it now.
// The answer may be old when it arrives.
func (l *Locker) Locked(ctx context.Context, resource string) (bool, error) {
	st, err := l.i.Status(ctx, resource)
	return st.Held, err
}

// Do runs fn while it holds the resource's lock. fn's context ends with ctx, and with
// cause ErrLost when the lease can no longer be trusted; its token goes with every write.
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
