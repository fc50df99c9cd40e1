package locking_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/memlock"
)

func contains(s, sub string) bool { return strings.Contains(s, sub) }

// inBubble runs a test on a fake clock, at a desk with faults, with a locker of TTL 3 s.
func inBubble(t *testing.T, fn func(t *testing.T, d *desk, l *locking.Locker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		l, err := locking.New(d.i, &locking.Options{TTL: 3 * time.Second, OnEvent: d.events.add})
		if err != nil {
			t.Fatal(err)
		}
		fn(t, d, l)
	})
}

func acquire(t *testing.T, l *locking.Locker) *locking.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), resource)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func wantCause(t *testing.T, ctx context.Context, want error) {
	t.Helper()
	synctest.Wait()
	if got := context.Cause(ctx); !errors.Is(got, want) || (want == nil) != (got == nil) {
		t.Fatalf("the context's cause is %v, want %v", got, want)
	}
}

// TestWorkLongerThanTheTTL is the literature's run: TTL 3 s, work of 5 s, still held.
func TestWorkLongerThanTheTTL(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		lease := acquire(t, l)
		time.Sleep(5 * time.Second)
		wantCause(t, lease.Context(), nil)
		if st, err := d.lock.Status(t.Context(), resource); err != nil || !st.Held || st.Number != lease.Token().Number {
			t.Fatalf("after 5 s: %+v, %v", st, err)
		}
		if n := d.lock.Calls("Renew"); n < 5 || n > 7 {
			t.Errorf("%d renewals in 5 s, want one each TTL/3 or a little earlier", n)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantCause(t, lease.Context(), locking.ErrReleased)
		calls := d.lock.Calls("Renew")
		time.Sleep(time.Minute)
		if n := d.lock.Calls("Renew"); n != calls {
			t.Errorf("%d renewals after the release", n-calls)
		}
	})
}

func TestRenewalHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		d.lock.On("Renew", lockingtest.Hang, lockingtest.Hang, lockingtest.Hang, lockingtest.Hang, lockingtest.Hang, lockingtest.Hang)
		lease := acquire(t, l)
		deadline := lease.Deadline()
		<-lease.Context().Done()
		wantCause(t, lease.Context(), locking.ErrLost)
		if now := time.Now(); !now.Equal(deadline) {
			t.Errorf("trust ended at %v, want at the deadline, %v", now, deadline)
		}
		if left := time.Until(deadline.Add(32 * time.Millisecond)); left > 0 && d.events.count(fencing.EventLost) != 1 {
			t.Errorf("the loss was not reported once")
		}
		// The hold itself may last a little longer: releasing it is still right.
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release = %v", err)
		}
	})
}

func TestRenewalFailsAndIsRepeated(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		d.lock.On("Renew", lockingtest.FailBefore, lockingtest.LoseCall, lockingtest.LoseReply)
		lease := acquire(t, l)
		time.Sleep(10 * time.Second)
		wantCause(t, lease.Context(), nil)
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLockStoreEndsTheHold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		lease := acquire(t, l)
		if err := d.i.Evict(t.Context(), resource, lease.Token().Number, "a test"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-lease.Context().Done()
		wantCause(t, lease.Context(), locking.ErrLost)
		if took := time.Since(start); took > time.Second {
			t.Errorf("the loss was seen after %v, want at the next renewal", took)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, locking.ErrLost) {
			t.Errorf("Release of a lost lease = %v, want ErrLost", err)
		}
		if n := d.events.count(fencing.EventLost); n != 1 {
			t.Errorf("%d losses were reported, want 1", n)
		}
	})
}

// TestTrustCountsFromBeforeTheFirstSend delays the grant on its way: the time that it
// took is not the holder's.
func TestTrustCountsFromBeforeTheFirstSend(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, _ *locking.Locker) {
		l, err := locking.New(&lateIssuer{d.i, 2 * time.Second}, &locking.Options{TTL: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		lease := acquire(t, l)
		if got, most := lease.Deadline(), before.Add(3*time.Second); got.After(most) {
			t.Fatalf("trusted until %v after the send, want at most the TTL", got.Sub(before))
		}
		_ = lease.Release(t.Context())
	})
}

func TestGrantTooLateIsReleased(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, _ *locking.Locker) {
		l, err := locking.New(&lateIssuer{d.i, 2990 * time.Millisecond}, &locking.Options{TTL: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context(), resource); !errors.Is(err, locking.ErrLost) {
			t.Fatalf("got %v, want ErrLost", err)
		}
		d.wantFree()
	})
}

// TestRenewalCountsFromBeforeItsSend delays the answer to a renewal.
func TestRenewalCountsFromBeforeItsSend(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, _ *locking.Locker) {
		slow := &slowRenewals{Issuer: d.i, by: 900 * time.Millisecond}
		l, err := locking.New(slow, &locking.Options{TTL: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		lease := acquire(t, l)
		time.Sleep(2500 * time.Millisecond)
		if got, most := lease.Deadline(), slow.sent.Add(3*time.Second); slow.sent.IsZero() || got.After(most) {
			t.Fatalf("trusted until %v after the renewal was sent, want less than the TTL", got.Sub(slow.sent))
		}
		_ = lease.Release(t.Context())
	})
}

