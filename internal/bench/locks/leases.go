package locks

import (
	"context"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redislock"
)

const (
	held     = 10_000
	heldFor  = time.Minute
	tracking = 8 // the runtime counts one of so many wake-ups of a goroutine
)

var leaseGoals = []report.Goal{
	{Name: "10,000 leases for a minute, round trips per renewal", Unit: "trips", Target: 0.01, Better: report.Lower},
	{Name: "10,000 leases for a minute, wake-ups per renewal", Unit: "wake-ups", Target: 0.01, Better: report.Lower},
}

// leases holds leases with the default TTL, and counts what their renewals cost: round trips
// by a hook of the client, wake-ups of goroutines by the runtime, those of the client's own
// among them.
func leases(ctx context.Context, h *rig.Host, r *report.Report) error {
	var trips rig.Trips
	var renewals, lost atomic.Int64
	backend, err := redislock.New(rig.Client(h, testenv.StartRedis(h, nil).Addr(), clients, &trips), nil)
	if err != nil {
		return err
	}
	desk, err := locking.NewIssuer(backend, nil, &locking.IssuerOptions{OnEvent: func(e fencing.Event) {
		if e.Kind == fencing.EventRenewed {
			renewals.Add(1)
		}
	}})
	if err != nil {
		return err
	}
	locker, err := locking.New(desk, &locking.Options{OnEvent: func(e fencing.Event) {
		if e.Kind == fencing.EventLost {
			lost.Add(1)
		}
	}})
	if err != nil {
		return err
	}
	taken := make([]*locking.Lease, held)
	err = together(held, func(i int) (err error) {
		taken[i], err = locker.TryAcquire(ctx, fresh())
		return err
	})
	if err == nil {
		r.Progress("%d leases are held for %v", held, heldFor)
		trips0, renewals0, wakeups0 := trips.Count(), renewals.Load(), wakeups()
		select {
		case <-time.After(heldFor):
		case <-ctx.Done():
			err = ctx.Err()
		}
		n := float64(renewals.Load() - renewals0)
		if err == nil {
			r.Reached(leaseGoals[0], float64(trips.Count()-trips0)/n)
			r.Reached(leaseGoals[1], float64(wakeups()-wakeups0)/n)
			r.Noted("10,000 leases for a minute, renewals", "renewals", n)
			r.Noted("10,000 leases for a minute, leases lost", "leases", float64(lost.Load()))
		}
	}
	_ = together(held, func(i int) error { // the figures are there; the server ends
		if taken[i] != nil {
			return taken[i].Release(ctx)
		}
		return nil
	})
	return err
}

// together calls fn for 0..n-1 by so many goroutines as there are clients, and returns one
// of the errors.
func together(n int, fn func(i int) error) error {
	var next atomic.Int64
	var mu sync.Mutex // guards first
	var first error
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := fn(i); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return first
}

// wakeups estimates how often goroutines of this process were woken so far.
func wakeups() int64 {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	n := uint64(0)
	for _, count := range sample[0].Value.Float64Histogram().Counts {
		n += count
	}
	return int64(n) * tracking
}
