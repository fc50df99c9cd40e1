package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/fencegate/fencegate/internal/torture"
	"github.com/fencegate/fencegate/internal/torture/report"
)

// tally is what the cells of a proof have come to so far. It is for one goroutine.
type tally struct {
	of                               int // cells
	held, violated, cannot, void, no int
	wrong                            []string // what is void or could not be run, but for faults that the machine cannot make
	errs                             []error  // of what could not be kept
}

// ended takes in a cell that was run.
func (t *tally) ended(cell torture.Cell, r report.Run) {
	switch {
	case r.Verdict == report.Held:
		t.held++
	case r.Verdict == report.Violated:
		t.violated++
	case r.CannotBeMade:
		t.cannot++
	default:
		t.void++
		t.wrong = append(t.wrong, fmt.Sprintf("void  %s: %s", cell.Name(), oneLine(r.Why)))
	}
}

// failed takes in a cell that could not be run.
func (t *tally) failed(cell torture.Cell, err error) {
	t.no++
	t.wrong = append(t.wrong, fmt.Sprintf("could not be run  %s: %s", cell.Name(), oneLine(err.Error())))
}

// keep takes in whether a run could be kept.
func (t *tally) keep(err error) {
	if err != nil {
		t.errs = append(t.errs, err)
	}
}

// tell lists the cells that make a proof worth less: they show nothing, and nobody knows why yet.
func (t *tally) tell(w io.Writer) {
	if len(t.wrong) > 0 {
		fmt.Fprintln(w, "\nThese show nothing, although this machine can make their faults:")
	}
	for _, line := range t.wrong {
		fmt.Fprintln(w, " ", line)
	}
}

func (t *tally) line() string {
	return fmt.Sprintf("%d held, %d violated, %d cannot be made here, %d void, %d could not be run, of %d", t.held, t.violated, t.cannot, t.void, t.no, t.of)
}

// status is the exit status of a proof that ended with err, as an error; nil: 0.
func (t *tally) status(err error, interrupted bool) error {
	switch {
	case t.violated > 0:
		return statusError{exitViolated, errors.Join(t.errs...)}
	case interrupted:
		return statusError{exitInterrupted, errors.New("interrupted")}
	case err != nil || len(t.errs) > 0 || t.held == 0 || t.held+t.cannot < t.of:
		return statusError{exitVoid, errors.Join(append(t.errs, err)...)}
	}
	return nil
}
