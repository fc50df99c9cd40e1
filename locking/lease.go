package locking

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Lease is what a holder has in its hands: a token, a deadline, and a context that ends
// when the lease can no longer be trusted. It renews itself until it is released or lost.
// All methods are safe for concurrent use. Printing a Lease hides its grant id.
type Lease struct {
	locker *Locker
	token  fencing.Token
	ctx    context.Context // ends with the lease; not the caller's
	cancel context.CancelCauseFunc

	mu       sync.Mutex // guards what follows; the issuer is never called under it
	deadline time.Time
	trust    *time.Timer   // ends the lease at its deadline
	renewal  *time.Timer   // begins the next renewal
	renewing chan struct{} // closed when the renewal under way is over; nil if there is none

	releaseOnce sync.Once
	releaseErr  error
}

func newLease(ctx context.Context, locker *Locker, t fencing.Token, deadline time.Time) *Lease {
	l := &Lease{locker: locker, token: t, deadline: deadline}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	l.mu.Lock() // the timers may fire before they are assigned
	defer l.mu.Unlock()
	l.trust = time.AfterFunc(time.Until(deadline), l.distrust)
	l.renewal = time.AfterFunc(l.untilRenewal(), l.renew)
	return l
}

// Token returns the lease's fencing token, the same for as long as the lease lives, and
// after: what happens to a lease does not change what its holder has to send.
func (l *Lease) Token() fencing.Token { return l.token }

// Context returns a context that ends when the lease does. Its cause is [ErrLost] or
// [ErrReleased]. It carries the values of the context that the lease was acquired with,
// and does not end with it.
func (l *Lease) Context() context.Context { return l.ctx }

// Deadline returns until when the lease can be trusted unless it is renewed, on this
// process's monotonic clock.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Release ends the lease: its token is retired in the stores, then the lock is freed. It
// is carried out even if ctx has ended, within Options.ReleaseTimeout. It returns ErrLost
// if the hold had ended before, and otherwise what kept the stores or the lock from
// answering: then the lock frees itself after its TTL. A second call returns the same.
func (l *Lease) Release(ctx context.Context) error {
	l.releaseOnce.Do(func() { l.releaseErr = l.release(ctx) })
	return l.releaseErr
}

func (l *Lease) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.locker.o.ReleaseTimeout)
	defer cancel()
	l.mu.Lock()
	l.cancel(ErrReleased)
	l.trust.Stop()
	l.renewal.Stop()
	renewing := l.renewing
	l.mu.Unlock()
	if renewing != nil {
		// Its context has ended with the lease's. Waiting orders the two calls; a
		// renewal that does not heed its context must not keep the lock.
		select {
		case <-renewing:
		case <-time.After(l.locker.o.ReleaseTimeout / 4):
		}
	}
	freed, err := l.locker.i.Release(ctx, l.token)
	if !freed && err == nil {
		return ErrLost
	}
	return err
}

// distrust ends the lease at its deadline.
func (l *Lease) distrust() {
	l.mu.Lock()
	left := time.Until(l.deadline)
	if left > 0 {
		l.trust.Reset(left) // a renewal came in between
	}
	l.mu.Unlock()
	if left <= 0 {
		l.lose("its time is up and no renewal was answered")
	}
}

// lose ends the lease, unless it has ended. Callers do not hold l.mu: OnEvent may call
// the lease's methods.
func (l *Lease) lose(reason string) {
	l.mu.Lock()
	ended := l.ctx.Err() != nil
	l.cancel(ErrLost)
	l.trust.Stop()
	l.renewal.Stop()
	l.mu.Unlock()
	if on := l.locker.o.OnEvent; on != nil && !ended {
		on(fencing.Event{
			Time: time.Now(), Kind: fencing.EventLost, Resource: l.token.Resource, Number: l.token.Number,
			Label: l.locker.o.Label, Reason: reason,
		})
	}
}

// renew renews the lease once and sets the timer for the next time.
func (l *Lease) renew() {
	l.mu.Lock()
	if l.ctx.Err() != nil {
		l.mu.Unlock()
		return
	}
	l.renewing = make(chan struct{})
	deadline := l.deadline
	l.mu.Unlock()

	ctx, cancel := context.WithDeadline(l.ctx, deadline)
	sent := time.Now()
	err := l.locker.i.Renew(ctx, l.locker.o.TTL, []fencing.Token{l.token})[0]
	cancel()

	if l.renewed(sent, err) {
		l.lose("the lock store has ended the hold")
	}
}

// renewed takes in a renewal's answer and reports whether the lease is lost.
func (l *Lease) renewed(sent time.Time, err error) (lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.renewing)
	l.renewing = nil
	switch {
	case l.ctx.Err() != nil: // released or lost meanwhile: the answer means nothing
	case errors.Is(err, ErrLost):
		return true
	case err == nil:
		if until := sent.Add(l.locker.o.TTL - l.locker.o.Drift); until.After(l.deadline) {
			l.deadline = until
			l.trust.Reset(time.Until(until))
		}
		l.renewal.Reset(l.untilRenewal())
	default: // try again soon; the deadline stands
		l.renewal.Reset(l.locker.o.RenewEvery/10 + rand.N(l.locker.o.RenewEvery/10+1))
	}
	return false
}

// untilRenewal is RenewEvery less up to a fifth, and no more than half of what is left:
// a lease that was waited for may begin with little. Callers hold l.mu.
func (l *Lease) untilRenewal() time.Duration {
	every := l.locker.o.RenewEvery
	every -= rand.N(every/5 + 1)
	return max(0, min(every, time.Until(l.deadline)/2))
}

// String returns "lease on coupon:42#34".
func (l *Lease) String() string { return "lease on " + l.token.String() }

// Format hides the grant id from every verb.
func (l *Lease) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// LogValue hides the grant id from log/slog.
func (l *Lease) LogValue() slog.Value { return l.token.LogValue() }
