package locking_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// TestOneLostLeaseOfABatch: a verdict is about one token.
func TestOneLostLeaseOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		i.renew = func(_ context.Context, call int, _ time.Duration, held []fencing.Token) []error {
			list := verdicts(held, nil)
			if call == 1 {
				list[7] = locking.ErrLost
			}
			return list
		}
		events := &recorder{}
		l := newLocker(t, i, &locking.Options{OnEvent: events.add})
		held := take(t, l, 20, atOnce)
		time.Sleep(11 * time.Second)
		ended := 0
		for _, lease := range held {
			if cause := context.Cause(lease.Context()); cause != nil {
				ended++
				if !errors.Is(cause, locking.ErrLost) {
					t.Errorf("%v ended: %v", lease, cause)
				}
			}
		}
		time.Sleep(time.Minute)
		if n := events.count(fencing.EventLost); ended != 1 || n != 1 {
			t.Errorf("%d leases ended, %d losses were reported, want one", ended, n)
		}
		releaseAll(t, l, held)
	})
}

// TestFailedBatchIsRepeated: by one call, not by one for each of its leases, and whatever
// is wrong with the answer.
func TestFailedBatchIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		i.renew = func(_ context.Context, call int, _ time.Duration, held []fencing.Token) []error {
			switch call {
			case 1:
				return verdicts(held, fencing.AsFailed(errors.New("not sent")))
			case 2:
				return verdicts(held, fencing.AsUnknown(errors.New("no reply")))
			case 3:
				return nil
			}
			return verdicts(held, nil)
		}
		l := newLocker(t, i, nil)
		held := take(t, l, 500, atOnce)
		time.Sleep(16 * time.Second) // 10, and three times up to 2
		if calls, renewals := i.total(); calls != 4 || renewals != 4*len(held) {
			t.Errorf("%d calls for %d renewals, want 4 for %d", calls, renewals, 4*len(held))
		}
		for k, at := range i.of(held[0])[1:] {
			if gap := at.Sub(i.of(held[0])[k]); gap < time.Second || gap > 2*time.Second {
				t.Errorf("repeated after %v, want a tenth to a fifth of RenewEvery", gap)
			}
		}
		time.Sleep(time.Minute)
		for _, lease := range held {
			wantAlive(t, lease)
		}
		releaseAll(t, l, held)
	})
}

// TestHangingBatchDelaysNobodyElse: some calls of a round hang until their context ends, more
// than are sent at once, and their repeats fail. Their leases are lost, each at its deadline; the others are renewed.
func TestHangingBatchDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const hanging = 6
		i := newTally(t)
		events := &recorder{}
		var mu sync.Mutex
		doomed := map[string]bool{}
		i.renew = func(ctx context.Context, call int, _ time.Duration, held []fencing.Token) []error {
			mu.Lock()
			all := verdicts(held, nil)
			for k, tok := range held {
				if call <= hanging {
					doomed[tok.Resource] = true
				}
				if doomed[tok.Resource] {
					all[k] = errDown
				}
			}
			mu.Unlock()
			if call > hanging {
				return all
			}
			<-ctx.Done()
			return verdicts(held, fencing.AsUnknown(ctx.Err()))
		}
		l := newLocker(t, i, &locking.Options{OnEvent: events.add})
		held := take(t, l, 9_500, atOnce)
		deadline := held[0].Deadline()
		time.Sleep(15 * time.Second)
		renewed := 0
		for _, lease := range held {
			if lease.Deadline().After(deadline) {
				renewed++
			}
		}
		if want := 9_500 - hanging*1000; renewed != want {
			t.Errorf("while %d calls hang, %d leases were renewed, want %d", hanging, renewed, want)
		}
		if n := events.count(fencing.EventLost); n != 0 {
			t.Errorf("%d losses before the deadline", n)
		}
		time.Sleep(time.Until(deadline))
		synctest.Wait()
		if n := events.count(fencing.EventLost); n != hanging*1000 {
			t.Errorf("%d leases were lost, want %d", n, hanging*1000)
		}
		time.Sleep(time.Minute)
		for _, lease := range held {
			if alive := lease.Context().Err() == nil; alive == doomed[lease.Token().Resource] {
				t.Fatalf("%v: alive %t, its renewal hung: %t", lease, alive, !alive)
			}
		}
		releaseAll(t, l, held)
	})
}

