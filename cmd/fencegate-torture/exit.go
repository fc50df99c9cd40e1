package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/report"
)

// The exit statuses.
const (
	exitHeld        = 0
	exitViolated    = 1
	exitUsage       = 2
	exitVoid        = 3
	exitInterrupted = 130
)

const exitHelp = "Exit status: 0 held, 1 violated, 2 wrong usage, 3 void (it shows nothing, or could not be made or kept), 130 interrupted."

// usageError exits with 2: nothing was started.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

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

// verdictStatus is the exit status of a verdict. A violation is one, even if the run was interrupted.
func verdictStatus(verdict string, interrupted bool) int {
	switch {
	case verdict == report.Violated:
		return exitViolated
	case interrupted:
		return exitInterrupted
	case verdict == report.Held:
		return exitHeld
	}
	return exitVoid
}

// notMade is the error of a run that could not be made: wrong flags are told before anything is started.
func notMade(err error, interrupted bool) error {
	if _, wrong := errors.AsType[*fencing.InvalidError](err); wrong {
		return usageError{err}
	}
	if interrupted {
		return statusError{exitInterrupted, fmt.Errorf("interrupted: %w", err)}
	}
	return statusError{exitVoid, fmt.Errorf("void, the run could not be made: %w", err)}
}

// told tells the user of an error of a command, such as "fencegate-torture run", and returns the exit status.
func told(w io.Writer, err error, command string) int {
	if err == nil {
		return exitHeld
	}
	if e, ok := errors.AsType[statusError](err); ok {
		if e.err != nil {
			fmt.Fprintln(w, "fencegate-torture:", e)
		}
		return e.status
	}
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(w, "fencegate-torture: %v; nothing was started\nRun \"%s --help\" for what is allowed.\n", err, command)
		return exitUsage
	}
	fmt.Fprintln(w, "fencegate-torture:", err)
	return exitVoid
}
