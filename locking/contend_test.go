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
	"github.com/fencegate/fencegate/locking/memlock"
)

// TestReissueKeepsItsPlace: the lock store has forgotten its counter and others wait. The
// one whose turn it is gets its higher number at once, and not behind the others, who
// wait for the very hold that it has.
func TestReissueKeepsItsPlace(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(d *desk){
		"counter lost": func(d *desk) {
			mark := fencing.Token{Resource: resource, Number: 1000, Grant: fencing.NewGrant()}
			if err := d.fence.Fence.Raise(d.Context(), mark); err != nil {
				d.Fatal(err)
			}
		},
		"reply lost": func(d *desk) { d.lock.On("TryAcquire", lockingtest.LoseReply) },
		"raise lost": func(d *desk) { d.fence.On("Raise", lockingtest.LoseCall) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				d.i = newIssuer(t, d.lock, nil, &slowFence{Fence: d.fence, by: 5 * time.Millisecond})
				fault(d)
				start := time.Now()
				const waiters = 4
				done := make(chan error, waiters)
				for range waiters {
					go func() {
						r := request()
						r.Wait = 2 * time.Second
						g, err := d.i.Grant(t.Context(), r)
						if err == nil {
							_, err = d.i.Release(t.Context(), g.Token)
						}
						done <- err
					}()
				}
				for range waiters {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(start); took > 500*time.Millisecond {
					t.Errorf("%d grants took %v", waiters, took)
				}
			})
		})
	}
}

// TestRepeatWaitsForTheFirst: a repeat of a grant that is still under way gets the same
// hold, and what the first does when it is cancelled does not touch it.
func TestRepeatWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.i = newIssuer(t, d.lock, nil, &slowFence{Fence: d.fence, by: time.Second})
		r := request()
		first := make(chan locking.Granted, 1)
		go func() {
			g, err := d.i.Grant(t.Context(), r)
			if err != nil {
				t.Error(err)
			}
			first <- g
		}()
		synctest.Wait()
		again, err := d.i.Grant(t.Context(), r)
		if err != nil || again.Token != (<-first).Token || d.mark().Current(again.Token) != nil {
			t.Fatalf("the repeat got %v, %v under the mark %v", again.Token, err, d.mark())
		}
		d.wantRaisedOnce()

		r = request()
		r.Resource = resource
		if _, err := d.i.Release(t.Context(), again.Token); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		d.fence.On("Raise", lockingtest.Hang)
		go func() { _, _ = d.i.Grant(ctx, r) }()
		synctest.Wait()
		repeat := make(chan error, 1)
		go func() {
			_, err := d.i.Grant(t.Context(), r)
			repeat <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-repeat; !errors.Is(err, locking.ErrLost) {
			t.Fatalf("the repeat of a cancelled grant got %v, want ErrLost", err)
		}
		d.wantFree()
	})
}

// TestRepeatThroughAnotherIssuer: two gateways handle one grant at the same time. Neither
// may outbid the other: the token that was delivered stays the mark.
func TestRepeatThroughAnotherIssuer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lock, store := memlock.New(), newStore(t)
		slow := newIssuer(t, lock, nil, &slowFence{Fence: store, by: time.Second})
		quick := newIssuer(t, lock, nil, store)
		r := request()
		first := make(chan locking.Granted, 1)
		go func() {
			g, err := slow.Grant(t.Context(), r)
			if err != nil {
				t.Error(err)
			}
			first <- g
		}()
		synctest.Wait()
		again, err := quick.Grant(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if g := <-first; g.Token != again.Token {
			t.Errorf("the first got %v, its repeat %v", g.Token, again.Token)
		}
		if m, err := store.Mark(t.Context(), resource); err != nil || m.Current(again.Token) != nil {
			t.Errorf("the delivered token %v is not the mark, %v", again.Token, m)
		}
		if freed, err := quick.Release(t.Context(), again.Token); !freed || err != nil {
			t.Errorf("Release = %v, %v, want the hold to be that of the delivered token", freed, err)
		}
	})
}

// TestHalfDoneIsUnknown: once a step took effect, nobody may be told that nothing happened.
func TestHalfDoneIsUnknown(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	g, err := d.i.Grant(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	d.lock.On("Evict", lockingtest.FailBefore)
	err = d.i.Evict(t.Context(), resource, g.Token.Number, "a test")
	if fencing.OutcomeOf(err) != fencing.Unknown || errors.Is(err, fencing.ErrFailed) || !d.mark().Retired {
		t.Errorf("Evict = %v (%v) with the mark %v, want unknown", err, fencing.OutcomeOf(err), d.mark())
	}
	if err := d.i.Evict(t.Context(), resource, g.Token.Number, "again"); err != nil {
		t.Error(err)
	}

	for _, fault := range []func(){
		func() { d.fence.On("Retire", lockingtest.FailBefore) }, // freed all the same
		func() { d.lock.On("Release", lockingtest.FailBefore) }, // retired all the same
	} {
		g, err := d.i.Grant(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		fault()
		if _, err = d.i.Release(t.Context(), g.Token); fencing.OutcomeOf(err) != fencing.Unknown {
			t.Errorf("Release = %v (%v), want unknown", err, fencing.OutcomeOf(err))
		}
		if _, err := d.i.Release(t.Context(), g.Token); err != nil {
			t.Error(err)
		}
	}
}

// TestDoNeverSaysFailedOfDoneWork: the work was done; that the release failed must not
// make anybody do it again.
func TestDoNeverSaysFailedOfDoneWork(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	l, err := locking.New(d.i, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []func(fencing.Token){
		func(fencing.Token) {
			d.fence.On("Retire", lockingtest.FailBefore)
			d.lock.On("Release", lockingtest.FailBefore)
		},
		func(tok fencing.Token) { _ = d.i.Evict(t.Context(), resource, tok.Number, "a test") },
	} {
		var tok fencing.Token
		err := l.Do(t.Context(), resource, func(_ context.Context, held fencing.Token) error {
			tok = held
			spoil(held)
			return nil
		})
		if err == nil || fencing.OutcomeOf(err) != fencing.Unknown || errors.Is(err, fencing.ErrFailed) {
			t.Errorf("Do = %v (%v), want an unknown outcome", err, fencing.OutcomeOf(err))
		}
		_, _ = d.i.Release(t.Context(), tok)
	}
}
