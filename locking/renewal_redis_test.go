package locking_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redislock"
)

// roundTrips counts what a client sends.
type roundTrips struct {
	single, pipelines, piped atomic.Int64 // piped: commands in pipelines
}

func (*roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.single.Add(1)
		return next(ctx, cmd)
	}
}

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.pipelines.Add(1)
		r.piped.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// Test10000LeasesOnRedis: their renewals cost a round trip for about a thousand of them.
func Test10000LeasesOnRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	c := redis.NewClient(&redis.Options{
		Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, ReadTimeout: 10 * time.Second,
	})
	t.Cleanup(func() { _ = c.Close() })
	var trips roundTrips
	c.AddHook(&trips)
	b, err := redislock.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	const leases = 10_000
	// Renewed more often, those that are there take all of a busy machine, and the others do not come about.
	l := newLocker(t, newIssuer(t, b, nil), &locking.Options{TTL: time.Minute, RenewEvery: 5 * time.Second})
	held := make([]*locking.Lease, leases)
	inParallel := func(each func(n int)) {
		const workers = 16
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for n := w; n < leases; n += workers {
					each(n)
				}
			})
		}
		wg.Wait()
	}
	inParallel(func(n int) {
		lease, err := l.Acquire(t.Context(), fmt.Sprintf("coupon:%d", n))
		if err != nil {
			t.Error(err)
			return
		}
		held[n] = lease
	})
	if t.Failed() {
		return
	}
	begun := time.Now()
	trips.pipelines.Store(0)
	trips.piped.Store(0)
	single := trips.single.Load()
	testenv.Eventually(t, 5*time.Minute, "each lease has been renewed several times", func() bool {
		return trips.piped.Load() >= 3*leases
	})
	for _, lease := range held {
		wantAlive(t, lease)
	}
	alone := trips.single.Load() - single // a lease that was due by itself
	pipelines, piped := trips.pipelines.Load(), trips.piped.Load()
	t.Logf("%d renewals in %d pipelines and %d single commands, in %v; %d wake-ups", piped, pipelines, alone, time.Since(begun), l.Woken())
	if most := piped / 100; pipelines+alone > most || int64(l.Woken()) > most {
		t.Errorf("%d pipelines, %d single commands and %d wake-ups for %d renewals, want at most 1%%", pipelines, alone, l.Woken(), piped)
	}
	inParallel(func(n int) {
		if err := held[n].Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if n := c.Exists(t.Context(), "fencegate:{coupon:7}:lock").Val(); n != 0 || !l.Idle() {
		t.Errorf("after the releases: lock %d, idle %t", n, l.Idle())
	}
}
