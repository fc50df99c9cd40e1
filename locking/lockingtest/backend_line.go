package lockingtest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// lineTest is about a backend that keeps those who wait in a line.
type lineTest struct {
	*backendTest
	w locking.Waiter
}

// runLine checks every promise of locking.Waiter.
func runLine(t *testing.T, h BackendHarness) {
	for name, fn := range map[string]func(*lineTest){
		"JoinTakesAFreeLock":          joinTakesFree,
		"FirstInLineFirstServed":      lineOrder,
		"JoinAgainKeepsThePlace":      joinKeepsPlace,
		"AttemptsDoNotOvertake":       noOvertaking,
		"GivenHoldIsDrawnOnce":        givenIsDrawnOnce,
		"GivenHoldRespectsTheFloor":   givenRespectsFloor,
		"WordComesWithTheRelease":     wordComes,
		"LeavingGivesUpThePlace":      leaving,
		"LeavingHandsOnWhatWasGiven":  leavingHandsOn,
		"LeavingKeepsAHold":           leavingKeepsHold,
		"GivenAndNotAskedForPassesOn": unclaimedPasses,
		"GivenAndExpiredIsNotEnded":   unclaimedIsNotEnded,
		"EvictionServesTheLine":       evictServes,
		"ExpiryServesTheLine":         expiryServes,
		"WaitersAreCounted":           waitersCounted,
		"TheDeadDelayNoLongerThan":    maxStall,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := h.New(t)
			w, ok := b.(locking.Waiter)
			if !ok {
				t.Fatalf("%T is no locking.Waiter", b)
			}
			fn(&lineTest{&backendTest{BackendHarness: h, T: t, b: b, resource: h.Unique(t, "line")}, w})
		})
	}
}

func (t *lineTest) join(r locking.Request) (locking.Hold, error) {
	return t.w.Join(t.Context(), r, func() {})
}

// wait takes a place in line.
func (t *lineTest) wait(r locking.Request) {
	t.Helper()
	_, err := t.join(r)
	t.wantErr(err, locking.ErrHeld)
}

// granted repeats Join, at most for so long, until it is granted, in the rhythm that the
// contract asks for.
func (t *lineTest) granted(r locking.Request, within time.Duration) locking.Hold {
	t.Helper()
	for deadline := time.Now().Add(within); ; {
		h, err := t.join(r)
		if err == nil {
			return h
		}
		t.wantErr(err, locking.ErrHeld)
		if time.Now().After(deadline) {
			t.Fatalf("not granted within %v: %v", within, err)
		}
		time.Sleep(locking.LookEvery / 20)
	}
}

// now is granted for a lock that was given to r already.
func (t *lineTest) now(r locking.Request) locking.Hold {
	t.Helper()
	h, err := t.join(r)
	if err != nil {
		t.Fatalf("Join(%v) = %v, want the lock that was given to it", r, err)
	}
	return h
}

func (t *lineTest) leave(r locking.Request) {
	t.Helper()
	if err := t.w.Leave(t.Context(), r); err != nil {
		t.Fatalf("Leave = %v", err)
	}
}

// three returns a hold, and requests that wait in line behind it.
func (t *lineTest) three() (fencing.Token, [3]locking.Request) {
	t.Helper()
	held := t.must(t.request()).Token
	var waiting [3]locking.Request
	for i := range waiting {
		waiting[i] = t.request()
		t.wait(waiting[i])
	}
	return held, waiting
}

func joinTakesFree(t *lineTest) {
	h := t.now(t.request())
	t.wantNumber(h, 1)
	if !h.Drawn || h.Remaining < long/2 {
		t.Fatalf("got %+v, want a fresh hold", h)
	}
}

func lineOrder(t *lineTest) {
	held, waiting := t.three()
	for i, r := range waiting {
		t.release(held, true)
		for _, later := range waiting[i+1:] {
			t.wait(later)
		}
		h := t.now(r)
		t.wantNumber(h, int64(i)+2)
		held = h.Token
	}
	t.release(held, true)
	t.wantNumber(t.must(t.request()), 5)
}

