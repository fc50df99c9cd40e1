package redislock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
)

func TestTransfer(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	next := request(l.name)
	next.TTL, next.Label = 20*time.Second, "next"
	h, err := l.holder.Transfer(t.Context(), l.held, next)
	want := fencing.Token{Resource: l.name, Number: 2, Grant: next.Grant}
	if err != nil || h.Token != want || !h.Drawn || h.Remaining != next.TTL {
		t.Fatalf("Transfer = %v, drawn %t, for %v, %v, want %v", h.Token, h.Drawn, h.Remaining, err, want)
	}
	l.wantStatus("next", 0)
	wantLeft(t, l.redis, l.name, 10*time.Second, next.TTL)
	if again := must(t, l.holder, next); again.Token != want || again.Drawn {
		t.Errorf("asked again: got %v, drawn %t, want %v", again.Token, again.Drawn, want)
	}
	if err := l.holder.Renew(t.Context(), minute, []fencing.Token{l.held})[0]; !errors.Is(err, locking.ErrLost) {
		t.Errorf("the former holder renews: got %v, want ErrLost", err)
	}
	if freed, err := l.holder.Release(t.Context(), l.held); freed || err != nil {
		t.Errorf("the former holder releases: got %t, %v", freed, err)
	}
	if _, err := l.holder.Transfer(t.Context(), l.held, request(l.name)); !errors.Is(err, locking.ErrLost) {
		t.Errorf("from a hold that has ended: got %v, want ErrLost", err)
	}
	floor := request(l.name)
	floor.Floor = 41
	if h, err := l.holder.Transfer(t.Context(), want, floor); err != nil || h.Token.Number != 42 {
		t.Errorf("above a floor: got %v, %v, want 42", h.Token, err)
	}
}

// TestTransferAndTheLine: it comes before everybody, takes its place along, and the line
// moves on afterwards.
func TestTransferAndTheLine(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	a, b := l.join("a"), l.join("b")
	h, err := b.Transfer(t.Context(), l.held, b.r)
	if err != nil {
		t.Fatal(err)
	}
	l.wantStatus("b", 1)
	a.waits("b")
	b.release(h.Token)
	l.wantStatus("a", 0)
	h = a.gets()
	c, d := l.join("c"), request(l.name)
	h, err = a.Transfer(t.Context(), h.Token, d) // one without a place
	if err != nil {
		t.Fatal(err)
	}
	l.wantStatus(d.Label, 1)
	a.release(h.Token)
	c.gets()
}

// TestTransferFromAPush: what was pushed and then handed over counts as claimed.
func TestTransferFromAPush(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	a, b := l.join("a"), l.member("b")
	l.release()
	pushed := fencing.Token{Resource: l.name, Number: 2, Grant: a.r.Grant}
	if _, err := a.Transfer(t.Context(), pushed, b.r); err != nil {
		t.Fatal(err)
	}
	if h, err := b.join(); err != nil || h.Drawn {
		t.Errorf("got %v, drawn %t, %v, want the same again", h.Token, h.Drawn, err)
	}
	l.expire()
	b.lost()
}

func TestTransferIsRefused(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	r := request(l.name)
	otherNumber, otherGrant, otherName, same := l.held, l.held, l.held, r
	otherNumber.Number++
	otherGrant.Grant = fencing.NewGrant()
	otherName.Resource += "x"
	same.Grant = l.held.Grant
	top := r
	top.Floor = fencing.MaxNumber
	for name, c := range map[string]struct {
		from fencing.Token
		r    locking.Request
		want error
	}{
		"another number":   {otherNumber, r, locking.ErrLost},
		"another grant":    {otherGrant, r, locking.ErrLost},
		"another resource": {otherName, r, fencing.ErrInvalid},
		"the same grant":   {l.held, same, fencing.ErrInvalid},
		"no token":         {fencing.Token{}, r, fencing.ErrInvalid},
		"no request":       {l.held, locking.Request{}, fencing.ErrInvalid},
		"no number left":   {l.held, top, locking.ErrExhausted},
	} {
		if h, err := l.holder.Transfer(t.Context(), c.from, c.r); !errors.Is(err, c.want) || fencing.OutcomeOf(err) != fencing.Refused {
			t.Errorf("%s: Transfer = %v, %v, want %v", name, h.Token, err, c.want)
		}
	}
	st, err := l.holder.Status(t.Context(), l.name)
	if err != nil || st.Number != 1 || st.Label != "holder" {
		t.Errorf("Status = %+v, %v, want nothing changed", st, err)
	}
	renewed(t, l.holder, minute, l.held)
	l.expire()
	if _, err := l.holder.Transfer(t.Context(), l.held, r); !errors.Is(err, locking.ErrLost) {
		t.Errorf("from a hold that has expired: got %v, want ErrLost", err)
	}
	l.wantStatus("", 0)
}
