package measure

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Contender is one of several that do the same work. Op does it once; it is called by one
// goroutine for each worker.
type Contender struct {
	Name string
	Op   func(ctx context.Context, worker int) error
}

// Rate returns how often a second the workers together finished op. An error of one ends
// the others.
func Rate(ctx context.Context, workers int, long time.Duration, op func(ctx context.Context, worker int) error) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var over atomic.Bool
	var done atomic.Int64
	start := time.Now()
	time.AfterFunc(long, func() { over.Store(true) })
	for worker := range workers {
		wg.Go(func() {
			n := int64(0)
			for !over.Load() && ctx.Err() == nil {
				if err := op(ctx, worker); err != nil {
					cancel(err)
					break
				}
				n++
			}
			done.Add(n)
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return float64(done.Load()) / time.Since(start).Seconds(), nil
}

// Rates lets the contenders run one after the other, there and back again, so many times.
// It returns the rate of each contender in each run.
func Rates(ctx context.Context, runs, workers int, slice time.Duration, contenders []Contender) ([][]float64, error) {
	rates := make([][]float64, len(contenders))
	for range runs {
		err := ThereAndBack(len(contenders), func(i int, _ bool) error {
			rate, err := Rate(ctx, workers, slice, contenders[i].Op)
			rates[i] = append(rates[i], rate)
			if err != nil {
				err = fmt.Errorf("%s: %w", contenders[i].Name, err)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for i, r := range rates { // the two turns of this run become one figure
			n := len(r) - 2
			rates[i] = append(r[:n], (r[n]+r[n+1])/2)
		}
	}
	return rates, nil
}

// ThereAndBack calls fn for 0..n-1 and then for n-1..0.
func ThereAndBack(n int, fn func(i int, back bool) error) error {
	for i := range n {
		if err := fn(i, false); err != nil {
			return err
		}
	}
	for i := range n {
		if err := fn(n-1-i, true); err != nil {
			return err
		}
	}
	return nil
}
