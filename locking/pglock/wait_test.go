package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
)

// processes returns backends on one database, each with a pool of its own.
func processes(tb testing.TB, n int, o *pglock.Options) (list []*pglock.Backend, owner *pgxpool.Pool) {
	tb.Helper()
	url := pgtxtest.Database(tb)
	for range n {
		b, err := pglock.New(tb.Context(), pgtxtest.Open(tb, url, gateway), o)
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, b)
	}
	return list, pgtxtest.Open(tb, url)
}

// waiter is a request that waits, and where it is woken.
type waiter struct {
	locking.Request
	b    *pglock.Backend
	wake chan struct{}
}

func newWaiter(b *pglock.Backend, r locking.Request) *waiter {
	return &waiter{next(r), b, make(chan struct{}, 1)}
}

func (w *waiter) join(ctx context.Context) (locking.Hold, error) {
	return w.b.Join(ctx, w.Request, func() {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	})
}

// takesPlace joins where the lock is held, and leaves at the end of the test: else the
// backend would go on listening.
func (w *waiter) takesPlace(tb testing.TB) *waiter {
	tb.Helper()
	tb.Cleanup(func() { _ = w.b.Leave(context.WithoutCancel(tb.Context()), w.Request) })
	w.held(tb)
	return w
}

func (w *waiter) held(tb testing.TB) locking.HeldError {
	tb.Helper()
	h, err := w.join(tb.Context())
	held, ok := errors.AsType[*locking.HeldError](err)
	if !ok {
		tb.Fatalf("Join = %v, %v, want a *HeldError", h.Token, err)
	}
	return *held
}

func (w *waiter) granted(tb testing.TB, number int64, drawn bool) locking.Hold {
	tb.Helper()
	h, err := w.join(tb.Context())
	if err != nil || h.Token.Number != number || h.Drawn != drawn || h.Token.Grant != w.Grant {
		tb.Fatalf("Join = %v, drawn %t, %v, want number %d, drawn %t", h.Token, h.Drawn, err, number, drawn)
	}
	return h
}

func (w *waiter) woken(tb testing.TB) {
	tb.Helper()
	select {
	case <-w.wake:
	case <-time.After(testPatience):
		tb.Fatal("nobody was woken")
	}
}

// wait joins until it is granted or refused, as an issuer does, and counts its calls.
func (w *waiter) wait(ctx context.Context) (h locking.Hold, calls int, err error) {
	for {
		calls++
		h, err = w.join(ctx)
		held, ok := errors.AsType[*locking.HeldError](err)
		if !ok {
			return h, calls, err
		}
		look := locking.LookEvery
		if held.Remaining > 0 {
			look = min(look, held.Remaining+time.Millisecond)
		}
		select {
		case <-w.wake:
		case <-time.After(look):
		case <-ctx.Done():
			return h, calls, ctx.Err()
		}
	}
}

func release(tb testing.TB, b locking.Backend, t fencing.Token) {
	tb.Helper()
	if freed, err := b.Release(tb.Context(), t); !freed || err != nil {
		tb.Fatalf("release of %v: %t, %v", t, freed, err)
	}
}

func status(tb testing.TB, b locking.Backend, resource string) locking.Status {
	tb.Helper()
	st, err := b.Status(tb.Context(), resource)
	if err != nil {
		tb.Fatal(err)
	}
	return st
}

// ages makes every place of the resource, or that of one grant, as old as is said.
func ages(tb testing.TB, owner *pgxpool.Pool, r locking.Request, age time.Duration) {
	tb.Helper()
	exec(tb, owner, "update fencegate.lock_waiters set seen = clock_timestamp() - $3 * interval '1 ms' where resource = $1 and ($2 = '' or grant_id = $2)",
		r.Resource, r.Grant, age.Milliseconds())
}

