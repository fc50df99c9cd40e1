package fencing

import (
	"context"
	"errors"
)

// Outcome is what became of one attempt. The four are kept apart everywhere, from the
// stores to the HTTP client.
type Outcome int

// The outcomes.
const (
	// Applied: durable and visible.
	Applied Outcome = iota
	// Refused: the fence or the data said no; nothing happened, ever.
	Refused
	// Failed: surely nothing happened; try again.
	Failed
	// Unknown: the reply was lost; it may have been applied, or may yet be.
	Unknown
)

// String returns "applied", "refused", "failed" or "unknown".
func (o Outcome) String() string {
	switch o {
	case Applied:
		return "applied"
	case Refused:
		return "refused"
	case Failed:
		return "failed"
	}
	return "unknown"
}

// ErrFailed matches an error after which surely nothing happened.
var ErrFailed = errors.New("failed, nothing was written")

// ErrUnknown matches an error after which nobody knows what happened.
var ErrUnknown = errors.New("outcome unknown, the reply was lost")

// AsFailed marks err as [Failed]; nil stays nil. An error that carries an outcome
// already keeps it.
func AsFailed(err error) error { return withOutcome(err, Failed, ErrFailed) }

// AsUnknown marks err as [Unknown]; nil stays nil. An error that carries an outcome
// already keeps it.
func AsUnknown(err error) error { return withOutcome(err, Unknown, ErrUnknown) }

// AsPartial marks err as [Unknown] whatever it said of itself: it belongs to a call of
// several steps, of which one before it took effect. Nil stays nil. Everything else that
// err matches it still matches, but for ErrFailed.
func AsPartial(err error) error {
	if err == nil {
		return nil
	}
	return &partialError{err}
}

type partialError struct{ err error }

func (e *partialError) Error() string      { return "partly done: " + e.err.Error() }
func (e *partialError) As(target any) bool { return errors.As(e.err, target) }
func (e *partialError) Outcome() Outcome   { return Unknown }
func (e *partialError) Is(target error) bool {
	return target == ErrUnknown || target != ErrFailed && errors.Is(e.err, target)
}

func withOutcome(err error, o Outcome, sentinel error) error {
	if err == nil {
		return nil
	}
	if _, said := said(err); said {
		return err
	}
	return &outcomeError{err: err, outcome: o, sentinel: sentinel}
}

// OutcomeOf sorts an error of this module into the four outcomes. Of joined errors the
// least certain counts. An error that says nothing of its outcome is [Unknown]: the safe
// guess.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Applied
	}
	if o, said := said(err); said {
		return o
	}
	return Unknown
}

// said returns the least certain outcome that the errors in err's tree carry.
func said(err error) (o Outcome, ok bool) {
	switch e := err.(type) { //nolint:errorlint // this walks the tree itself
	case interface{ Outcome() Outcome }:
		return e.Outcome(), true
	case interface{ Unwrap() error }:
		return said(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, child := range e.Unwrap() {
			if c, has := said(child); has {
				o, ok = max(o, c), true
			}
		}
	}
	return o, ok
}

type outcomeError struct {
	err      error
	outcome  Outcome
	sentinel error
}

func (e *outcomeError) Error() string {
	if errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded) || e.outcome == Unknown {
		return e.sentinel.Error() + ": " + e.err.Error()
	}
	return e.err.Error()
}

func (e *outcomeError) Unwrap() error        { return e.err }
func (e *outcomeError) Is(target error) bool { return target == e.sentinel }
func (e *outcomeError) Outcome() Outcome     { return e.outcome }
