package failovertest_test

import (
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
)

// holder holds a lock over a fault, and does not look at its lease.
type holder struct {
	*log
	b     bench
	lease *locking.Lease
	tok   fencing.Token
	last  seen // what it has read or written last
}

// hold takes the lock of a new resource, reads and writes.
func (l *log) hold(b bench) *holder {
	l.Helper()
	lease, err := b.locker.Acquire(l.Context(), testenv.Unique(l, "held-"+b.name))
	if err != nil {
		l.Fatal(err)
	}
	h := &holder{log: l, b: b, lease: lease, tok: lease.Token()}
	if h.last, err = l.read(l.Context(), b, h.tok); err != nil {
		l.Fatal(err)
	}
	h.goOn()
	return h
}

// goOn writes once more, which must be acknowledged.
func (h *holder) goOn() {
	h.Helper()
	now, err := h.write(h.Context(), h.b, h.tok, h.tok.Resource, h.last)
	if err != nil {
		h.Fatalf("a holder's write: %v", err)
	}
	h.last = now
}

// wantEnded: whatever the holder does with what it has read is refused, and whoever comes
// next has a higher number and goes on from what the store has.
func (h *holder) wantEnded() {
	h.Helper()
	h.wantStale("a write", func() error {
		_, err := h.write(h.Context(), h.b, h.tok, h.tok.Resource, h.last)
		return err
	})
	h.wantStale("a fenced read", func() error {
		_, err := h.read(h.Context(), h.b, h.tok)
		return err
	})
	h.wantStale("a raise", func() error { return h.b.store.Raise(h.Context(), h.tok) })
	_ = h.lease.Release(h.Context()) // a lease that was lost meanwhile says so
	var next *locking.Lease
	err := h.insist(func() (err error) {
		next, err = h.b.locker.Acquire(h.Context(), h.tok.Resource)
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	if next.Token().Number <= h.tok.Number {
		h.Errorf("%s lock: the new number is %d, the earlier one was %d", h.b.name, next.Token().Number, h.tok.Number)
	}
	err = h.insist(func() error {
		was, err := h.read(h.Context(), h.b, next.Token())
		if err == nil {
			_, err = h.write(h.Context(), h.b, next.Token(), h.tok.Resource, was)
		}
		return err
	})
	if err != nil {
		h.Errorf("%s lock: a write with the new token: %v", h.b.name, err)
	}
	_ = next.Release(h.Context())
}

func (h *holder) wantStale(what string, call func() error) {
	h.Helper()
	err := h.insist(call)
	stale, ok := errors.AsType[*fencing.StaleError](err)
	if !ok || stale.Reason != fencing.Retired {
		h.Errorf("%s lock: %s with the token of before: got %v, want it refused as retired", h.b.name, what, err)
	}
}

// insist repeats a call until the server has answered it: connections of before the fault are
// found to be broken only when they are used.
func (l *log) insist(call func() error) (err error) {
	l.Helper()
	for end := time.Now().Add(healed + slack); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		err = call()
		if o := fencing.OutcomeOf(err); o == fencing.Applied || o == fencing.Refused {
			return err
		}
	}
	l.Fatalf("no answer within %v: %v", healed+slack, err)
	return err
}
