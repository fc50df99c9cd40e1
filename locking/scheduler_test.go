package locking_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// tally is an issuer that grants everything, answers renewals as it is told, and keeps
// account of them.
type tally struct {
	*testing.T
	locking.Issuer                                                                                      // none: other methods are not called
	renew          func(ctx context.Context, call int, ttl time.Duration, held []fencing.Token) []error // nil: all is well, after 5 ms

	mu       sync.Mutex // guards what follows
	number   int64
	calls    int
	largest  int                    // call, in tokens
	atOnce   int                    // calls under way
	most     int                    // of them, ever
	under    map[string]bool        // being renewed
	renewals map[string][]time.Time // when they were sent
	released map[string]time.Time
}

func newTally(t *testing.T) *tally {
	return &tally{T: t, under: map[string]bool{}, renewals: map[string][]time.Time{}, released: map[string]time.Time{}}
}

func (i *tally) Grant(_ context.Context, r locking.Request) (locking.Granted, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.number++
	return locking.Granted{Token: fencing.Token{Resource: r.Resource, Number: i.number, Grant: r.Grant}, ExpiresIn: r.TTL}, nil
}

func (i *tally) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	i.mu.Lock()
	i.calls++
	call := i.calls
	i.largest = max(i.largest, len(held))
	i.atOnce++
	i.most = max(i.most, i.atOnce)
	for _, t := range held {
		if i.under[t.Resource] {
			i.Errorf("two renewals of %v at the same time", t)
		}
		i.under[t.Resource] = true
		i.renewals[t.Resource] = append(i.renewals[t.Resource], time.Now())
		if at, ok := i.released[t.Resource]; ok {
			i.Errorf("%v was renewed %v after its release", t, time.Since(at))
		}
	}
	i.mu.Unlock()
	var verdicts []error
	if i.renew == nil {
		time.Sleep(5 * time.Millisecond)
		verdicts = make([]error, len(held))
	} else {
		verdicts = i.renew(ctx, call, ttl, held)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.atOnce--
	for _, t := range held {
		delete(i.under, t.Resource)
	}
	return verdicts
}

func (i *tally) Release(_ context.Context, t fencing.Token) (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.released[t.Resource] = time.Now()
	return true, nil
}

// of returns when the renewals of one lease were sent.
func (i *tally) of(lease *locking.Lease) []time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.renewals[lease.Token().Resource]
}

// total returns how many calls there were, and how many leases they renewed.
func (i *tally) total() (calls, renewals int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, list := range i.renewals {
		renewals += len(list)
	}
	return i.calls, renewals
}

// take takes out n leases, one each pause.
func take(t *testing.T, l *locking.Locker, n int, pause func() time.Duration) []*locking.Lease {
	t.Helper()
	leases := make([]*locking.Lease, n)
	for i := range leases {
		leases[i] = must(t, l, fmt.Sprintf("coupon:%d", i))
		time.Sleep(pause())
	}
	return leases
}

func atOnce() time.Duration { return 0 }

func releaseAll(t *testing.T, l *locking.Locker, leases []*locking.Lease) {
	t.Helper()
	for _, lease := range leases {
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if !l.Idle() {
		t.Error("without leases the scheduler still waits for something")
	}
}

func newLocker(t *testing.T, i locking.Issuer, o *locking.Options) *locking.Locker {
	t.Helper()
	l, err := locking.New(i, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// verdicts returns the same verdict for all.
func verdicts(held []fencing.Token, err error) []error {
	list := make([]error, len(held))
	for i := range list {
		list[i] = err
	}
	return list
}

// TestRedissonWatchdogOf10000Leases: they are renewed in batches, however they were taken
// out, and the Locker is woken once for many.
func TestRedissonWatchdogOf10000Leases(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]func() time.Duration{
		"at once":          atOnce,
		"one each ms":      func() time.Duration { return time.Millisecond },
		"spread at random": func() time.Duration { return rand.N(2 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const leases, ttl, every = 10_000, 30 * time.Second, 10 * time.Second
				i := newTally(t)
				l := newLocker(t, i, &locking.Options{TTL: ttl, RenewEvery: every})
				start := time.Now()
				held := take(t, l, leases, pause)
				time.Sleep(time.Until(start.Add(time.Minute)))
				for _, lease := range held {
					wantAlive(t, lease)
					last := start // of this lease's renewals
					for k, at := range i.of(lease) {
						if gap := at.Sub(last); k > 0 && (gap > every || gap < every*4/5) {
							t.Fatalf("%v was renewed after %v, want %v or up to a fifth less", lease, gap, every)
						}
						last = at
					}
					if gap := time.Since(last); gap > every {
						t.Fatalf("%v was not renewed for %v", lease, gap)
					}
				}
				calls, renewals := i.total()
				woken := l.Woken()
				t.Logf("%d renewals: %d calls, the largest of %d, at most %d at once; %d wake-ups", renewals, calls, i.largest, i.most, woken)
				if renewals < 5*leases-leases/2 || renewals > 7*leases {
					t.Errorf("%d renewals, want about one each %v for each of %d leases", renewals, every, leases)
				}
				if most := renewals / 100; calls > most || woken > most {
					t.Errorf("%d calls and %d wake-ups for %d renewals, want at most 1%%", calls, woken, renewals)
				}
				if i.largest > 1000 || i.most > 4 {
					t.Errorf("a call of %d tokens, %d calls at once", i.largest, i.most)
				}
				releaseAll(t, l, held)
				calls, _ = i.total()
				time.Sleep(time.Minute)
				if again, _ := i.total(); again != calls {
					t.Errorf("%d calls without a lease", again-calls)
				}
			})
		})
	}
}

