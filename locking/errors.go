package locking

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

var (
	// ErrHeld matches every [*HeldError].
	ErrHeld = errors.New("the lock is held")

	// ErrLost says that a hold has ended: released, evicted or expired. It is also the
	// cause of a lease's context when the lease can no longer be trusted.
	ErrLost error = &lockError{"the lease is lost"}

	// ErrReleased is the cause of a lease's context after its holder released it.
	ErrReleased error = &lockError{"the lease was released"}

	// ErrExhausted says that a resource has used up its numbers, 2^53-1 of them.
	ErrExhausted error = &lockError{"no numbers are left for this resource"}

	// ErrTooManyWaiters says that as many wait for the lock as may; nothing happened, and
	// it may be tried again.
	ErrTooManyWaiters = fencing.AsFailed(errors.New("too many wait for this lock"))

	// ErrUnsettled says that a grant's number kept being refused by a store: another
	// issuer's lock store grants numbers for the same resource, or the grants of this
	// one are overtaken. Nothing is held.
	ErrUnsettled error = &lockError{"the stores refused every number that was granted"}
)

// lockError is an error after which nothing was changed, ever.
type lockError struct{ text string }

func (e *lockError) Error() string            { return e.text }
func (e *lockError) Outcome() fencing.Outcome { return fencing.Refused }

// HeldError says that somebody else holds the lock.
type HeldError struct {
	Resource  string
	Number    int64         // the holder's number, 0 if unknown
	Label     string        // what the holder calls itself
	Remaining time.Duration // when its hold expires unless it is renewed, 0 if unknown
}

// Error implements error.
func (e *HeldError) Error() string {
	s := "the lock on " + e.Resource + " is held"
	if e.Label != "" {
		s += " by " + e.Label
	}
	if e.Number > 0 {
		s += fmt.Sprintf(" (number %d)", e.Number)
	}
	if e.Remaining > 0 {
		s += fmt.Sprintf(" for at most %v more unless renewed", e.Remaining.Round(time.Millisecond))
	}
	return s
}

// Is reports whether target is [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Outcome is [fencing.Refused].
func (e *HeldError) Outcome() fencing.Outcome { return fencing.Refused }
