package lockingtest

import (
	"errors"
	"time"

	"github.com/fencegate/fencegate/locking"
)

func numbersIncrease(t *backendTest) {
	h := t.must(t.request())
	t.wantNumber(h, 1)
	if !h.Drawn || h.Remaining <= 0 || h.Remaining > long {
		t.Fatalf("got drawn %v, remaining %v, want a fresh hold of %v", h.Drawn, h.Remaining, long)
	}
	t.release(h.Token, true)

	r := t.request()
	r.TTL = short
	h = t.must(r)
	t.wantNumber(h, 2)
	t.untilFree()

	h = t.must(t.request())
	t.wantNumber(h, 3)
	if err := t.b.Evict(t.Context(), t.resource, 3); err != nil {
		t.Fatal(err)
	}
	t.wantNumber(t.must(t.request()), 4)
}

func floorIsExceeded(t *backendTest) {
	r := t.request()
	r.Floor = 32
	h := t.must(r)
	t.wantNumber(h, 33)
	t.release(h.Token, true)
	r = t.request()
	r.Floor = 5
	t.wantNumber(t.must(r), 34)
}

func heldByAnother(t *backendTest) {
	h := t.must(t.request())
	_, err := t.try(t.request())
	held, ok := errors.AsType[*locking.HeldError](err)
	if !ok {
		t.Fatalf("got %v, want a *HeldError", err)
	}
	if held.Resource != t.resource || held.Number != h.Token.Number || held.Label != "tester" || held.Remaining <= 0 || held.Remaining > long {
		t.Fatalf("got %+v, want the holder's number, label and remaining time", held)
	}
	r := t.request()
	r.Floor = 100
	_, err = t.try(r)
	t.wantErr(err, locking.ErrHeld)
	if st := t.status(); st.Number != h.Token.Number {
		t.Fatalf("a refused attempt moved the number to %d", st.Number)
	}
}

func sameGrantSameHold(t *backendTest) {
	r := t.request()
	r.TTL = 20 * time.Second
	first := t.must(r)
	r.TTL = long
	again := t.must(r)
	if again.Token != first.Token || again.Drawn {
		t.Fatalf("got %v (drawn %v), want %v again, not drawn", again.Token, again.Drawn, first.Token)
	}
	if again.Remaining > 20*time.Second {
		t.Fatalf("the repeat extended the hold to %v", again.Remaining)
	}
}

func sameGrantAboveFloor(t *backendTest) {
	r := t.request()
	r.TTL = 20 * time.Second
	first := t.must(r)
	r.TTL, r.Floor = long, first.Token.Number
	next := t.must(r)
	t.wantNumber(next, 2)
	if !next.Drawn || next.Token.Grant != r.Grant {
		t.Fatalf("got drawn %v, want the same grant under a number that this call drew", next.Drawn)
	}
	if next.Remaining > 20*time.Second {
		t.Fatalf("the re-issue extended the hold to %v", next.Remaining)
	}
	if again := t.must(r); again.Token != next.Token || again.Drawn {
		t.Fatalf("got %v (drawn %v), want %v again, not drawn", again.Token, again.Drawn, next.Token)
	}
	t.release(first.Token, false)
	t.release(next.Token, true)
}

func endedGrantIsLost(t *backendTest) {
	r := t.request()
	h := t.must(r)
	t.release(h.Token, true)
	_, err := t.try(r)
	t.wantErr(err, locking.ErrLost)
	r.Floor = 100
	_, err = t.try(r)
	t.wantErr(err, locking.ErrLost)

	r = t.request()
	r.TTL = short
	t.must(r)
	t.untilFree()
	_, err = t.try(r)
	t.wantErr(err, locking.ErrLost)

	r = t.request()
	h = t.must(r)
	if err := t.b.Evict(t.Context(), t.resource, h.Token.Number); err != nil {
		t.Fatal(err)
	}
	_, err = t.try(r)
	t.wantErr(err, locking.ErrLost)
	if st := t.status(); st.Held {
		t.Fatal("the lock is held by a grant that has ended")
	}
}
