package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// healing is what Inject returns.
type healing = func(context.Context) error

// none is for faults that are over when they were made.
func none(context.Context) error { return nil }

// repeat calls step, with pauses of about every, until stop is called, which returns how many calls did
// something. step says whether it did. A call that fails is no matter: the server is in trouble, after all.
// If none did anything, stop returns the last error.
func repeat(ctx context.Context, rnd *rand.Rand, every time.Duration, step func(ctx context.Context, rnd *rand.Rand) (did bool, err error)) (stop func() (int, error)) {
	ctx, cancel := context.WithCancel(ctx)
	own := fork(rnd)
	var done sync.WaitGroup
	var n int
	var last error
	done.Go(func() {
		for ctx.Err() == nil {
			did, err := step(ctx, own)
			if did {
				n++
			}
			if err != nil && ctx.Err() == nil {
				last = err
			}
			wait(ctx, about(own, every))
		}
	})
	return func() (int, error) {
		cancel()
		done.Wait()
		if n > 0 || last == nil {
			return n, nil
		}
		return 0, last
	}
}

// fork returns a generator for another goroutine.
func fork(rnd *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(rnd.Uint64(), rnd.Uint64())) }

// about returns half to one and a half of d.
func about(rnd *rand.Rand, d time.Duration) time.Duration {
	return d/2 + time.Duration(rnd.Int64N(int64(d)+1))
}

// wait waits, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// until looks again and again whether something has come about.
func until(ctx context.Context, within time.Duration, what string, look func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not within %v", within))
	defer cancel()
	var last error
	for {
		ok, err := look()
		if ok {
			return nil
		}
		if err != nil {
			last = err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, errors.Join(context.Cause(ctx), last))
		}
		wait(ctx, 5*time.Millisecond)
	}
}

// pick returns n of the numbers below of, in a random order.
func pick(rnd *rand.Rand, n, of int) []int { return rnd.Perm(of)[:min(n, of)] }