func joinKeepsPlace(t *lineTest) {
	held, waiting := t.three()
	t.wait(waiting[0])
	t.release(held, true)
	t.wait(waiting[1])
	t.now(waiting[0])
}

func noOvertaking(t *lineTest) {
	held, waiting := t.three()
	t.release(held, true)
	_, err := t.try(t.request())
	t.wantErr(err, locking.ErrHeld)
	t.wait(t.request())
	h := t.now(waiting[0])
	t.release(h.Token, true)
	_, err = t.try(t.request())
	t.wantErr(err, locking.ErrHeld)
	t.now(waiting[1])
}

func givenIsDrawnOnce(t *lineTest) {
	held, waiting := t.three()
	t.leave(waiting[1])
	t.leave(waiting[2])
	t.release(held, true)
	h := t.now(waiting[0])
	if !h.Drawn || h.Remaining <= locking.PushTTL || h.Remaining > long {
		t.Fatalf("got %+v, want a hold that this call drew, for its whole TTL", h)
	}
	again, err := t.try(waiting[0])
	if err != nil || again.Drawn || again.Token != h.Token {
		t.Fatalf("a repeat got %+v, %v, want the same hold, not drawn", again, err)
	}
	if err := t.renew(long, h.Token)[0]; err != nil {
		t.Fatal(err)
	}
	t.release(h.Token, true)
	_, err = t.join(waiting[0])
	t.wantErr(err, locking.ErrLost)
}

func givenRespectsFloor(t *lineTest) {
	held, waiting := t.three()
	t.release(held, true)
	r := waiting[0]
	r.Floor = 50
	h := t.now(r)
	t.wantNumber(h, 51)
	if !h.Drawn {
		t.Fatal("the new number is not drawn")
	}
}

