package locking_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// The tests in this file are named after the systems whose behaviour they show: docs/locks.md
// has the table.

// with returns a locker with its own options at the desk.
func (d *desk) with(o locking.Options) *locking.Locker {
	d.Helper()
	if o.TTL == 0 {
		o.TTL = 3 * time.Second
	}
	l, err := locking.New(d.i, &o)
	if err != nil {
		d.Fatal(err)
	}
	return l
}

// TestRedissonLockWithLeaseTime: lock(leaseTime) is not renewed: it ends when it said.
func TestRedissonLockWithLeaseTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, _ *locking.Locker) {
		lease := acquire(t, d.with(locking.Options{TTL: 10 * time.Second, MaxHold: 10 * time.Second}))
		time.Sleep(9 * time.Second)
		wantCause(t, lease.Context(), nil)
		time.Sleep(1100 * time.Millisecond)
		wantCause(t, lease.Context(), locking.ErrLost)
		if held, err := d.with(locking.Options{}).Locked(t.Context(), resource); held || err != nil {
			t.Errorf("Locked = %t, %v after the lease time", held, err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, locking.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
	})
}

// TestRedissonTryLockWaitLease: tryLock(waitTime, leaseTime, unit) gives up after its
// waiting time, and gets the lock if it is freed before.
func TestRedissonTryLockWaitLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		lease := acquire(t, l)
		waiting := d.with(locking.Options{Wait: 2 * time.Second, TTL: 10 * time.Second, MaxHold: 10 * time.Second})
		start := time.Now()
		_, err := waiting.Acquire(t.Context(), resource)
		if !errors.Is(err, locking.ErrHeld) || time.Since(start) != 2*time.Second {
			t.Errorf("got %v after %v, want held after 2s", err, time.Since(start))
		}
		time.AfterFunc(time.Second, func() { _ = lease.Release(t.Context()) })
		start = time.Now()
		second := acquire(t, waiting)
		if took := time.Since(start); took > 1100*time.Millisecond {
			t.Errorf("got the lock after %v, want it with the release", took)
		}
		if left := time.Until(second.Deadline()); left > 10*time.Second || left < 9*time.Second {
			t.Errorf("the lease lasts %v, want its 10s from when it was granted", left)
		}
		_ = second.Release(t.Context())
	})
}

// TestRedissonLockInterruptibly: the end of the context ends the waiting, and says why.
func TestRedissonLockInterruptibly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *desk, l *locking.Locker) {
		lease := acquire(t, l)
		interrupted := errors.New("interrupted")
		ctx, interrupt := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { interrupt(interrupted) })
		_, err := l.Acquire(ctx, resource)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, interrupted) || !errors.Is(err, locking.ErrHeld) {
			t.Errorf("got %v, want held, cancelled, interrupted", err)
		}
		_ = lease.Release(t.Context())
	})
}

// TestRedissonForceUnlock: forceUnlock ends whoever's hold it is; with the number that it
// names, so that it cannot hit the next one.
func TestRedissonForceUnlock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		lease := acquire(t, l)
		st, err := d.i.Status(t.Context(), resource)
		if err != nil || !st.Held || st.Number != lease.Token().Number {
			t.Fatalf("Status = %+v, %v", st, err)
		}
		if err := d.i.Evict(t.Context(), resource, st.Number, "stuck"); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, l)
		if err := d.i.Evict(t.Context(), resource, st.Number, "late"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		wantCause(t, lease.Context(), locking.ErrLost)
		wantCause(t, next.Context(), nil)
		_ = next.Release(t.Context())
	})
}

// TestRedissonRemainTimeToLive: Status tells what is left of the hold, without secrets.
func TestRedissonRemainTimeToLive(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, _ *locking.Locker) {
		lease := acquire(t, d.with(locking.Options{TTL: time.Minute, MaxHold: time.Minute, Label: "worker 7"}))
		time.Sleep(20 * time.Second)
		st, err := d.i.Status(t.Context(), resource)
		if err != nil || st.Remaining != 40*time.Second || st.Label != "worker 7" {
			t.Errorf("Status = %+v, %v, want 40s of worker 7", st, err)
		}
		_ = lease.Release(t.Context())
	})
}

