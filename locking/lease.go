package locking

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Lease is what a holder has in its hands: a token, a deadline, and a context that ends
// when the lease can no longer be trusted. It renews itself until it is released or lost.
// All methods are safe for concurrent use. Printing a Lease hides its grant id.
type Lease struct {
	k    *keeper // shared by the leases of a re-entry
	once sync.Once
	err  error // of the release
}

// Token returns the lease's fencing token, the same for as long as the lease lives, and
// after: what happens to a lease does not change what its holder has to send.
func (l *Lease) Token() fencing.Token { return l.k.token }

// Context returns a context that ends when the lease does. Its cause is [ErrLost] or
// [ErrReleased]. It carries the values of the context that the lease was acquired with,
// and does not end with it; fencing.FromContext finds the lease's token in it. Acquiring the same
// resource with it is a re-entry.
func (l *Lease) Context() context.Context { return l.k.ctx }

// Deadline returns until when the lease can be trusted unless it is renewed, on this
// process's monotonic clock.
func (l *Lease) Deadline() time.Time {
	s := l.k.locker.s
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at(l.k.deadline)
}

// Owned asks the lock store whether the lease's hold is there. It is for looking, not for
// deciding: a write is decided by the store, and the lease's context ends by itself.
func (l *Lease) Owned(ctx context.Context) (bool, error) {
	st, err := l.k.locker.i.Status(ctx, l.k.token.Resource)
	return st.Held && st.Number == l.k.token.Number, err
}

// Extend lets the lease last for at least ttl from now, within MinTTL..MaxTTL; it never
// brings the end nearer. Beyond that the lease renews itself as before: to extend is for
// work during which this process may be silent. Errors: ErrLost, a
// [*fencing.InvalidError], or an error with its outcome, after which the deadline stands.
func (l *Lease) Extend(ctx context.Context, ttl time.Duration) error {
	if err := ValidateTTL(ttl); err != nil {
		return err
	}
	return l.k.extend(ctx, ttl)
}

// ExtendBy adds d to what is left of the lease; the sum is rounded up to whole milliseconds
// and must be within MinTTL..MaxTTL. Do not call it from a loop that keeps a lease alive:
// every call adds, so that the lock outlasts a crash by all that was added. Leases renew
// themselves.
func (l *Lease) ExtendBy(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return &fencing.InvalidError{What: "extension", Got: d.String(), Allowed: "more than 0"}
	}
	left := time.Until(l.Deadline()) + l.k.locker.o.Drift + d
	return l.Extend(ctx, (left + time.Millisecond - 1).Truncate(time.Millisecond))
}

// Release ends the lease: its token is retired in the stores, then the lock is freed. It
// is carried out even if ctx has ended, within Options.ReleaseTimeout. It returns ErrLost
// if the hold had ended before, and otherwise what kept the stores or the lock from
// answering: then the lock frees itself after its TTL. A second call returns the same.
//
// A lease that was acquired within another one (a re-entry) frees nothing, unless it is the
// last of them to be released.
func (l *Lease) Release(ctx context.Context) error {
	l.once.Do(func() {
		if l.k.leave() {
			l.err = l.k.release(ctx)
		}
	})
	return l.err
}

// String returns "lease on coupon:42#34".
func (l *Lease) String() string { return "lease on " + l.k.token.String() }

// Format hides the grant id from every verb.
func (l *Lease) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// LogValue hides the grant id from log/slog.
func (l *Lease) LogValue() slog.Value { return l.k.token.LogValue() }