// expires lets the hold of a resource end in so long, as if its TTL had been shorter.
func expires(tb testing.TB, owner *pgxpool.Pool, resource string, in time.Duration) {
	tb.Helper()
	exec(tb, owner, "update fencegate.locks set expires_at = clock_timestamp() + $2 * interval '1 ms' where resource = $1", resource, in.Milliseconds())
}

// TestFirstComeFirstServed: three processes, nine waiters, one line.
func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	list, _ := processes(t, 3, nil)
	r := request(t)
	tok := acquire(t, list[0], r).Token
	var line []*waiter
	for i := range 9 {
		line = append(line, newWaiter(list[i%3], r).takesPlace(t))
	}
	for i, w := range line {
		if st := status(t, w.b, r.Resource); st.Waiters != len(line)-i {
			t.Errorf("%d wait, want %d", st.Waiters, len(line)-i)
		}
		release(t, list[i%2], tok)
		w.woken(t)
		for _, other := range line[i+1:] {
			if held := other.held(t); held.Number != int64(i+2) {
				t.Errorf("held: %+v, want number %d", held, i+2)
			}
		}
		h := w.granted(t, int64(i+2), true)
		if h.Remaining != w.TTL {
			t.Errorf("the hold lasts %v, want %v", h.Remaining, w.TTL)
		}
		if st := status(t, w.b, r.Resource); !st.Held || st.Remaining < w.TTL/2 {
			t.Errorf("after the claim: %+v, want a hold for the whole TTL", st)
		}
		tok = h.Token
	}
	release(t, list[2], tok)
	if st := status(t, list[0], r.Resource); st.Held || st.Waiters != 0 {
		t.Errorf("at the end: %+v, want a free lock and nobody in line", st)
	}
}

// TestHandOverNeedsNoLooks: one call to get in line, one because listening began after it,
// one for the lock.
func TestHandOverNeedsNoLooks(t *testing.T) {
	t.Parallel()
	list, _ := processes(t, 2, nil)
	r := request(t)
	tok := acquire(t, list[0], r).Token
	w := newWaiter(list[1], r).takesPlace(t)
	w.woken(t)
	w.held(t)
	release(t, list[0], tok)
	w.woken(t)
	w.granted(t, 2, true)
}

// TestDeadArePassedOver: also those whose last Join lies in the future, for the clock was set
// back. They take a new place when they come back.
func TestDeadArePassedOver(t *testing.T) {
	t.Parallel()
	for name, age := range map[string]time.Duration{"past": 5100 * time.Millisecond, "future": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, owner := fresh(t)
			r := request(t)
			tok := acquire(t, b, r).Token
			dead, alive, last := newWaiter(b, r).takesPlace(t), newWaiter(b, r).takesPlace(t), newWaiter(b, r).takesPlace(t)
			ages(t, owner, dead.Request, age)
			if st := status(t, b, r.Resource); st.Waiters != 2 {
				t.Errorf("%d wait, want those two who are alive", st.Waiters)
			}
			if l, err := b.List(t.Context(), r.Resource, "", 1); err != nil || len(l) != 1 || l[0].Waiters != 2 {
				t.Errorf("list: %+v, %v, want 2 waiters", l, err)
			}
			release(t, b, tok)
			dead.held(t)
			tok = alive.granted(t, 2, true).Token
			release(t, b, tok)
			dead.held(t)
			tok = last.granted(t, 3, true).Token
			release(t, b, tok)
			dead.granted(t, 4, true)
		})
	}
}

// TestAPlaceIsKept: whoever asks again before anybody noticed how old its place is keeps it.
func TestAPlaceIsKept(t *testing.T) {
	t.Parallel()
	b, owner := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	slow, quick := newWaiter(b, r).takesPlace(t), newWaiter(b, r).takesPlace(t)
	ages(t, owner, slow.Request, time.Hour)
	slow.held(t)
	release(t, b, tok)
	quick.held(t)
	slow.granted(t, 2, true)
}

