package locks

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
)

var memoryGoals = []report.Goal{
	{Name: "memlock, uncontended acquire + release", Unit: "pairs/s", Target: 1e6, Better: report.Higher},
	{Name: "memlock, memory per held lock beside its key, 1 M locks", Unit: "bytes", Target: 96, Better: report.Lower},
}

// memory measures the lock store in memory.
func memory(ctx context.Context, _ *rig.Host, r *report.Report) error {
	const perWorker = 1024
	workers := runtime.GOMAXPROCS(0)
	names := make([][]string, workers)
	for w := range names {
		for i := range perWorker {
			names[w] = append(names[w], fmt.Sprintf("bench:%d:%d", w, i))
		}
	}
	b := memlock.New()
	desk, err := issuer(b)
	if err != nil {
		return err
	}
	next := make([]struct {
		n int
		_ [120]byte // of one worker, and not beside another's
	}, workers)
	name := func(worker int) string {
		next[worker].n++
		return names[worker][next[worker].n%perWorker]
	}
	backend := measure.Contender{Op: func(ctx context.Context, worker int) error {
		hold, err := b.TryAcquire(ctx, locking.Request{Resource: name(worker), Grant: fencing.NewGrant(), TTL: ttl})
		if err != nil {
			return err
		}
		_, err = b.Release(ctx, hold.Token)
		return err
	}}
	full := measure.Contender{Op: func(ctx context.Context, worker int) error { return cycle(ctx, desk, name(worker)) }}
	rates, err := measure.Rates(ctx, runs, workers, 300*time.Millisecond, []measure.Contender{backend, full})
	if err != nil {
		return err
	}
	r.Reached(memoryGoals[0], rates[0]...)
	r.Noted("memlock through an Issuer, acquire + release", "pairs/s", rates[1]...)
	alone, err := measure.Rates(ctx, runs, 1, 200*time.Millisecond, []measure.Contender{backend, full})
	if err != nil {
		return err
	}
	r.Noted("memlock, acquire + release, one goroutine", "pairs/s", alone[0]...)
	r.Noted("memlock through an Issuer, acquire + release, one goroutine", "pairs/s", alone[1]...)

	var bytes []float64
	for range 2 {
		perLock, err := memoryOf(ctx, 1_000_000)
		if err != nil {
			return err
		}
		bytes = append(bytes, perLock)
	}
	r.Reached(memoryGoals[1], bytes...)
	return nil
}

// memoryOf returns what a held lock takes of the heap, less what a copy of its key takes.
func memoryOf(ctx context.Context, locks int) (float64, error) {
	names := make([]string, locks)
	for i := range names {
		names[i] = fmt.Sprintf("coupon:%07d", i)
	}
	keys := measure.Copies(names)
	start := measure.Heap()
	b := memlock.New()
	for _, name := range names {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if _, err := b.TryAcquire(ctx, locking.Request{Resource: name, Grant: fencing.NewGrant(), TTL: time.Hour}); err != nil {
			return 0, err
		}
	}
	held := measure.Heap() - start
	runtime.KeepAlive(b)
	runtime.KeepAlive(names)
	return float64(held-keys) / float64(locks), nil
}