func wordComes(t *lineTest) {
	held := t.must(t.request()).Token
	woken := make(chan struct{}, 1)
	r := t.request()
	_, err := t.w.Join(t.Context(), r, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	t.wantErr(err, locking.ErrHeld)
	t.release(held, true)
	// Word may come late, or because it may have been missed: but it comes.
	select {
	case <-woken:
	case <-time.After(patience):
		t.Fatal("nobody called wake after the release")
	}
	t.granted(r, patience)
}

func leaving(t *lineTest) {
	held, waiting := t.three()
	t.leave(waiting[1])
	t.leave(waiting[1])
	t.release(held, true)
	t.release(t.now(waiting[0]).Token, true)
	t.release(t.now(waiting[2]).Token, true)
	t.leave(t.request()) // never was there
	t.must(t.request())
}

func leavingHandsOn(t *lineTest) {
	held, waiting := t.three()
	t.release(held, true)
	t.leave(waiting[0])
	h := t.now(waiting[1])
	t.leave(waiting[2])
	t.release(h.Token, true)
	last := t.request()
	h = t.must(last)
	t.wait(waiting[2])
	t.release(h.Token, true)
	t.leave(waiting[2])
	if t.status().Held {
		t.Fatal("the last in line left, and the lock is held")
	}
	_, err := t.try(waiting[2])
	t.wantErr(err, locking.ErrLost)
}

func leavingKeepsHold(t *lineTest) {
	held, waiting := t.three()
	t.release(held, true)
	h := t.now(waiting[0])
	t.leave(waiting[0])
	if err := t.renew(long, h.Token)[0]; err != nil {
		t.Fatalf("a hold ended with Leave: %v", err)
	}
	t.wait(waiting[1])
}

func unclaimedPasses(t *lineTest) {
	held, waiting := t.three()
	t.release(held, true)
	t.granted(waiting[1], t.w.MaxStall()+patience)
}

func unclaimedIsNotEnded(t *lineTest) {
	held := t.must(t.request()).Token
	r := t.request()
	t.wait(r)
	t.release(held, true)
	t.untilFree() // PushTTL, whatever the TTL
	h := t.now(r)
	if !h.Drawn || h.Token.Number <= held.Number {
		t.Fatalf("got %+v, want a fresh hold", h)
	}
	t.release(h.Token, true)
	_, err := t.join(r)
	t.wantErr(err, locking.ErrLost)
}

func evictServes(t *lineTest) {
	held, waiting := t.three()
	if err := t.b.Evict(t.Context(), t.resource, held.Number); err != nil {
		t.Fatal(err)
	}
	// What was given and not asked for can be evicted, too, and has ended then.
	if err := t.b.Evict(t.Context(), t.resource, held.Number+1); err != nil {
		t.Fatal(err)
	}
	t.now(waiting[1])
	_, err := t.try(waiting[0])
	t.wantErr(err, locking.ErrHeld)
}

func expiryServes(t *lineTest) {
	r := t.request()
	r.TTL = short
	t.must(r)
	first, second := t.request(), t.request()
	t.wait(first)
	t.wait(second)
	t.untilFree()
	t.wait(second)
	t.now(first)
}

func waitersCounted(t *lineTest) {
	_, waiting := t.three()
	if st := t.status(); st.Waiters != 3 {
		t.Fatalf("got %d waiters, want 3", st.Waiters)
	}
	for _, r := range waiting {
		t.leave(r)
	}
	if st := t.status(); st.Waiters != 0 {
		t.Fatalf("got %d waiters after all have left", st.Waiters)
	}
}

// maxStall: ten who died, the last of them just before the release. Were all of them given the lock,
// it would take far longer than a busy machine is granted here.
func maxStall(t *lineTest) {
	held := t.must(t.request()).Token
	for range 10 {
		t.wait(t.request())
	}
	alive := t.request()
	t.wait(alive)
	t.release(held, true)
	start := time.Now()
	for {
		_, err := t.join(alive)
		if err == nil {
			break
		}
		t.wantErr(err, locking.ErrHeld)
		// On a busy machine each look may be late.
		if took := time.Since(start); took > t.w.MaxStall()+5*locking.LookEvery {
			t.Fatalf("the dead have delayed the living by %v, want at most %v", took, t.w.MaxStall())
		}
		time.Sleep(locking.LookEvery)
	}
}

// runWake checks what a locking.Waiter without a line of its own promises.
func runWake(t *testing.T, h BackendHarness) {
	t.Run("WordComesWithTheRelease", func(t *testing.T) {
		t.Parallel()
		b := h.New(t)
		w, ok := b.(locking.Waiter)
		if !ok {
			t.Fatalf("%T is no locking.Waiter", b)
		}
		wordComes(&lineTest{&backendTest{BackendHarness: h, T: t, b: b, resource: h.Unique(t, "wake")}, w})
	})
	t.Run("NoWordAfterLeaving", func(t *testing.T) {
		t.Parallel()
		b := h.New(t)
		bt := &backendTest{BackendHarness: h, T: t, b: b, resource: h.Unique(t, "wake")}
		w, ok := b.(locking.Waiter)
		if !ok {
			t.Fatalf("%T is no locking.Waiter", b)
		}
		noWordAfterLeaving(&lineTest{bt, w})
	})
}

func noWordAfterLeaving(t *lineTest) {
	held := t.must(t.request()).Token
	var left atomic.Bool
	r := t.request()
	_, err := t.w.Join(t.Context(), r, func() {
		if left.Load() {
			t.Error("wake was called after Leave")
		}
	})
	t.wantErr(err, locking.ErrHeld)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := t.w.Leave(ended, r); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatalf("Leave = %v", err)
	}
	left.Store(true)
	// Another one waits for the same word: when it has come, the other would have.
	woken := make(chan struct{}, 100)
	other := t.request()
	_, err = t.w.Join(t.Context(), other, func() { woken <- struct{}{} })
	t.wantErr(err, locking.ErrHeld)
	t.release(held, true)
	<-woken
	_ = t.w.Leave(t.Context(), r)
	t.granted(other, patience)
}