// TestRedissonFairLock: waiters are served in order of arrival, all of them.
func TestRedissonFairLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		lease := acquire(t, l)
		order := make(chan int, 10)
		for n := range cap(order) {
			go func() {
				if err := l.Do(t.Context(), resource, func(context.Context, fencing.Token) error { order <- n; return nil }); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		for want := range cap(order) {
			if got := <-order; got != want {
				t.Errorf("waiter %d was served in the place of %d", got, want)
			}
		}
		synctest.Wait()
		d.wantFree()
	})
}

// TestRedissonFencedLock: lockAndGetToken returns the token with the lock, and the token
// of a lease never becomes the next holder's.
func TestRedissonFencedLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		first := acquire(t, l)
		token := first.Token()
		if err := d.i.Evict(t.Context(), resource, token.Number, "a test"); err != nil {
			t.Fatal(err)
		}
		second := acquire(t, l)
		if first.Token() != token || second.Token().Number <= token.Number {
			t.Errorf("got %v and %v after %v", first.Token(), second.Token(), token)
		}
		_ = second.Release(t.Context())
	})
}

// TestRedisPyBlocking: acquire(blocking=False) answers at once, acquire(blocking_timeout=2)
// after 2 s, acquire() when the lock is there.
func TestRedisPyBlocking(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		lease := acquire(t, l)
		start := time.Now()
		if _, err := l.TryAcquire(t.Context(), resource); !errors.Is(err, locking.ErrHeld) || time.Since(start) != 0 {
			t.Errorf("non-blocking: got %v after %v", err, time.Since(start))
		}
		if _, err := d.with(locking.Options{Wait: 2 * time.Second}).Acquire(t.Context(), resource); !errors.Is(err, locking.ErrHeld) || time.Since(start) != 2*time.Second {
			t.Errorf("with a timeout: got %v after %v", err, time.Since(start))
		}
		time.AfterFunc(time.Hour, func() { _ = lease.Release(t.Context()) })
		next := acquire(t, l)
		if took := time.Since(start); took < time.Hour {
			t.Errorf("blocking: got the lock after %v, while it was held", took)
		}
		_ = next.Release(t.Context())
	})
}

// TestRedisPyTokenOfTheCaller: acquire(token=...): a caller may choose the grant id, and
// ask again with it when a reply was lost.
func TestRedisPyTokenOfTheCaller(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, _ *locking.Locker) {
		r := request()
		r.Grant = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		first, err := d.i.Grant(t.Context(), r)
		if err != nil || first.Token.Grant != r.Grant {
			t.Fatalf("Grant = %v, %v", first.Token, err)
		}
		again, err := d.i.Grant(t.Context(), r)
		if err != nil || again.Token != first.Token {
			t.Errorf("again: got %v, %v, want the same hold", again.Token, err)
		}
		if freed, err := d.i.Release(t.Context(), first.Token); !freed || err != nil {
			t.Errorf("Release = %t, %v", freed, err)
		}
		if _, err := d.i.Grant(t.Context(), r); !errors.Is(err, locking.ErrLost) {
			t.Errorf("after the release: got %v, want ErrLost", err)
		}
	})
}

// TestRedisPyLockNotOwned: to release a lock that was lost says so, and frees nobody else's.
func TestRedisPyLockNotOwned(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		lease := acquire(t, l)
		if err := d.lock.Evict(t.Context(), resource, lease.Token().Number); err != nil {
			t.Fatal(err)
		}
		other := acquire(t, l)
		if err := lease.Release(t.Context()); !errors.Is(err, locking.ErrLost) {
			t.Errorf("Release = %v, want ErrLost", err)
		}
		if owned, err := other.Owned(t.Context()); !owned || err != nil {
			t.Errorf("the other's lock: Owned = %t, %v", owned, err)
		}
		_ = other.Release(t.Context())
	})
}