func wantAlive(t *testing.T, lease *locking.Lease) {
	t.Helper()
	if cause := context.Cause(lease.Context()); cause != nil {
		t.Fatalf("%v ended: %v", lease, cause)
	}
}

// TestLeasesThatComeAndGo: what the scheduler does follows those that stay.
func TestLeasesThatComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		l := newLocker(t, i, nil)
		var held []*locking.Lease
		for n := range 2_000 {
			held = append(held, must(t, l, fmt.Sprint("job:", n)))
			if k := rand.N(len(held)); len(held) > 100 {
				if err := held[k].Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				held = append(held[:k], held[k+1:]...)
			}
			time.Sleep(rand.N(200 * time.Millisecond))
		}
		for _, lease := range held {
			wantAlive(t, lease)
		}
		calls, renewals := i.total()
		t.Logf("%d renewals, %d calls, %d wake-ups in 200 s", renewals, calls, l.Woken())
		if most := 200 * 2; calls > most || l.Woken() > 2*most {
			t.Errorf("%d calls, %d wake-ups in 200 s, want about one each second", calls, l.Woken())
		}
		releaseAll(t, l, held)
	})
}

// TestDeadlinesWhileRenewalsHang: each lease ends at its own deadline, to the nanosecond,
// although every call hangs and does not heed its context.
func TestDeadlinesWhileRenewalsHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newTally(t)
		stuck := make(chan struct{})
		defer close(stuck)
		i.renew = func(_ context.Context, _ int, _ time.Duration, held []fencing.Token) []error {
			<-stuck
			return verdicts(held, nil)
		}
		events := &recorder{}
		l := newLocker(t, i, &locking.Options{OnEvent: events.add})
		held := take(t, l, 200, func() time.Duration { return rand.N(100 * time.Millisecond) })
		var wg sync.WaitGroup
		for _, lease := range held {
			deadline := lease.Deadline()
			wg.Go(func() {
				<-lease.Context().Done()
				if late := time.Since(deadline); late != 0 || !errors.Is(context.Cause(lease.Context()), locking.ErrLost) {
					t.Errorf("%v ended %v after its deadline: %v", lease, late, context.Cause(lease.Context()))
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if n := events.count(fencing.EventLost); n != len(held) || !l.Idle() {
			t.Errorf("%d losses were reported, want %d", n, len(held))
		}
	})
}

// TestLockersDoNotRenewInStep: processes that began together drift apart.
func TestLockersDoNotRenewInStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lockers, every = 50, 10 * time.Second
		start := time.Now()
		firsts := map[time.Duration]bool{}
		for n := range lockers {
			i := newTally(t)
			lease := must(t, newLocker(t, i, nil), resource)
			defer func() {
				first := i.of(lease)[0].Sub(start)
				firsts[first.Truncate(every/1000)] = true
				if first < every*9/10 || first > every {
					t.Errorf("locker %d renewed first after %v", n, first)
				}
				_ = lease.Release(t.Context())
				if n == 0 && len(firsts) < lockers/3 { // the last to be called
					t.Errorf("%d lockers began their renewals at %d moments", lockers, len(firsts))
				}
			}()
		}
		time.Sleep(every)
		synctest.Wait()
	})
}
