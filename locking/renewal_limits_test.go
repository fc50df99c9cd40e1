package locking_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// TestMaxHoldInBatches: leases with a longest hold end each at its own time, but what is left
// of it is renewed by few calls.
func TestMaxHoldInBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const hold = 45 * time.Second
		i := newTally(t)
		var mu sync.Mutex
		ends := map[string]time.Time{}
		i.renew = func(_ context.Context, _ int, ttl time.Duration, held []fencing.Token) []error {
			mu.Lock()
			defer mu.Unlock()
			for _, tok := range held {
				if over := time.Until(ends[tok.Resource]) - ttl; over < -locking.DefaultTTL/20 {
					t.Errorf("renewed until %v after the longest hold", -over)
				}
			}
			return verdicts(held, locking.ValidateTTL(ttl))
		}
		l := newLocker(t, i, &locking.Options{MaxHold: hold})
		var wg sync.WaitGroup
		for n := range 1_000 {
			start := time.Now()
			resource := fmt.Sprint("job:", n)
			mu.Lock()
			ends[resource] = start.Add(hold)
			mu.Unlock()
			lease := must(t, l, resource)
			wg.Go(func() {
				<-lease.Context().Done()
				if d := time.Since(start); d > hold || d < hold-time.Second {
					t.Errorf("%v lasted %v, want %v less the drift", lease, d, hold)
				}
				_ = lease.Release(t.Context())
			})
			time.Sleep(10 * time.Millisecond)
		}
		wg.Wait()
		if calls, renewals := i.total(); calls > renewals/25 {
			t.Errorf("%d calls for %d renewals", calls, renewals)
		} else {
			t.Logf("%d calls for %d renewals", calls, renewals)
		}
	})
}

// TestEndsDoNotScatterBatches: leases that end one by one wake the Locker often; it does not
// renew a few of the others each time.
func TestEndsDoNotScatterBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		l := newLocker(t, i, &locking.Options{MaxHold: time.Minute})
		held := take(t, l, 20_000, func() time.Duration { return 10 * time.Millisecond }) // 200 s
		calls, renewals := i.total()
		t.Logf("%d calls for %d renewals, %d wake-ups", calls, renewals, l.Woken())
		if most := 200 * 3; calls > most {
			t.Errorf("%d calls in 200 s, want about two each second", calls)
		}
		time.Sleep(2 * time.Minute)
		releaseAll(t, l, held)
	})
}

// TestExtendOfOneLease leaves the other's deadline alone.
func TestExtendOfOneLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLocker(t, newTally(t), &locking.Options{MaxHold: locking.DefaultTTL})
		held := take(t, l, 10, func() time.Duration { return time.Second })
		for _, lease := range held[:5] {
			if err := lease.Extend(t.Context(), 10*time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		for _, lease := range append(held[5:], held[:5]...) {
			deadline := lease.Deadline()
			<-lease.Context().Done()
			if late := time.Since(deadline); late != 0 {
				t.Errorf("%v ended %v after its deadline", lease, late)
			}
		}
		releaseAll(t, l, held)
	})
}

// TestHangingCallLeavesTimeForAnother: one call that hangs costs no lease.
func TestHangingCallLeavesTimeForAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		i.renew = func(ctx context.Context, call int, _ time.Duration, held []fencing.Token) []error {
			if call == 1 {
				<-ctx.Done()
				return verdicts(held, fencing.AsUnknown(ctx.Err()))
			}
			return verdicts(held, nil)
		}
		l := newLocker(t, i, nil)
		held := take(t, l, 1000, atOnce)
		time.Sleep(time.Minute)
		for _, lease := range held {
			if cause := context.Cause(lease.Context()); cause != nil {
				t.Fatalf("a lease was lost: %v", cause)
			}
		}
		releaseAll(t, l, held)
	})
}

// TestHangingRenewalOfAnExtendedLease: a renewal is given up after its TTL, when its answer
// would be worth nothing, however long the lease lasts by itself.
func TestHangingRenewalOfAnExtendedLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		i.renew = func(ctx context.Context, call int, _ time.Duration, held []fencing.Token) []error {
			if call == 2 {
				<-ctx.Done()
				return verdicts(held, fencing.AsUnknown(ctx.Err()))
			}
			return verdicts(held, nil)
		}
		l := newLocker(t, i, nil)
		lease := must(t, l, resource)
		if err := lease.Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		wantAlive(t, lease)
		if calls, _ := i.total(); calls < 600 {
			t.Errorf("%d renewals in two hours, want one each 10 s although one hung", calls)
		}
		releaseAll(t, l, []*locking.Lease{lease})
	})
}

// TestSlowRenewals: who answers later than the next renewal is due is not asked without a pause.
func TestSlowRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		i.renew = func(_ context.Context, _ int, _ time.Duration, held []fencing.Token) []error {
			time.Sleep(12 * time.Second)
			return verdicts(held, nil)
		}
		l := newLocker(t, i, nil)
		held := take(t, l, 50, func() time.Duration { return 100 * time.Millisecond })
		time.Sleep(10 * time.Minute)
		for _, lease := range held {
			wantAlive(t, lease)
			if n := len(i.of(lease)); n > 600/13+1 {
				t.Fatalf("%d renewals in 10 minutes", n)
			}
		}
		releaseAll(t, l, held)
		time.Sleep(12 * time.Second) // the last answers
	})
}

// TestSlowCallsAreFew: a call that takes long is relieved, not joined: how many are under way
// does not grow.
func TestSlowCallsAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		i.renew = func(_ context.Context, _ int, _ time.Duration, held []fencing.Token) []error {
			time.Sleep(1500 * time.Millisecond)
			return verdicts(held, nil)
		}
		l := newLocker(t, i, nil)
		held := take(t, l, 30_000, atOnce)
		time.Sleep(20 * time.Second)
		i.mu.Lock()
		most := i.most
		i.mu.Unlock()
		if most > 8 {
			t.Errorf("%d calls at once, want four, and four that are relieved", most)
		}
		for _, lease := range held {
			wantAlive(t, lease)
		}
		releaseAll(t, l, held)
		time.Sleep(10 * time.Second) // the last answers
	})
}
