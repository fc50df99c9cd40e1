package storage

import (
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/fencing"
)

// What the data can say no with. All but ErrNotFound come as a [*RefusedError].
var (
	ErrNotFound        error = notFound{}
	ErrVersionMismatch       = errors.New("version mismatch")
	ErrBelowMinimum          = errors.New("below minimum")
	ErrNotCounter            = errors.New("not a counter")
	ErrCounterRange          = errors.New("counter out of range")
	// ErrKeyReused says that the idempotency key was used for another commit.
	ErrKeyReused = errors.New("idempotency key reused")
)

// NoOp is the Op of a [RefusedError] that is about no operation: ErrKeyReused.
const NoOp = -1

type notFound struct{}

func (notFound) Error() string            { return "record not found" }
func (notFound) Outcome() fencing.Outcome { return fencing.Refused }

// RefusedError says that the data refused a commit. Nothing of the commit was applied.
type RefusedError struct {
	Op       int    // the index of the operation that was refused, or NoOp
	Resource string // its record; with NoOp the resource of the idempotency key
	Key      string // of the record, or the idempotency key
	Reason   error  // ErrVersionMismatch, ErrBelowMinimum, ErrNotCounter, ErrCounterRange or ErrKeyReused
	Have     int64  // the record's version (ErrVersionMismatch), else the counter before
	Want     int64  // the version required (ErrVersionMismatch), the minimum (ErrBelowMinimum)
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Op == NoOp {
		return fmt.Sprintf("commit refused: the idempotency key %s of %s was used for a commit of other resources or operations", e.Key, e.Resource)
	}
	s := fmt.Sprintf("operation %d on %s/%s refused: ", e.Op, e.Resource, e.Key)
	switch {
	case errors.Is(e.Reason, ErrVersionMismatch):
		return s + fmt.Sprintf("the version is %d, not %d", e.Have, e.Want)
	case errors.Is(e.Reason, ErrBelowMinimum):
		return s + fmt.Sprintf("the counter is %d and would fall below %d", e.Have, e.Want)
	case errors.Is(e.Reason, ErrNotCounter):
		return s + "the value is not an integer in decimal text"
	case errors.Is(e.Reason, ErrCounterRange):
		return s + "the sum is outside -9007199254740991..9007199254740991"
	}
	return s + e.Reason.Error()
}

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Reason }

// Outcome is [fencing.Refused].
func (e *RefusedError) Outcome() fencing.Outcome { return fencing.Refused }
