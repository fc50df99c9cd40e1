package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// The exit statuses: those of sysexits.h and of shells where they have one.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 69
	exitHeld        = 75 // EX_TEMPFAIL: later it may go
	exitRefused     = 76
	exitLost        = 77
	exitCannotRun   = 126
	exitNoCommand   = 127
	exitSignal      = 128 // and the signal's number
	exitInterrupted = 130
)

// exitHelp is the table for the help text.
const exitHelp = "Exit status: 0 done, 1 failed, 2 wrong usage, 69 a server does not answer, 75 somebody else holds the lock, " +
	"76 refused by the fence or by the data, 77 the lease is lost, 130 interrupted. exec passes on its command's."

// stdio is what a command reads and writes: data to out, messages to err.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// usageError exits with 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// unavailableError exits with 69: a server does not answer.
type unavailableError struct{ error }

func (e unavailableError) Unwrap() error { return e.error }

// interrupted exits with 130.
type interrupted struct{ error }

func (e interrupted) Unwrap() error { return e.error }

// statusError exits with a status of its own. Without an error there is nothing to be said.
type statusError struct {
	status int
	err    error
}

func (e statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e statusError) Unwrap() error { return e.err }

// effect says what an operation does, for its errors: a script must know whether to repair.
type effect struct{ nothing, perhaps, done string }

var (
	reads   = effect{}
	writes  = effect{"nothing was written", "it may have been written", "it was written"}
	grants  = effect{nothing: "nothing is held", perhaps: "the lock may be held until its lease time is over"}
	changes = effect{"nothing was changed", "it may have been changed", "it was done"}
)

// printed is the error of an operation that was carried out, and whose result was then printed
// with err.
func (e effect) printed(err error) error {
	if err == nil {
		return nil
	}
	return &operationError{fmt.Errorf("%s, but the result could not be printed: %w", e.done, err), e.done}
}

// of is the error of an operation on a gateway, a lock or a store: its exit status hangs on
// what it was, and its text says whether anything happened.
func (e effect) of(err error) error {
	if err == nil {
		return nil
	}
	note := e.nothing
	if fencing.OutcomeOf(err) == fencing.Unknown {
		note = e.perhaps
	}
	return &operationError{err, note}
}

type operationError struct {
	err  error
	note string
}

// Error is one line, and has no secret in it whatever a server said.
func (e *operationError) Error() string {
	s := wire.Redact(strings.ReplaceAll(e.err.Error(), "\n", "; "))
	if e.note == "" || strings.Contains(s, e.note) {
		return s
	}
	return s + "; " + e.note
}

func (e *operationError) Unwrap() error { return e.err }

// status sorts the errors of locks and stores.
func (e *operationError) status() int {
	_, data := errors.AsType[*storage.RefusedError](e.err)
	_, invalid := errors.AsType[*fencing.InvalidError](e.err)
	switch outcome := fencing.OutcomeOf(e.err); {
	case outcome == fencing.Unknown:
		return exitFailed
	case errors.Is(e.err, locking.ErrHeld), errors.Is(e.err, locking.ErrTooManyWaiters):
		return exitHeld
	case errors.Is(e.err, locking.ErrLost):
		return exitLost
	case errors.Is(e.err, fencing.ErrStale), data, errors.Is(e.err, storage.ErrNotFound),
		errors.Is(e.err, locking.ErrExhausted), errors.Is(e.err, locking.ErrUnsettled),
		errors.Is(e.err, wire.NewError(wire.SlugRaiseForbidden, "")):
		return exitRefused
	case invalid:
		return exitUsage
	case outcome == fencing.Failed:
		return exitUnavailable
	}
	return exitFailed
}

// exitStatus is the one place where errors become exit statuses.
func exitStatus(err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[statusError](err); ok {
		return e.status
	}
	if _, ok := errors.AsType[interrupted](err); ok {
		return exitInterrupted
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[unavailableError](err); ok {
		return exitUnavailable
	}
	if e, ok := errors.AsType[*operationError](err); ok {
		return e.status()
	}
	return exitFailed
}

// grantLike is what may be a grant id: somebody may have given a token as an argument.
var grantLike = regexp.MustCompile(fmt.Sprintf("[A-Z2-7]{%d,}", fencing.GrantLen))

// report tells the user of an error of a command, such as "fencegate lock acquire".
func report(w io.Writer, err error, command string) {
	text := err.Error()
	if e, ok := errors.AsType[statusError](err); ok {
		if e.err == nil {
			return
		}
		text = e.Error()
	} else if _, ok := errors.AsType[interrupted](err); ok {
		text = "interrupted"
		if e, ok := errors.AsType[*operationError](err); ok && e.note != "" {
			text += "; " + e.note
		}
	}
	fmt.Fprintln(w, "fencegate:", grantLike.ReplaceAllString(text, "[hidden]"))
	if exitStatus(err) == exitUsage {
		fmt.Fprintf(w, "Run \"%s --help\" for what is allowed.\n", command)
	}
}
