package locking_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// warnings keeps what OnExpiring was told, with the time that was left.
type warnings struct {
	mu   sync.Mutex
	left []time.Duration
}

func (w *warnings) add(lease *locking.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = append(w.left, time.Until(lease.Deadline()))
}

func (w *warnings) want(t *testing.T, want ...time.Duration) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.left, want) {
		t.Fatalf("warned with %v left, want %v", w.left, want)
	}
}

var errDown = fencing.AsFailed(errors.New("the lock store is down"))

// downIssuer is a tally whose renewals fail while it is down.
func downIssuer(t *testing.T) (i *tally, down func(bool)) {
	i = newTally(t)
	var isDown bool
	i.renew = func(_ context.Context, _ int, _ time.Duration, held []fencing.Token) []error {
		i.mu.Lock()
		defer i.mu.Unlock()
		if isDown {
			return verdicts(held, errDown)
		}
		return verdicts(held, nil)
	}
	return i, func(b bool) {
		i.mu.Lock()
		defer i.mu.Unlock()
		isDown = b
	}
}

// TestOnExpiring: once while renewals keep failing, again only after one succeeded, and
// never for a lease that is well.
func TestOnExpiring(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const before = 8 * time.Second
		i, down := downIssuer(t)
		w := &warnings{}
		l := newLocker(t, i, &locking.Options{BeforeExpiry: before, OnExpiring: w.add})
		lease := must(t, l, resource)
		time.Sleep(10 * time.Minute)
		w.want(t)
		for round := range 3 {
			down(true)
			synctest.Wait()
			for time.Until(lease.Deadline()) > before+time.Second {
				time.Sleep(time.Second)
			}
			if round == 0 {
				w.want(t)
			}
			time.Sleep(4 * time.Second)
			w.want(t, slices.Repeat([]time.Duration{before}, round+1)...)
			down(false)
			time.Sleep(time.Minute)
			wantAlive(t, lease)
		}
		down(true)
		<-lease.Context().Done()
		time.Sleep(time.Minute)
		w.want(t, slices.Repeat([]time.Duration{before}, 4)...)
		_ = lease.Release(t.Context())
	})
}

// TestOnExpiringWhileARenewalHangs: the warning does not wait for an answer.
func TestOnExpiringWhileARenewalHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		i.renew = func(ctx context.Context, _ int, _ time.Duration, held []fencing.Token) []error {
			<-ctx.Done()
			return verdicts(held, errDown)
		}
		w := &warnings{}
		l := newLocker(t, i, &locking.Options{BeforeExpiry: time.Second, OnExpiring: w.add})
		held := take(t, l, 3, atOnce)
		<-held[0].Context().Done()
		w.want(t, time.Second, time.Second, time.Second)
		releaseAll(t, l, held)
	})
}

// TestOnExpiringAtMaxHold: work that is at the end of its longest hold is told before, and
// may extend its lease.
func TestOnExpiringAtMaxHold(t *testing.T) {
	t.Parallel()
	for _, hold := range []time.Duration{30 * time.Second, 31 * time.Second, 75 * time.Second} {
		t.Run(hold.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &warnings{}
				l := newLocker(t, newTally(t), &locking.Options{MaxHold: hold, BeforeExpiry: 5 * time.Second, OnExpiring: w.add})
				start := time.Now()
				lease := must(t, l, resource)
				<-lease.Context().Done()
				if took := time.Since(start); took > hold || took < hold-time.Second {
					t.Errorf("the lease lasted %v, want %v", took, hold)
				}
				w.want(t, 5*time.Second)
				_ = lease.Release(t.Context())
			})
		})
	}
	t.Run("extended", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := &warnings{}
			var once sync.Once
			l := newLocker(t, newTally(t), &locking.Options{MaxHold: time.Minute, OnExpiring: func(lease *locking.Lease) {
				w.add(lease)
				once.Do(func() {
					if err := lease.Extend(t.Context(), 10*time.Minute); err != nil {
						t.Error(err)
					}
				})
			}})
			start := time.Now()
			lease := must(t, l, resource)
			<-lease.Context().Done()
			if took := time.Since(start); took < 10*time.Minute+30*time.Second || took > 11*time.Minute {
				t.Errorf("the lease lasted %v", took)
			}
			before := (30*time.Second - 10*time.Second - 302*time.Millisecond) / 2 // the default
			w.want(t, before, before)
			_ = lease.Release(t.Context())
		})
	})
}