// TestAllDead: the lock is free for whoever asks, and the dead are forgotten.
func TestAllDead(t *testing.T) {
	t.Parallel()
	b, owner := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	for range 3 {
		newWaiter(b, r).takesPlace(t)
	}
	ages(t, owner, locking.Request{Resource: r.Resource}, time.Minute)
	release(t, b, tok)
	if st := status(t, b, r.Resource); st.Held {
		t.Errorf("got %+v, want a free lock", st)
	}
	acquire(t, b, next(r))
	var n int
	if err := owner.QueryRow(t.Context(), "select count(*) from fencegate.lock_waiters").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d places are left, %v", n, err)
	}
}

// TestLeave: with a place, with a lock that it was given, with one that it holds.
func TestLeave(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	leave := func(w *waiter) {
		t.Helper()
		for range 2 {
			if err := b.Leave(t.Context(), w.Request); err != nil {
				t.Fatal(err)
			}
		}
	}
	first, second, third := newWaiter(b, r).takesPlace(t), newWaiter(b, r).takesPlace(t), newWaiter(b, r).takesPlace(t)
	leave(first)
	release(t, b, tok)
	leave(second) // has been given the lock
	third.woken(t)
	h := third.granted(t, 3, true)
	leave(third) // has asked for it
	if st := status(t, b, r.Resource); !st.Held || st.Number != 3 || st.Waiters != 0 {
		t.Errorf("got %+v, want number 3 held", st)
	}
	third.granted(t, 3, false)
	release(t, b, h.Token)
	leave(newWaiter(b, request(t))) // never locked
}

// TestLeaveCannotBeReached: its place ends by itself, and wake is not called any more.
func TestLeaveCannotBeReached(t *testing.T) {
	t.Parallel()
	list, _ := processes(t, 2, nil)
	r := request(t)
	tok := acquire(t, list[0], r).Token
	w := newWaiter(list[1], r).takesPlace(t)
	other := newWaiter(list[1], r).takesPlace(t)
	other.woken(t)
	w.woken(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := list[1].Leave(ctx, w.Request); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("got %v (%v), want failed", err, fencing.OutcomeOf(err))
	}
	release(t, list[0], tok)
	other.woken(t) // by the same word
	select {
	case <-w.wake:
		t.Error("wake was called after Leave")
	default:
	}
	h, _, err := other.wait(t.Context())
	if err != nil || h.Token.Number != 3 {
		t.Errorf("the next one got %v, %v, want number 3", h.Token, err)
	}
}

// TestKeepingAPlaceLocksNothing: neither the holder's renewal nor a stuck call gets into the way
// of those in line; who is not in line yet waits for a bounded time.
func TestKeepingAPlaceLocksNothing(t *testing.T) {
	t.Parallel()
	b, owner := fresh(t)
	r := request(t)
	acquire(t, b, r)
	w := newWaiter(b, r).takesPlace(t)
	end := hold(t, owner, r.Resource)
	if held := w.held(t); held.Number != 1 {
		t.Errorf("got %+v, want the holder's number", held)
	}
	late := newWaiter(b, r).takesPlace(t)
	if held := late.held(t); held.Number != 0 || held.Remaining != 0 {
		t.Errorf("got %+v, want a *HeldError that knows nothing", held)
	}
	end()
	late.held(t)
	if st := status(t, b, r.Resource); st.Waiters != 2 {
		t.Errorf("%d wait, want 2", st.Waiters)
	}
}

// TestManyLocksInLine: every resource has a line of its own.
func TestManyLocksInLine(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	base := request(t)
	var line []*waiter
	var tokens []fencing.Token
	for i := range 5 {
		r := next(base)
		r.Resource = fmt.Sprintf("%s-%d", base.Resource, i)
		tokens = append(tokens, acquire(t, b, r).Token)
		line = append(line, newWaiter(b, r).takesPlace(t))
	}
	for i, w := range line {
		release(t, b, tokens[i])
		for _, other := range line[i+1:] {
			other.held(t)
		}
		w.granted(t, 2, true)
	}
}
