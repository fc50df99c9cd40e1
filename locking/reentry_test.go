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
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/memlock"
)

// TestRedissonReentry: within a lease the same resource is granted again, under the same
// token, and the inner release frees nothing.
func TestRedissonReentry(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		err := l.Do(t.Context(), resource, func(ctx context.Context, outer fencing.Token) error {
			err := l.Do(ctx, resource, func(ctx context.Context, inner fencing.Token) error {
				lease, err := l.TryAcquire(ctx, resource)
				if err != nil || lease.Token() != outer || inner != outer {
					t.Errorf("within %v got %v and %v, %v", outer, inner, lease, err)
				}
				return lease.Release(ctx)
			})
			if err != nil {
				t.Errorf("the inner Do = %v", err)
			}
			if ctx.Err() != nil || d.mark().Current(outer) != nil {
				t.Error("an inner release ended the outer lease")
			}
			if n := d.lock.Calls("TryAcquire"); n != 1 {
				t.Errorf("%d calls of the lock store for one hold", n)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		d.wantFree()
	})
}

// TestReentryOutlivesTheOuterRelease: the hold ends with the last of its leases, in
// whatever order they are released, and releasing one twice counts once.
func TestReentryOutlivesTheOuterRelease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		outer := acquire(t, l)
		inner, err := l.Acquire(outer.Context(), resource)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := outer.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		wantCause(t, inner.Context(), nil)
		time.Sleep(10 * time.Second)
		wantCause(t, inner.Context(), nil) // it is renewed still
		if err := inner.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantCause(t, inner.Context(), locking.ErrReleased)
		d.wantFree()
		again, err := l.Acquire(context.WithoutCancel(inner.Context()), resource)
		if err != nil || again.Token() == inner.Token() {
			t.Fatalf("after the last release got %v, %v, want a new hold", again, err)
		}
		_ = again.Release(t.Context())
	})
}

func TestReentryOfALostLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		outer := acquire(t, l)
		if err := d.i.Evict(t.Context(), resource, outer.Token().Number, "a test"); err != nil {
			t.Fatal(err)
		}
		<-outer.Context().Done()
		if _, err := l.Acquire(outer.Context(), resource); !errors.Is(err, locking.ErrLost) {
			t.Fatalf("re-entry into a lost lease = %v, want ErrLost", err)
		}
		_ = outer.Release(t.Context())
	})
}

// TestReentryIsOfOneLockerAndResource: another locker, or another resource, is no re-entry.
func TestReentryIsOfOneLockerAndResource(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		other, err := locking.New(d.i, nil)
		if err != nil {
			t.Fatal(err)
		}
		lease := acquire(t, l)
		if _, err := other.TryAcquire(lease.Context(), resource); !errors.Is(err, locking.ErrHeld) {
			t.Errorf("another locker got %v, want ErrHeld", err)
		}
		second, err := l.TryAcquire(lease.Context(), "coupon:43")
		if err != nil || second.Token() == lease.Token() {
			t.Errorf("another resource: %v, %v", second, err)
		}
		_ = second.Release(t.Context())
		_ = lease.Release(t.Context())
	})
}

