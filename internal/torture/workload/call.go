package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgguard"
)

// maxError is how much of an error's text is written down, in bytes.
const maxError = 200

// op begins an op of this turn.
func (t *turn) op(kind history.Kind) history.Op {
	return history.Op{Process: t.Process, Seat: t.Seat.Seat, Workload: t.name, Kind: kind, Group: t.resources[0]}
}

// call writes op down, makes the call, and writes down what came of it. do may fill in what was answered; what
// op shares with the op as it was written down first it must replace, and not change.
func (t *turn) call(op *history.Op, do func() error) error {
	if op.ID == "" {
		op.ID = t.Next()
	}
	op.Call = history.Now()
	t.Log(*op)
	err := do()
	op.Return = history.Now()
	outcome := fencing.OutcomeOf(err)
	op.Outcome = outcome.String()
	if outcome == fencing.Refused {
		op.Reason = reason(err)
	}
	if err != nil {
		op.Error = shorten(err.Error())
	}
	t.Log(*op)
	return err
}

// bounded returns the context of a call that goes out whatever has become of ctx.
func (t *turn) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), t.Call)
}

// reason says in a word why a call was refused; empty where there is no word for it.
func reason(err error) string {
	if e, ok := errors.AsType[*fencing.StaleError](err); ok {
		return string(e.Reason)
	}
	if e, ok := errors.AsType[*pgguard.RefusedError](err); ok {
		return e.Code
	}
	for _, r := range []struct {
		err  error
		word string
	}{
		{locking.ErrHeld, "held"},
		{locking.ErrLost, "lost"},
		{locking.ErrExhausted, "exhausted"},
		{locking.ErrUnsettled, "unsettled"},
		{storage.ErrVersionMismatch, "version-mismatch"},
		{storage.ErrBelowMinimum, "below-minimum"},
		{storage.ErrNotCounter, "not-counter"},
		{storage.ErrCounterRange, "counter-range"},
		{storage.ErrKeyReused, "key-reused"},
		{fencing.ErrInvalid, "invalid"},
	} {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return ""
}

func shorten(text string) string {
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "")
	}
	return text
}

// clock converts a time to history's clock. It never comes out later than it is, also if the process is stopped
// in the middle.
func clock(t time.Time) int64 {
	now := history.Now()
	return now + int64(time.Until(t))
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// chance is true in a share of the cases.
func chance(r *rand.Rand, share float64) bool { return r.Float64() < share }

// about draws a time from half of d to one and a half of it.
func about(r *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + time.Duration(r.Int64N(int64(d)))
}
