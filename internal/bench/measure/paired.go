package measure

import (
	"context"
	"time"
)

// Step is one of two things that are compared. Do is timed, Undo is not and may be nil.
// Both get the number of the pair.
type Step struct {
	Do, Undo func(ctx context.Context, pair int) error
}

// Paired runs a and b so many times each, in the order a, b, b, a, and returns the ratio
// b/a of the q-quantiles of their times. Whatever slows the machine down slows both.
func Paired(ctx context.Context, pairs int, q float64, a, b Step) (float64, error) {
	steps := [2]Step{a, b}
	var times [2][]time.Duration
	for pair := range pairs {
		for turn := range 2 {
			which := (pair + turn) % 2
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			start := time.Now()
			err := steps[which].Do(ctx, pair)
			times[which] = append(times[which], time.Since(start))
			if err == nil && steps[which].Undo != nil {
				err = steps[which].Undo(ctx, pair)
			}
			if err != nil {
				return 0, err
			}
		}
	}
	return Quantile(times[1], q) / Quantile(times[0], q), nil
}