// TestOneLockerManyGoroutines: redis-py confuses the holds of threads that share a Lock
// unless its token is thread-local; here a hold belongs to its lease.
func TestOneLockerManyGoroutines(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	l, err := locking.New(d.i, nil)
	if err != nil {
		t.Fatal(err)
	}
	var inside, most int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			err := l.Do(t.Context(), resource, func(context.Context, fencing.Token) error {
				mu.Lock()
				inside++
				most = max(most, inside)
				mu.Unlock()
				mu.Lock()
				inside--
				mu.Unlock()
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d were inside at once", most)
	}
	d.wantFree()
}

// TestRedisPyExtend: extend replaces what is left of the lease, or adds to it.
func TestRedisPyExtend(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		lease := acquire(t, l)
		left := func() time.Duration { return time.Until(lease.Deadline()) }
		if err := lease.Extend(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if left() < 59*time.Second || left() > time.Minute-20*32*time.Millisecond {
			t.Errorf("after Extend(1m) %v are left, want a minute less the drift of a minute", left())
		}
		if err := lease.Extend(t.Context(), time.Second); err != nil || left() < 59*time.Second {
			t.Errorf("a shorter Extend left %v, %v", left(), err)
		}
		if err := lease.ExtendBy(t.Context(), time.Minute); err != nil || left() < 118*time.Second || left() > 2*time.Minute {
			t.Errorf("after ExtendBy(1m) %v are left, %v", left(), err)
		}
		time.Sleep(30 * time.Second)
		wantCause(t, lease.Context(), nil)
		for _, bad := range []time.Duration{0, -time.Second, time.Millisecond, 2 * time.Hour, time.Second + 1} {
			if err := lease.Extend(t.Context(), bad); !errors.Is(err, fencing.ErrInvalid) {
				t.Errorf("Extend(%v) = %v, want an *InvalidError", bad, err)
			}
		}
		if err := lease.ExtendBy(t.Context(), 0); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("ExtendBy(0) = %v, want an *InvalidError", err)
		}
		d.lock.On("Renew", lockingtest.FailBefore)
		deadline := lease.Deadline()
		if err := lease.Extend(t.Context(), time.Hour); fencing.OutcomeOf(err) != fencing.Failed || !lease.Deadline().Equal(deadline) {
			t.Errorf("a failed Extend = %v and moved the deadline by %v", err, lease.Deadline().Sub(deadline))
		}
		if err := d.i.Evict(t.Context(), resource, lease.Token().Number, "a test"); err != nil {
			t.Fatal(err)
		}
		if err := lease.Extend(t.Context(), time.Minute); !errors.Is(err, locking.ErrLost) {
			t.Errorf("Extend of an evicted lease = %v, want ErrLost", err)
		}
		wantCause(t, lease.Context(), locking.ErrLost)
		_ = lease.Release(t.Context())
		if err := lease.Extend(t.Context(), time.Minute); !errors.Is(err, locking.ErrLost) {
			t.Errorf("Extend after the end = %v, want ErrLost", err)
		}
	})
}

// TestRedisPyOwnedAndLocked: what the lock store says of a hold.
func TestRedisPyOwnedAndLocked(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		want := func(lease *locking.Lease, owned, locked bool) {
			t.Helper()
			o, err := lease.Owned(t.Context())
			k, err2 := l.Locked(t.Context(), resource)
			if err != nil || err2 != nil || o != owned || k != locked {
				t.Errorf("owned %t, locked %t, %v, %v; want %t, %t", o, k, err, err2, owned, locked)
			}
		}
		first := acquire(t, l)
		want(first, true, true)
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(first, false, false)
		second := acquire(t, l)
		want(first, false, true)
		want(second, true, true)
		_ = second.Release(t.Context())
	})
}

// TestMaxHold: work that never returns keeps the lock for so long and no longer; with the
// TTL as the longest hold nothing is renewed (Redisson's lock with a lease time).
func TestMaxHold(t *testing.T) {
	t.Parallel()
	for _, hold := range []time.Duration{3 * time.Second, 3100 * time.Millisecond, 7 * time.Second} {
		t.Run(hold.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				l, err := locking.New(d.i, &locking.Options{TTL: 3 * time.Second, MaxHold: hold})
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				lease := acquire(t, l)
				<-lease.Context().Done()
				wantCause(t, lease.Context(), locking.ErrLost)
				if took := time.Since(start); took > hold || took < hold-150*time.Millisecond {
					t.Errorf("the lease ended after %v, want %v less the drift", took, hold)
				}
				if _, err := d.i.Grant(t.Context(), withWait(request(), time.Second)); err != nil {
					t.Errorf("the lock is not free a moment later: %v", err)
				}
				if hold == 3*time.Second && d.lock.Calls("Renew") != 0 {
					t.Error("a lease of a fixed time was renewed")
				}
				_ = lease.Release(t.Context())
			})
		})
	}
	if _, err := locking.New(newDesk(t).i, &locking.Options{MaxHold: time.Second}); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("a MaxHold below the TTL: %v, want an *InvalidError", err)
	}
}

func withWait(r locking.Request, wait time.Duration) locking.Request {
	r.Wait = wait
	return r
}

func TestAcquireAll(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		all, err := l.AcquireAll(t.Context(), "c", "a", "b")
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"c", "a", "b"} {
			if got := all.Tokens()[i].Resource; got != want {
				t.Errorf("token %d is of %s, want %s", i, got, want)
			}
		}
		// b is held: a must be given back, and c never taken.
		if err := all[1].Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.AcquireAll(ctx, "b", "a"); !errors.Is(err, locking.ErrHeld) {
			t.Fatalf("got %v, want ErrHeld", err)
		}
		if st, err := d.i.Status(t.Context(), "a"); err != nil || st.Held {
			t.Errorf("a is %+v, %v: all or nothing", st, err)
		}
		if err := all.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
		for _, bad := range [][]string{{}, {"a", "a"}, {"a", "no spaces"}} {
			if _, err := l.AcquireAll(t.Context(), bad...); !errors.Is(err, fencing.ErrInvalid) {
				t.Errorf("AcquireAll(%q) = %v, want an *InvalidError", bad, err)
			}
		}
		list, err := d.i.List(t.Context(), "", "", 10)
		if err != nil || len(list) != 0 {
			t.Errorf("held at the end: %+v, %v", list, err)
		}
	})
}

