package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Burst is a lock that is held while a line of waiters forms, and is then drained: each
// waiter gets it once. Nobody comes again: a closed loop flatters locks whose releaser takes
// the lock again at once.
type Burst struct {
	Waiters int
	Spacing time.Duration // between arrivals, so that their order is known
	Settle  time.Duration // between the last arrival and the first release
	Section time.Duration // how long each holds the lock
	Limit   time.Duration // after which it has hung; 0: none
	// Lock waits for the lock as this waiter; number Waiters is the first holder.
	Lock func(ctx context.Context, waiter int) (unlock func() error, err error)
	// Begun is called before the first release, Granted after the last grant. Both may
	// be nil.
	Begun, Granted func()
}

// Drained is how a burst went.
type Drained struct {
	Rate float64 // hand-overs a second
	// Jain is the index of (place in which it was served / place in which it came), over
	// the waiters: 1 for first come, first served.
	Jain float64
}

// ErrHung says that some waiters had not had the lock when the limit was over.
var ErrHung = errors.New("the burst did not end")

// Drain runs the burst. An error of one waiter ends the others.
func (b Burst) Drain(ctx context.Context) (Drained, error) {
	if b.Limit > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, b.Limit, ErrHung)
		defer cancel()
		ctx = limited
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unlock, err := b.Lock(ctx, b.Waiters)
	if err != nil {
		return Drained{}, fmt.Errorf("first holder: %w", err)
	}
	var mu sync.Mutex // guards served
	var served []int  // who, in order
	var wg sync.WaitGroup
	for waiter := range b.Waiters {
		wg.Go(func() {
			unlock, err := b.Lock(ctx, waiter)
			if err != nil {
				cancel(fmt.Errorf("waiter %d: %w", waiter, err))
				return
			}
			mu.Lock()
			served = append(served, waiter)
			if len(served) == b.Waiters && b.Granted != nil {
				b.Granted()
			}
			mu.Unlock()
			if b.Section > 0 {
				time.Sleep(b.Section)
			}
			if err := unlock(); err != nil {
				cancel(fmt.Errorf("waiter %d, unlock: %w", waiter, err))
			}
		})
		time.Sleep(b.Spacing)
	}
	time.Sleep(b.Settle)
	if b.Begun != nil {
		b.Begun()
	}
	start := time.Now()
	if err := unlock(); err != nil {
		cancel(fmt.Errorf("first holder, unlock: %w", err))
	}
	wg.Wait()
	took := time.Since(start)
	if err := context.Cause(ctx); err != nil {
		return Drained{}, err
	}
	shares := make([]float64, b.Waiters)
	for place, waiter := range served {
		shares[waiter] = float64(place+1) / float64(waiter+1)
	}
	return Drained{Rate: float64(b.Waiters) / took.Seconds(), Jain: Jain(shares)}, nil
}
