package locking_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/memlock"
)

// house is several issuers over one lock store and one store, as in several processes.
type house struct {
	*testing.T
	lock    *lockingtest.FlakyLine
	fence   *lockingtest.FlakyFence
	issuers []*locking.LocalIssuer

	mu    sync.Mutex // guards order
	order []string
	wg    sync.WaitGroup
}

func newHouse(t *testing.T, issuers int) *house {
	h := &house{T: t, lock: lockingtest.NewFlakyLine(memlock.New()), fence: &lockingtest.FlakyFence{Fence: newStore(t)}}
	for range issuers {
		h.issuers = append(h.issuers, newIssuer(t, h.lock, &locking.IssuerOptions{Cleanup: 200 * time.Millisecond}, h.fence))
	}
	return h
}

// waits lets a request wait at an issuer, and release after so long; its name goes into the
// order when it is granted. waits returns when the request stands in its line.
func (h *house) waits(name string, issuer int, hold time.Duration) {
	h.wg.Go(func() {
		r := request()
		r.Grant, r.Wait = "", -1
		g, err := h.issuers[issuer].Grant(h.Context(), r)
		if err != nil {
			h.Errorf("%s: %v", name, err)
			return
		}
		h.mu.Lock()
		h.order = append(h.order, name)
		h.mu.Unlock()
		time.Sleep(hold)
		if freed, err := h.issuers[issuer].Release(h.Context(), g.Token); !freed || err != nil {
			h.Errorf("%s: Release = %t, %v", name, freed, err)
		}
	})
	synctest.Wait()
}

func (h *house) wantOrder(want ...string) {
	h.Helper()
	h.wg.Wait()
	if !slices.Equal(h.order, want) {
		h.Errorf("got the order %v, want %v", h.order, want)
	}
	seen := map[int64]bool{}
	for _, t := range h.fence.Raised() {
		if seen[t.Number] {
			h.Errorf("number %d was sent as a raise twice", t.Number)
		}
		seen[t.Number] = true
	}
}

// calls is how often the lock store was asked for anything that counts in a hand-over.
func (h *house) calls() (n int) {
	for _, method := range []string{"TryAcquire", "Join", "Leave", "Release", "Transfer"} {
		n += h.lock.Calls(method)
	}
	return n
}

// TestHandOverIsOneCall: inside an issuer a lock passes on by one call of the lock store,
// however short the work.
func TestHandOverIsOneCall(t *testing.T) {
	t.Parallel()
	for _, work := range []time.Duration{0, time.Millisecond, time.Second} {
		t.Run(work.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 1)
				h.waits("first", 0, 10*time.Second)
				want := []string{"first"}
				for i := range 50 {
					name := fmt.Sprint(i)
					h.waits(name, 0, work)
					want = append(want, name)
				}
				h.wg.Wait()
				calls := h.calls()
				h.wantOrder(want...)
				// The first grant and the last release; looks, every second, while the first one works,
				// and one for each that waits for a second behind another.
				looks := 12 * 4 / 3
				if work == time.Second {
					looks += 2 * 50
				}
				if most := 50 + 2 + looks; calls > most {
					t.Errorf("50 hand-overs took %d calls, want one each, and a few, %d", calls, most)
				}
			})
		})
	}
}

// TestOneContenderPerProcess: the lock store's line has the head of each issuer's.
func TestOneContenderPerProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2)
		h.waits("holder", 0, 10*time.Second)
		for range 5 {
			h.waits("x", 0, 0)
			h.waits("x", 1, 0)
		}
		st, err := h.lock.Status(t.Context(), resource)
		if err != nil || st.Waiters != 2 {
			t.Errorf("Status = %+v, %v; want two waiters", st, err)
		}
		h.wg.Wait()
	})
}

