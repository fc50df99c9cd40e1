// Package prune is what pruning is in every SQL backend: small steps through a table by name,
// each a transaction, with a look at the context between two.
package prune

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// MinAge is the least age of what is dropped: the longest TTL of a lock (locking.MaxTTL). No
// request is on its way for that long.
const MinAge = time.Hour

// Page is how many rows a step looks at, and so the most that one drops.
const Page = 1000

// stepTimeout bounds a step, which the context does not cut short.
const stepTimeout = time.Minute

// ErrBusy is for a step that has not waited any longer for what others have locked. It is taken
// again, as often as busyTries, after a while that grows by busyPause each time.
var ErrBusy = errors.New("others are at work on what is to be pruned")

// ErrPlain is for a store that is not pruned: a floor would shut out whoever counts its plain
// numbers, for ever.
var ErrPlain = errors.New("this store has taken plain numbers from an outside lock service, which cannot be drawn again above a floor: it is not pruned")

// CodePlain is the SQLSTATE of ErrPlain.
const CodePlain = "ZF003"

const (
	busyTries = 20
	busyPause = 50 * time.Millisecond
)

// Step looks at up to Page rows after the name after, in one transaction, and drops what is to
// be dropped. last is the name that the next step goes on after, empty at the end.
type Step func(ctx context.Context, after string) (last string, looked, dropped int, err error)

// Validate checks an age. The error is a [*fencing.InvalidError].
func Validate(olderThan time.Duration) error {
	if olderThan < MinAge {
		return &fencing.InvalidError{What: "age", Got: olderThan.String(), Allowed: "1h or more: the longest TTL of a lock"}
	}
	return nil
}

// Run takes steps until the end, an error, or the end of ctx, which is looked for between two
// steps. progress, if it is not nil, is told after each what was looked at and dropped so
// far. dropped is what is done, also beside an error.
func Run(ctx context.Context, step Step, progress func(looked, dropped int)) (dropped int, err error) {
	looked, tries := 0, 0
	for after := ""; ; {
		if ctx.Err() != nil {
			return dropped, fencing.AsFailed(context.Cause(ctx))
		}
		last, l, d, err := one(ctx, step, after)
		if errors.Is(err, ErrBusy) && tries < busyTries {
			tries++
			wait(ctx, time.Duration(tries)*busyPause)
			continue
		}
		looked, dropped, tries = looked+l, dropped+d, 0
		if err != nil || last == "" {
			return dropped, err
		}
		if progress != nil {
			progress(looked, dropped)
		}
		after = last
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Partly gives the error of a run that has dropped so many its outcome: only where nothing was
// dropped has it failed.
func Partly(dropped int, err error) (int, error) {
	if dropped == 0 {
		return dropped, err
	}
	return dropped, fencing.AsPartial(err)
}

// one takes a step. A statement that is cut short costs its connection and leaves an unknown
// outcome, where a moment later it had been done.
func one(ctx context.Context, step Step, after string) (last string, looked, dropped int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	return step(ctx, after)
}
