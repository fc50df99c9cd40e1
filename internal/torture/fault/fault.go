// Package fault is the kinds of faults: how each is injected for real, and healed.
package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// Fault is one kind of fault.
type Fault struct {
	Name   string // such as "redis-kill"
	What   string // what happens, in a sentence
	Expect string // what must happen then, in a sentence
	// Loses is the most that it makes servers forget. What that is on one rig is less, perhaps: then Inject
	// says so in note.Loses.
	Loses []history.Loss
	// Destroys says that data of a server of the user's own could be lost: it needs leave.
	Destroys bool
	// Own says that it needs servers that the run has started itself.
	Own bool

	// Fits reports whether it makes sense for a lock and a store.
	Fits func(s rig.Spec) bool
	// Prepare asks of the rig what the fault needs; nil: nothing.
	Prepare func(s *rig.Spec)
	// Hold is about how long the fault lasts before it is healed; it is drawn from half to one and a half of it.
	Hold time.Duration
	// Inject makes the fault, writes into note what it did (Detail, Paused, Killed, Ops, and Loses where it
	// is less than the fault's), and returns how to heal it, which may write into note too. heal is called once,
	// also after an error of Inject if it is not nil. An error of either that is a *VoidError says that this machine cannot
	// make it, or that it was made and did nothing: then nothing is lost, and nothing was shown. Any other
	// ends the run as void.
	Inject func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (heal func(context.Context) error, err error)
}

// VoidError says why a machine cannot make a fault, or what it was to do and has not done.
type VoidError struct{ Why string }

// Error implements error.
func (e *VoidError) Error() string { return "the fault was not made: " + e.Why }

// Void is a *VoidError.
func Void(format string, args ...any) error { return &VoidError{fmt.Sprintf(format, args...)} }

// atLeastOne is the error of a fault that counts what it does and has done nothing, which the words say: void, as nothing was shown.
// It is nil where n is not 0, or where ctx, that of Inject, has ended: who was cut short could do nothing.
func atLeastOne(ctx context.Context, n int, format string, args ...any) error {
	if n == 0 && ctx.Err() == nil {
		return Void(format, args...)
	}
	return nil
}

// IsVoid reports whether an error is a *VoidError, or a rig's that says the same.
func IsVoid(err error) bool {
	var v *VoidError
	var c *rig.CannotError
	return errors.As(err, &v) || errors.As(err, &c)
}
