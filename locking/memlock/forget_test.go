package memlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
)

func request(resource string) locking.Request {
	return locking.Request{Resource: resource, Grant: fencing.NewGrant(), TTL: time.Minute}
}

// TestForget forgets one resource: its lock is free and its numbers begin again, and nothing else
// has changed.
func TestForget(t *testing.T) {
	t.Parallel()
	b, ctx := memlock.New(), t.Context()
	b.Forget("coupon:never-seen")
	r := request("coupon:1")
	r.Floor = 32
	first, err := b.TryAcquire(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.TryAcquire(ctx, request("coupon:2"))
	if err != nil {
		t.Fatal(err)
	}
	b.Forget("coupon:1")
	if err := b.Renew(ctx, time.Minute, []fencing.Token{first.Token})[0]; !errors.Is(err, locking.ErrLost) {
		t.Errorf("the hold is still there: got %v", err)
	}
	if st, err := b.Status(ctx, "coupon:1"); err != nil || st != (locking.Status{Resource: "coupon:1"}) {
		t.Errorf("got %+v, %v", st, err)
	}
	again, err := b.TryAcquire(ctx, request("coupon:1"))
	if err != nil || again.Token.Number != 1 || !again.Drawn {
		t.Errorf("got %+v, %v", again, err)
	}
	if err := b.Renew(ctx, time.Minute, []fencing.Token{other.Token})[0]; err != nil {
		t.Errorf("another resource was forgotten, too: %v", err)
	}
}

// TestForgetServesTheLine forgets a lock that somebody waits for: the first in line is woken and gets it.
func TestForgetServesTheLine(t *testing.T) {
	t.Parallel()
	b, ctx := memlock.New(), t.Context()
	if _, err := b.TryAcquire(ctx, request("coupon:1")); err != nil {
		t.Fatal(err)
	}
	waiter, woken := request("coupon:1"), make(chan struct{}, 1)
	wake := func() { woken <- struct{}{} }
	if _, err := b.Join(ctx, waiter, wake); !errors.Is(err, locking.ErrHeld) {
		t.Fatalf("got %v", err)
	}
	b.Forget("coupon:1")
	select {
	case <-woken:
	case <-ctx.Done():
		t.Fatal("nobody was woken")
	}
	b.Forget("coupon:1") // what was given and not asked for yet is forgotten, too
	if h, err := b.Join(ctx, waiter, wake); err != nil || h.Token.Number != 1 {
		t.Errorf("got %+v, %v", h, err)
	}
}