type slowRenewals struct {
	locking.Issuer
	by   time.Duration
	sent time.Time // of the first renewal
}

func (i *slowRenewals) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	if i.sent.IsZero() {
		i.sent = time.Now()
	}
	verdicts := i.Issuer.Renew(ctx, ttl, held)
	time.Sleep(i.by)
	return verdicts
}

// TestLeaseThatBeginsWithLittle: a grant that took most of its time is renewed at once.
func TestLeaseThatBeginsWithLittle(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, _ *locking.Locker) {
		l, err := locking.New(&lateIssuer{d.i, 2500 * time.Millisecond}, &locking.Options{TTL: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		lease := acquire(t, l)
		time.Sleep(10 * time.Second)
		wantCause(t, lease.Context(), nil)
		_ = lease.Release(t.Context())
	})
}

// lateIssuer answers a grant late.
type lateIssuer struct {
	locking.Issuer
	by time.Duration
}

func (i *lateIssuer) Grant(ctx context.Context, r locking.Request) (locking.Granted, error) {
	g, err := i.Issuer.Grant(ctx, r)
	time.Sleep(i.by)
	return g, err
}

func TestReleaseOutlivesCancellation(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		ctx, cancel := context.WithCancel(t.Context())
		lease, err := l.Acquire(ctx, resource)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		wantCause(t, lease.Context(), nil)
		if err := lease.Release(ctx); err != nil {
			t.Fatalf("Release with an ended context = %v", err)
		}
		if err := lease.Release(ctx); err != nil {
			t.Fatalf("a second Release = %v, want the same", err)
		}
		d.wantFree()
	})
}

func TestReleaseWhileARenewalHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		d.lock.On("Renew", lockingtest.Hang)
		lease := acquire(t, l)
		time.Sleep(1100 * time.Millisecond) // the renewal hangs
		start := time.Now()
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("Release waited %v for a renewal that heeds its context", took)
		}
		d.wantFree()
	})
}

func TestDo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		fault := errors.New("the work failed")
		err := l.Do(t.Context(), resource, func(ctx context.Context, tok fencing.Token) error {
			if d.mark().Current(tok) != nil {
				t.Error("the work began before its token was the mark")
			}
			return fault
		})
		if !errors.Is(err, fault) || errors.Is(err, locking.ErrLost) {
			t.Fatalf("Do = %v, want the work's error", err)
		}
		d.wantFree()

		func() {
			defer func() {
				if recover() != "boom" {
					t.Error("the panic did not come through")
				}
			}()
			_ = l.Do(t.Context(), resource, func(context.Context, fencing.Token) error { panic("boom") })
		}()
		d.wantFree()
	})
}

func TestDoTellsOfALostLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		err := l.Do(t.Context(), resource, func(ctx context.Context, tok fencing.Token) error {
			if err := d.i.Evict(ctx, resource, tok.Number, "a test"); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), locking.ErrLost) {
				t.Errorf("the work's context ended because of %v", context.Cause(ctx))
			}
			return nil
		})
		if !errors.Is(err, locking.ErrLost) {
			t.Fatalf("Do = %v, want ErrLost", err)
		}
	})
}

func TestTryAcquireAndWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, d *desk, l *locking.Locker) {
		lease := acquire(t, l)
		if _, err := l.TryAcquire(t.Context(), resource); !errors.Is(err, locking.ErrHeld) {
			t.Fatalf("TryAcquire = %v, want ErrHeld", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, resource)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, locking.ErrHeld) {
			t.Fatalf("Acquire = %v, want both the deadline and who holds the lock", err)
		}
		go func() {
			time.Sleep(10 * time.Second)
			_ = lease.Release(context.Background())
		}()
		start := time.Now()
		next := acquire(t, l)
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("waited %v, want to be woken by the release after 10 s", took)
		}
		_ = next.Release(t.Context())
	})
}

func TestLeaseHidesItsGrant(t *testing.T) {
	t.Parallel()
	l, err := locking.New(newIssuer(t, memlock.New(), nil, newStore(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	lease := acquire(t, l)
	defer func() { _ = lease.Release(context.Background()) }()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if out := fmt.Sprintf(verb, lease); contains(out, lease.Token().Grant) {
			t.Errorf("Sprintf(%q) shows the grant id: %s", verb, out)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, memlock.New(), nil)
	for name, o := range map[string]*locking.Options{
		"TTL too short":       {TTL: time.Millisecond},
		"TTL too long":        {TTL: 2 * time.Hour},
		"TTL rounds to 0":     {TTL: time.Nanosecond},
		"renewal too rare":    {RenewEvery: 20 * time.Second},
		"drift eats the TTL":  {Drift: 10 * time.Second},
		"label with newline":  {Label: "a\nb"},
		"release has no time": {ReleaseTimeout: 1},
		"warning of the past": {BeforeExpiry: -time.Second},
		"warning always":      {BeforeExpiry: 20 * time.Second}, // 19.7 s are left when a renewal is due
	} {
		if _, err := locking.New(i, o); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%s: got %v, want an *InvalidError", name, err)
		}
	}
	if _, err := locking.New(nil, nil); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("no issuer: got %v, want an *InvalidError", err)
	}
}