// TestOthersGetTheirTurn: a process whose callers come again and again passes the lock on
// after 64 hand-overs, or after a TTL.
func TestOthersGetTheirTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hold, away time.Duration // of the greedy
		grants     int           // to them, at most, before the other one
	}{
		"short":   {time.Millisecond, 0, 67},
		"one off": {2 * time.Millisecond, time.Millisecond, 67}, // their line is empty in between
		"long":    {20 * time.Second, 0, 6},                     // the TTL is a minute
		"slower":  {time.Second, 0, 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 2)
				ctx, stop := context.WithCancel(t.Context())
				var grants int
				var mu sync.Mutex
				for range 2 {
					h.wg.Go(func() {
						for ctx.Err() == nil {
							r := request()
							r.Wait = -1
							g, err := h.issuers[0].Grant(ctx, r)
							if err != nil {
								return
							}
							mu.Lock()
							grants++
							mu.Unlock()
							time.Sleep(c.hold)
							_, _ = h.issuers[0].Release(t.Context(), g.Token)
							time.Sleep(c.away)
						}
					})
				}
				time.Sleep(10 * c.hold)
				synctest.Wait()
				mu.Lock()
				before := grants
				mu.Unlock()
				r := request()
				r.Wait = 100 * c.hold
				g, err := h.issuers[1].Grant(ctx, r)
				if err != nil {
					t.Fatal(err)
				}
				mu.Lock()
				got := grants - before
				mu.Unlock()
				if got > c.grants {
					t.Errorf("the other process waited for %d grants, want at most %d", got, c.grants)
				}
				stop()
				if freed, err := h.issuers[1].Release(t.Context(), g.Token); !freed || err != nil {
					t.Errorf("Release = %t, %v", freed, err)
				}
				h.wg.Wait()
			})
		})
	}
}

// TestFairAcrossProcesses: with one caller each, processes are served in order of arrival.
func TestFairAcrossProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 5)
		var want []string
		for i := range 20 {
			name := fmt.Sprint(i % 5)
			if i < 5 {
				h.waits(name, i%5, time.Second)
				want = append(want, name)
			}
		}
		start := time.Now()
		h.wantOrder(want...)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("five holds of a second took %v: the word did not come", took)
		}
	})
}

// TestHandOverFails: whatever becomes of a hand-over, the next one gets the lock at once,
// no number is raised twice, and the releaser is told the truth.
func TestHandOverFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault lockingtest.Fault
		want  fencing.Outcome
	}{
		"not sent":   {lockingtest.FailBefore, fencing.Applied}, // released instead
		"call lost":  {lockingtest.LoseCall, fencing.Unknown},
		"reply lost": {lockingtest.LoseReply, fencing.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 1)
				r := request()
				r.TTL = 2 * time.Second
				g, err := h.issuers[0].Grant(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				h.waits("next", 0, time.Millisecond)
				start := time.Now()
				h.lock.On("Transfer", c.fault)
				freed, err := h.issuers[0].Release(t.Context(), g.Token)
				if fencing.OutcomeOf(err) != c.want || freed != (c.want == fencing.Applied) {
					t.Errorf("Release = %t, %v, want %v", freed, err, c.want)
				}
				h.wantOrder("next")
				// A lost call leaves the lock with the releaser until it expires.
				if took := time.Since(start); took > 3*time.Second || c.fault != lockingtest.LoseCall && took > 100*time.Millisecond {
					t.Errorf("the next one waited %v", took)
				}
			})
		})
	}
}

// TestHandOverOfAnEndedHold: a release that comes too late hands nothing over.
func TestHandOverOfAnEndedHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2)
		g, err := h.issuers[0].Grant(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		other := request()
		if err := h.lock.Evict(t.Context(), resource, g.Token.Number); err != nil {
			t.Fatal(err)
		}
		held, err := h.issuers[1].Grant(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		h.waits("next", 0, 0)
		if freed, err := h.issuers[0].Release(t.Context(), g.Token); freed || err != nil {
			t.Errorf("a late Release = %t, %v", freed, err)
		}
		if err := h.issuers[1].Renew(t.Context(), time.Minute, []fencing.Token{held.Token})[0]; err != nil {
			t.Errorf("the hold of another was touched: %v", err)
		}
		if freed, err := h.issuers[1].Release(t.Context(), held.Token); !freed || err != nil {
			t.Errorf("Release = %t, %v", freed, err)
		}
		h.wantOrder("next")
	})
}

// TestWhoLeavesDuringAHandOver gets no lock, and keeps nobody else from it.
func TestWhoLeavesDuringAHandOver(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"arrives": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 1)
				slow := &slowTransfer{FlakyLine: h.lock, begun: make(chan struct{}), resume: make(chan struct{})}
				i := newIssuer(t, slow, &locking.IssuerOptions{Cleanup: 200 * time.Millisecond}, h.fence)
				h.issuers = []*locking.LocalIssuer{i}
				g, err := i.Grant(t.Context(), request())
				if err != nil {
					t.Fatal(err)
				}
				ctx, leave := context.WithCancel(t.Context())
				gone := make(chan error, 1)
				go func() {
					r := request()
					r.Wait = -1
					_, err := i.Grant(ctx, r)
					gone <- err
				}()
				synctest.Wait()
				h.waits("next", 0, 0)
				released := make(chan error, 1)
				if lost {
					h.lock.On("Transfer", lockingtest.LoseReply)
				}
				go func() {
					_, err := i.Release(t.Context(), g.Token)
					released <- err
				}()
				<-slow.begun
				leave()
				if err := <-gone; !errors.Is(err, context.Canceled) {
					t.Errorf("who left got %v", err)
				}
				close(slow.resume)
				if err := <-released; lost != (fencing.OutcomeOf(err) == fencing.Unknown) {
					t.Errorf("Release = %v", err)
				}
				start := time.Now()
				h.wantOrder("next")
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("the next one waited %v", took)
				}
				st, err := h.lock.Status(t.Context(), resource)
				if err != nil || st.Held || st.Waiters != 0 {
					t.Errorf("left over: %+v, %v", st, err)
				}
			})
		})
	}
}

