package prune_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/prune"
	"github.com/fencegate/fencegate/locking"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	for age, ok := range map[time.Duration]bool{
		-time.Hour: false, 0: false, time.Hour - 1: false, time.Hour: true, 720 * time.Hour: true,
	} {
		if err := prune.Validate(age); (err == nil) != ok || err != nil && !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%v: got %v", age, err)
		}
	}
	if prune.MinAge < locking.MaxTTL {
		t.Errorf("the least age is %v, want the longest TTL, %v, or more", prune.MinAge, locking.MaxTTL)
	}
}

// steps goes through the names a, b and c, and drops 2 of 5 rows at each.
func steps(fail string) (step prune.Step, taken *[]string) {
	taken = new([]string)
	next := map[string]string{"": "a", "a": "b", "b": "c", "c": ""}
	return func(ctx context.Context, after string) (string, int, int, error) {
		if ctx.Err() != nil {
			return "", 0, 0, errors.New("the context of a step has ended")
		}
		if after == fail {
			return "", 0, 0, fencing.AsFailed(errors.New("no"))
		}
		*taken = append(*taken, after)
		if next[after] == "" {
			return "", 0, 0, nil
		}
		return next[after], 5, 2, nil
	}, taken
}

func TestRun(t *testing.T) {
	t.Parallel()
	step, taken := steps("none")
	var told [][2]int
	dropped, err := prune.Run(t.Context(), step, func(looked, dropped int) { told = append(told, [2]int{looked, dropped}) })
	if err != nil || dropped != 6 {
		t.Errorf("got %d, %v, want 6", dropped, err)
	}
	if want := []string{"", "a", "b", "c"}; !slices.Equal(*taken, want) {
		t.Errorf("steps after %q, want %q", *taken, want)
	}
	if want := [][2]int{{5, 2}, {10, 4}, {15, 6}}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

func TestRunStopsBetweenSteps(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	step, taken := steps("none")
	dropped, err := prune.Partly(prune.Run(ctx, step, func(_, dropped int) {
		if dropped == 4 {
			cancel()
		}
	}))
	if dropped != 4 || !errors.Is(err, context.Canceled) || fencing.OutcomeOf(err) == fencing.Failed {
		t.Errorf("got %d, %v, want 4, and that it was cancelled half way", dropped, err)
	}
	if want := []string{"", "a"}; !slices.Equal(*taken, want) {
		t.Errorf("steps after %q, want %q", *taken, want)
	}
	dropped, err = prune.Partly(prune.Run(ctx, step, nil))
	if dropped != 0 || fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("with a context that has ended: got %d, %v, want failed", dropped, err)
	}
}

func TestRunKeepsWhatWasDone(t *testing.T) {
	t.Parallel()
	step, _ := steps("b")
	dropped, err := prune.Partly(prune.Run(t.Context(), step, nil))
	if dropped != 4 || err == nil || fencing.OutcomeOf(err) == fencing.Failed {
		t.Errorf("got %d, %v, want 4 and an error", dropped, err)
	}
}

// TestRunComesBack: a step that found others at work is taken again, from where it was; but not
// for ever, and not after the context has ended.
func TestRunComesBack(t *testing.T) {
	t.Parallel()
	inner, taken := steps("none")
	busy, most := 0, 3
	step := func(ctx context.Context, after string) (string, int, int, error) {
		if after == "b" && busy < most {
			busy++
			return "", 0, 0, fencing.AsFailed(prune.ErrBusy)
		}
		return inner(ctx, after)
	}
	if dropped, err := prune.Run(t.Context(), step, nil); err != nil || dropped != 6 || busy != most {
		t.Errorf("got %d, %v, want 6 after 3 more tries", dropped, err)
	}
	if want := []string{"", "a", "b", "c"}; !slices.Equal(*taken, want) {
		t.Errorf("steps after %q, want %q", *taken, want)
	}
	busy, most = 0, 1000
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	dropped, err := prune.Run(ctx, func(ctx context.Context, after string) (string, int, int, error) {
		if busy == 2 {
			cancel(over)
		}
		return step(ctx, after)
	}, nil)
	if dropped != 4 || !errors.Is(err, over) || busy != 3 {
		t.Errorf("cancelled: got %d, %v after %d tries, want 4, over, after 3", dropped, err, busy)
	}
}

func TestRunGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		dropped, err := prune.Run(t.Context(), func(context.Context, string) (string, int, int, error) {
			tries++
			return "", 0, 0, fencing.AsFailed(prune.ErrBusy)
		}, nil)
		if dropped != 0 || !errors.Is(err, prune.ErrBusy) || tries != 21 {
			t.Errorf("got %d, %v after %d tries, want ErrBusy after 21", dropped, err, tries)
		}
	})
}