// TestReleaseComesAfterTheRenewal that is under way, but does not wait long for one that
// hangs, however many leases of its batch are released one after the other.
func TestReleaseComesAfterTheRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		took := 200 * time.Millisecond
		i.renew = func(_ context.Context, _ int, _ time.Duration, held []fencing.Token) []error {
			time.Sleep(took) // whatever the context says
			return verdicts(held, nil)
		}
		l := newLocker(t, i, &locking.Options{ReleaseTimeout: 4 * time.Second})
		release := func(lease *locking.Lease) time.Duration {
			start := time.Now()
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
			return time.Since(start)
		}
		atRenewal := func(calls int) {
			for now := calls; now == calls; now, _ = i.total() {
				time.Sleep(time.Millisecond)
			}
		}
		held := take(t, l, 4, atOnce)
		atRenewal(0)
		if d := release(held[0]); d < 198*time.Millisecond || d > took {
			t.Errorf("a release waited %v for a renewal of %v", d, took)
		}
		took = time.Minute
		atRenewal(1)
		if d := release(held[1]); d < 998*time.Millisecond || d > time.Second {
			t.Errorf("a release waited %v for a renewal that hangs, want a quarter of ReleaseTimeout", d)
		}
		if d := release(held[2]) + release(held[3]); d != 0 {
			t.Errorf("further releases waited %v for a renewal that hangs", d)
		}
		for _, lease := range held {
			wantCause(t, lease.Context(), locking.ErrReleased)
		}
		time.Sleep(2 * time.Minute)
		if calls, _ := i.total(); calls != 2 || !l.Idle() {
			t.Errorf("%d calls, want 2: the answer revives nobody", calls)
		}
	})
}

// TestBatchEndsWithItsLastLease: the call goes on for those that stay, and no longer.
func TestBatchEndsWithItsLastLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		var over time.Time
		i.renew = func(ctx context.Context, call int, _ time.Duration, held []fencing.Token) []error {
			if call == 1 {
				<-ctx.Done()
				over = time.Now()
			}
			return verdicts(held, locking.ErrLost) // of leases that were released meanwhile
		}
		events := &recorder{}
		l := newLocker(t, i, &locking.Options{OnEvent: events.add})
		held := take(t, l, 3, atOnce)
		time.Sleep(11 * time.Second)
		for _, lease := range held {
			if !over.IsZero() {
				t.Fatal("the call ended while a lease was there")
			}
			_ = lease.Release(t.Context())
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if over.IsZero() {
			t.Error("the call goes on for nobody")
		}
		for _, lease := range held {
			wantCause(t, lease.Context(), locking.ErrReleased)
		}
		if n := events.count(fencing.EventLost); n != 0 {
			t.Errorf("%d losses of released leases were reported", n)
		}
	})
}

// TestReleasedBeforeItsBatchIsSent: the batches of a round wait for each other; a lease that
// ends meanwhile is not renewed (tally complains), and its release waits for nobody.
func TestReleasedBeforeItsBatchIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		i.renew = func(_ context.Context, _ int, _ time.Duration, held []fencing.Token) []error {
			time.Sleep(500 * time.Millisecond)
			return verdicts(held, nil)
		}
		l := newLocker(t, i, nil)
		held := take(t, l, 6_000, atOnce)
		for calls := 0; calls == 0; calls, _ = i.total() {
			time.Sleep(time.Millisecond)
		}
		var sent, waiting []*locking.Lease
		for _, lease := range held {
			if i.under[lease.Token().Resource] {
				sent = append(sent, lease)
			} else {
				waiting = append(waiting, lease)
			}
		}
		if len(sent) != 4_000 {
			t.Fatalf("%d leases are being renewed, want four batches", len(sent))
		}
		start := time.Now()
		for _, lease := range waiting[:1_500] { // one of the two batches wholly
			_ = lease.Release(t.Context())
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("the releases waited %v", d)
		}
		time.Sleep(time.Minute)
		for _, lease := range sent {
			wantAlive(t, lease)
		}
		for _, lease := range waiting[1_500:] {
			wantAlive(t, lease)
		}
		releaseAll(t, l, held)
	})
}