// TestLockWithoutATimeLimit is refused, with the reason.
func TestLockWithoutATimeLimit(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	_, err := locking.New(d.i, &locking.Options{TTL: -1})
	if !errors.Is(err, fencing.ErrInvalid) || !contains(err.Error(), "time limit") {
		t.Errorf("New = %v, want the reason", err)
	}
	for _, ttl := range []time.Duration{0, -1} {
		r := request()
		r.TTL = ttl
		if _, err := d.i.Grant(t.Context(), r); !errors.Is(err, fencing.ErrInvalid) || !contains(err.Error(), "time limit") {
			t.Errorf("Grant with TTL %v = %v, want the reason", ttl, err)
		}
	}
}

// TestChubbyCheckSequencer: anybody who is handed a token can ask the store whether it is
// current; the answer may be old when it arrives, the store's refusal is not.
func TestChubbyCheckSequencer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		lease := acquire(t, l)
		if err := d.mark().Current(lease.Token()); err != nil {
			t.Errorf("the holder's token: %v", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := d.mark().Current(lease.Token()); !errors.Is(err, fencing.ErrStale) {
			t.Errorf("after the release: got %v, want stale", err)
		}
	})
}

// TestConsulEvents: what happens to a lock is told as it happens.
func TestConsulEvents(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		lease := acquire(t, l)
		time.Sleep(2 * time.Second)
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := acquire(t, l)
		if err := d.i.Evict(t.Context(), resource, second.Token().Number, "maintenance"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		for kind, want := range map[fencing.EventKind]int{
			fencing.EventGranted: 2, fencing.EventReleased: 1, fencing.EventEvicted: 1, fencing.EventLost: 1,
		} {
			if got := d.events.count(kind); got != want {
				t.Errorf("got %d events %v, want %d", got, kind, want)
			}
		}
		if got := d.events.count(fencing.EventRenewed); got == 0 {
			t.Error("no renewal was told")
		}
	})
}

// TestEtcdIsOwner: the question whether the holder still is one is asked by the store, in
// the same step as the write.
func TestEtcdIsOwner(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		store, ok := d.fence.Fence.(*storage.Store)
		if !ok {
			t.Fatalf("the fence is a %T", d.fence.Fence)
		}
		old := acquire(t, l)
		if _, err := store.Put(t.Context(), old.Token(), "left", storage.Counter(9)); err != nil {
			t.Fatal(err)
		}
		if err := d.lock.Evict(t.Context(), resource, old.Token().Number); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, l)
		if _, err := store.Put(t.Context(), old.Token(), "left", storage.Counter(9)); !errors.Is(err, fencing.ErrStale) {
			t.Errorf("a write of the old holder: got %v, want stale", err)
		}
		_ = next.Release(t.Context())
	})
}

// TestAzureBreakLease: an operator ends a hold by the number it expects, for a reason that
// is told; the token is retired in the stores before the lock is free, and a number that was
// never granted is refused.
func TestAzureBreakLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		lease := acquire(t, l)
		if err := d.i.Evict(t.Context(), resource, lease.Token().Number+1, "a guess"); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("Evict of a number to come = %v, want ErrInvalid", err)
		}
		if err := d.i.Evict(t.Context(), resource, lease.Token().Number, "stuck since noon"); err != nil {
			t.Fatal(err)
		}
		if !d.mark().Retired {
			t.Errorf("the mark is %v, want it retired", d.mark())
		}
		d.events.mu.Lock()
		reason := d.events.list[len(d.events.list)-1].Reason
		d.events.mu.Unlock()
		if reason != "stuck since noon" {
			t.Errorf("the reason told is %q", reason)
		}
		_ = lease.Release(t.Context())
	})
}