// TestOnExpiringNotAfterTheEnd: not for a lease that was released or lost, also if that was in
// the same moment.
func TestOnExpiringNotAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i, down := downIssuer(t)
		down(true)
		w := &warnings{}
		l := newLocker(t, i, &locking.Options{BeforeExpiry: 5 * time.Second, OnExpiring: w.add})
		released := must(t, l, "released")
		outer := must(t, l, "reentered")
		inner, err := l.Acquire(outer.Context(), "reentered")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(released.Deadline()) - 5*time.Second - 1)
		for _, lease := range []*locking.Lease{released, outer} {
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		<-inner.Context().Done()
		w.want(t, 5*time.Second) // of the hold that was re-entered
		_ = inner.Release(t.Context())

		evicted := newTally(t)
		evicted.renew = func(_ context.Context, _ int, _ time.Duration, held []fencing.Token) []error {
			return verdicts(held, locking.ErrLost)
		}
		l = newLocker(t, evicted, &locking.Options{OnExpiring: w.add})
		lease := must(t, l, resource)
		<-lease.Context().Done()
		time.Sleep(time.Minute)
		w.want(t, 5*time.Second)
		_ = lease.Release(t.Context())
	})
}

// TestOnExpiringThatBlocks holds up nobody: neither renewals nor deadlines.
func TestOnExpiringThatBlocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		i.renew = func(_ context.Context, _ int, _ time.Duration, held []fencing.Token) []error {
			list := verdicts(held, nil)
			for k, tok := range held {
				if tok.Resource == "doomed" {
					list[k] = errDown
				}
			}
			return list
		}
		blocked := make(chan struct{})
		l := newLocker(t, i, &locking.Options{OnExpiring: func(*locking.Lease) { <-blocked }})
		well, doomed := must(t, l, "well"), must(t, l, "doomed")
		deadline := doomed.Deadline()
		<-doomed.Context().Done()
		if late := time.Since(deadline); late != 0 {
			t.Errorf("the lease ended %v after its deadline", late)
		}
		time.Sleep(time.Hour)
		wantAlive(t, well)
		close(blocked)
		releaseAll(t, l, []*locking.Lease{well, doomed})
	})
}

// TestOnExpiringOfALeaseThatBeginsWithLittle: its first renewal is waited for.
func TestOnExpiringOfALeaseThatBeginsWithLittle(t *testing.T) {
	t.Parallel()
	for _, isDown := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			i, down := downIssuer(t)
			down(isDown)
			w := &warnings{}
			l := newLocker(t, &lateIssuer{i, 26 * time.Second}, &locking.Options{TTL: 30 * time.Second, Drift: 2 * time.Second, OnExpiring: w.add})
			lease := must(t, l, resource) // 2 s are left
			if !isDown {
				time.Sleep(10 * time.Minute)
				wantAlive(t, lease)
				w.want(t)
			} else {
				<-lease.Context().Done()
				w.want(t, 500*time.Millisecond)
			}
			_ = lease.Release(t.Context())
		})
	}
}

type jobKey struct{}

// TestOnExpiringKnowsItsWork: the lease's context has the values of the one that it was
// taken out with, so that Do's work can be reached.
func TestOnExpiringKnowsItsWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i, down := downIssuer(t)
		l := newLocker(t, i, &locking.Options{OnExpiring: func(lease *locking.Lease) {
			windUp, _ := lease.Context().Value(jobKey{}).(context.CancelFunc)
			windUp()
		}})
		ctx, windUp := context.WithCancel(t.Context())
		ctx = context.WithValue(ctx, jobKey{}, windUp)
		err := l.Do(ctx, resource, func(ctx context.Context, _ fencing.Token) error {
			down(true)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, locking.ErrLost) {
			t.Errorf("Do = %v, want the work to end before its lease", err)
		}
	})
}