// slowTransfer says when its first Transfer begins and waits until it may go on.
type slowTransfer struct {
	*lockingtest.FlakyLine
	begun, resume chan struct{}
	once          sync.Once
}

func (s *slowTransfer) Transfer(ctx context.Context, from fencing.Token, r locking.Request) (locking.Hold, error) {
	s.once.Do(func() { close(s.begun); <-s.resume })
	return s.FlakyLine.Transfer(ctx, from, r)
}

// TestGivenLockThatNobodyAsksFor: a waiter whose word is lost looks, and gets what it was
// given; one that is gone has handed it on.
func TestGivenLockThatNobodyAsksFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 3)
		g, err := h.issuers[0].Grant(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			r := request()
			r.Wait = -1
			_, err := h.issuers[1].Grant(ctx, r)
			gone <- err
		}()
		synctest.Wait()
		h.waits("next", 2, 0)
		// The first in line is woken, but its question is lost, and then it leaves.
		h.lock.On("Join", lockingtest.Hang)
		h.lock.On("TryAcquire", lockingtest.FailBefore)
		if _, err := h.issuers[0].Release(t.Context(), g.Token); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		leave()
		if err := <-gone; err == nil {
			t.Error("who left was granted")
		}
		start := time.Now()
		h.wantOrder("next")
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("the next one waited %v for a lock that was handed on", took)
		}
	})
}

// TestTooManyWaiters: who comes when the line is full is told so at once.
func TestTooManyWaiters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		h.issuers[0] = newIssuer(t, h.lock, &locking.IssuerOptions{MaxWaiters: 3}, h.fence)
		for range 4 { // the first does not wait
			h.waits("x", 0, time.Second)
		}
		r := request()
		r.Wait = -1
		_, err := h.issuers[0].Grant(t.Context(), r)
		if !errors.Is(err, locking.ErrTooManyWaiters) || fencing.OutcomeOf(err) != fencing.Failed {
			t.Errorf("got %v, want ErrTooManyWaiters, failed", err)
		}
		r.Resource = "coupon:43"
		if _, err := h.issuers[0].Grant(t.Context(), r); err != nil {
			t.Errorf("another resource: %v", err)
		}
		h.wg.Wait()
		r.Resource = resource
		if _, err := h.issuers[0].Grant(t.Context(), r); err != nil {
			t.Errorf("after the line has gone: %v", err)
		}
	})
}

// TestLeavingAtTheSameInstant: waiters whose time is up in the very moment of a release
// either get the lock or leave nothing of it behind.
func TestLeavingAtTheSameInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		i := h.issuers[0]
		granted := 0
		for range 1000 {
			g, err := i.Grant(t.Context(), request())
			if err != nil {
				t.Fatalf("after %d grants: %v", granted, err)
			}
			var wg sync.WaitGroup
			results := make(chan error, 3)
			for range cap(results) {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
					defer cancel()
					r := request()
					r.Wait = -1
					g, err := i.Grant(ctx, r)
					if err == nil {
						_, err = i.Release(t.Context(), g.Token)
					}
					results <- err
				})
			}
			time.Sleep(10 * time.Millisecond)
			if freed, err := i.Release(t.Context(), g.Token); !freed || err != nil {
				t.Fatalf("Release = %t, %v", freed, err)
			}
			wg.Wait()
			synctest.Wait() // what was handed to those who left is given back
			for range cap(results) {
				if <-results == nil {
					granted++
				}
			}
			if st, err := h.lock.Status(t.Context(), resource); err != nil || st.Held || st.Waiters != 0 {
				t.Fatalf("left behind: %+v, %v", st, err)
			}
		}
		if granted == 0 || granted == 3000 {
			t.Errorf("%d of 3000 were granted: the moment was missed", granted)
		}
	})
}