// TestAcquireAllTakesSortedOrder: whatever the order of the arguments, so that two callers
// never wait for each other.
func TestAcquireAllTakesSortedOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		all, err := l.AcquireAll(t.Context(), "c", "a", "b")
		if err != nil {
			t.Fatal(err)
		}
		var order string
		for _, e := range d.events.list {
			if e.Kind == fencing.EventGranted {
				order += e.Resource
			}
		}
		if order != "abc" {
			t.Errorf("taken in the order %s, want abc", order)
		}
		if err := all.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestAcquireAnyBeginsAnywhere: the first bucket is not everybody's favourite.
func TestAcquireAnyBeginsAnywhere(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *desk, l *locking.Locker) {
		seen := map[string]int{}
		for range 200 { // the chance that one of three is never first is 2 in 10^35
			lease, err := l.AcquireAny(t.Context(), "stock:0", "stock:1", "stock:2")
			if err != nil {
				t.Fatal(err)
			}
			seen[lease.Token().Resource]++
			_ = lease.Release(t.Context())
		}
		if len(seen) != 3 {
			t.Errorf("200 callers began at %v only", seen)
		}
	})
}

// TestAcquireAllHasOneDeadline: the wait is for the whole, not for each.
func TestAcquireAllHasOneDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		l, err := locking.New(d.i, &locking.Options{Wait: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		a, b := must(t, l, "a"), must(t, l, "b")
		time.AfterFunc(8*time.Second, func() { _ = a.Release(context.Background()) })
		time.AfterFunc(15*time.Second, func() { _ = b.Release(context.Background()) })
		start := time.Now()
		if _, err := l.AcquireAll(t.Context(), "a", "b"); !errors.Is(err, locking.ErrHeld) || time.Since(start) != 10*time.Second {
			t.Errorf("got %v after %v, want ErrHeld after 10s", err, time.Since(start))
		}
		time.Sleep(10 * time.Second)
	})
}

func must(t *testing.T, l *locking.Locker, resource string) *locking.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), resource)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// TestAcquireAny: each caller gets a bucket of its own while there is one, at once.
func TestAcquireAny(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		buckets := []string{"stock:0", "stock:1", "stock:2"}
		start := time.Now()
		got := map[string]*locking.Lease{}
		for range buckets {
			lease, err := l.AcquireAny(t.Context(), buckets...)
			if err != nil {
				t.Fatal(err)
			}
			got[lease.Token().Resource] = lease
		}
		if len(got) != len(buckets) || time.Since(start) > 0 {
			t.Fatalf("got %d buckets after %v, want 3 at once", len(got), time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.AcquireAny(ctx, buckets...); !errors.Is(err, locking.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("with all taken got %v", err)
		}
		time.AfterFunc(5*time.Second, func() { _ = got["stock:1"].Release(context.Background()) })
		lease, err := l.AcquireAny(t.Context(), buckets...)
		if err != nil || lease.Token().Resource != "stock:1" {
			t.Fatalf("got %v, %v, want the bucket that was given back", lease, err)
		}
		got["stock:1"] = lease
		for _, lease := range got {
			_ = lease.Release(t.Context())
		}
		if _, err := l.AcquireAny(t.Context()); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("AcquireAny of nothing = %v, want an *InvalidError", err)
		}
	})
}

// TestContextsCarryTheToken: whoever is called with a lease's context can send the token on.
func TestContextsCarryTheToken(t *testing.T) {
	t.Parallel()
	issuer, err := locking.NewIssuer(memlock.New(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	locker, err := locking.New(issuer, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = locker.Do(t.Context(), "coupon:1", func(ctx context.Context, outer fencing.Token) error {
		return locker.Do(ctx, "coupon:2", func(ctx context.Context, inner fencing.Token) error {
			for _, want := range []fencing.Token{outer, inner} {
				if got, _ := fencing.FromContext(ctx, want.Resource); got != want {
					t.Errorf("Do's context carries %v, want %v", got, want)
				}
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := locker.Acquire(t.Context(), "coupon:1")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := fencing.FromContext(lease.Context(), "coupon:1"); got != lease.Token() {
		t.Errorf("the lease's context carries %v, want %v", got, lease.Token())
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}
