package locking_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
)

// TestShortWaits: after a holder that was handed the lock and never gave it back, even who
// waits for less than the patience asks the lock store.
func TestShortWaits(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"expire", "evict"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 1)
				i := h.issuers[0]
				g, err := i.Grant(t.Context(), request())
				if err != nil {
					t.Fatal(err)
				}
				var b locking.Granted
				h.wg.Go(func() {
					r := request()
					r.Wait = -1
					b, _ = i.Grant(t.Context(), r)
				})
				synctest.Wait()
				_, _ = i.Release(t.Context(), g.Token)
				h.wg.Wait()
				if how == "evict" {
					if err := i.Evict(t.Context(), resource, b.Token.Number, "stuck"); err != nil {
						t.Fatal(err)
					}
				} else {
					time.Sleep(2 * time.Minute)
				}
				st, _ := i.Status(t.Context(), resource)
				before := h.calls()
				refused := 0
				for range 100 {
					r := request()
					r.Wait = 40 * time.Millisecond
					if _, err := i.Grant(t.Context(), r); err == nil {
						break
					}
					refused++
					time.Sleep(time.Minute)
				}
				if refused > 0 {
					t.Errorf("held=%t; %d of 100 Grants over 100 minutes refused a FREE lock, with %d calls to the lock store", st.Held, refused, h.calls()-before)
				}
			})
		})
	}
}

// TestRepeatDuringAHandOver: who left while the lock was being handed to it, and asks again
// with the same grant id, waits until that has been cleaned up: what it gets then it keeps.
func TestRepeatDuringAHandOver(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]lockingtest.Fault{
		"call lost": lockingtest.LoseCall, "reply lost": lockingtest.LoseReply, "arrives": lockingtest.None, "fails": lockingtest.FailBefore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 1)
				slow := &slowTransfer{FlakyLine: h.lock, begun: make(chan struct{}), resume: make(chan struct{})}
				i := newIssuer(t, slow, nil, h.fence)
				g, err := i.Grant(t.Context(), request())
				if err != nil {
					t.Fatal(err)
				}
				ctx, leave := context.WithCancel(t.Context())
				gone := make(chan error, 1)
				r := request()
				r.Wait = 10 * time.Minute
				go func() {
					_, err := i.Grant(ctx, r)
					gone <- err
				}()
				synctest.Wait()
				time.Sleep(time.Second)
				h.lock.On("Transfer", fault)
				released := make(chan error, 1)
				go func() {
					_, err := i.Release(t.Context(), g.Token)
					released <- err
				}()
				<-slow.begun
				leave()
				<-gone
				time.AfterFunc(time.Second, func() { close(slow.resume) })
				again, err := i.Grant(t.Context(), r)
				<-released
				switch {
				case errors.Is(err, locking.ErrLost): // it was handed over, and has ended
				case err != nil:
					t.Errorf("the repeat got %v", err)
				default:
					time.Sleep(30 * time.Second)
					if err := i.Renew(t.Context(), time.Minute, []fencing.Token{again.Token})[0]; err != nil {
						t.Errorf("the hold of the repeat was ended by the clean-up: %v", err)
					}
					if m, err := h.fence.Fence.Mark(t.Context(), resource); err != nil || m.Current(again.Token) != nil {
						t.Errorf("the mark is %v, %v", m, err)
					}
				}
			})
		})
	}
}

// TestPanicLeavesTheLine: a handler that panics, and is recovered by a server, leaves no place
// behind that nobody stands at.
func TestPanicLeavesTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		boom := true
		i := newIssuer(t, h.lock, &locking.IssuerOptions{OnEvent: func(e fencing.Event) {
			if boom && e.Kind == fencing.EventGranted {
				boom = false
				panic("a handler's bug")
			}
		}}, h.fence)
		func() {
			defer func() { _ = recover() }() // what echo's Recover or net/http does
			r := request()
			r.Wait = -1
			r.TTL = time.Second
			_, _ = i.Grant(t.Context(), r)
		}()
		time.Sleep(time.Minute)
		r := request()
		r.Wait = time.Hour
		_, err := i.Grant(t.Context(), r)
		if err != nil {
			st, _ := i.Status(t.Context(), resource)
			t.Errorf("an hour in line for a free lock (%+v): %v", st, err)
		}
	})
}

// TestHungHandOver: a release that hangs keeps those who wait for a bounded time.
func TestHungHandOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		i := h.issuers[0]
		r := request()
		r.TTL = time.Second
		g, err := i.Grant(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		h.lock.On("Transfer", lockingtest.Hang)
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		start := time.Now()
		done := make(chan struct{}, 2)
		for range 2 {
			go func() {
				r := request()
				r.Wait = 5 * time.Second
				_, err := i.Grant(t.Context(), r)
				t.Logf("Wait 5s, holder's TTL 1s: after %v: %v", time.Since(start), err)
				if time.Since(start) > 10*time.Second {
					t.Error("hung")
				}
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		go func() { _, err := i.Release(ctx, g.Token); t.Logf("release: %v after %v", err, time.Since(start)) }()
		<-done
		<-done
		synctest.Wait()
	})
}

// TestRepeatOfTheHolder: a holder whose reply was lost does not stand in line behind those who
// wait for its own hold.
func TestRepeatOfTheHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		i := h.issuers[0]
		r := request()
		r.Wait = 10 * time.Second
		if _, err := i.Grant(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go func() { r := request(); r.Wait = -1; _, _ = i.Grant(ctx, r) }()
		synctest.Wait()
		if _, err := i.Grant(t.Context(), r); err != nil {
			t.Errorf("a repeat by the holder, whose reply was lost: %v", err)
		}
		stop()
		synctest.Wait()
	})
}

// TestReleaseCleansUpForNobody: what is left of a waiter that went away is not ended on the
// time of the holder that releases.
func TestReleaseCleansUpForNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 1)
		slow := &slowTransfer{FlakyLine: h.lock, begun: make(chan struct{}), resume: make(chan struct{})}
		i := newIssuer(t, slow, nil, h.fence)
		l, err := locking.New(i, &locking.Options{ReleaseTimeout: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := l.Acquire(t.Context(), resource)
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { r := request(); r.Wait = -1; _, err := i.Grant(ctx, r); gone <- err }()
		synctest.Wait()
		start := time.Now()
		released := make(chan error, 1)
		go func() { released <- lease.Release(t.Context()) }()
		<-slow.begun
		leave()
		<-gone
		h.fence.On("Evict", lockingtest.Hang)
		h.lock.On("Release", lockingtest.Hang)
		h.lock.On("Leave", lockingtest.Hang)
		close(slow.resume)
		err = <-released
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Errorf("ReleaseTimeout 100ms: Release took %v, %v", took, err)
		}
		time.Sleep(time.Minute) // until the clean-up has given up
	})
}
