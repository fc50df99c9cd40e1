package storagetest

import (
	"context"
	"errors"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// updateWithKey: a transaction with a key is committed once; sent again, its function is not called.
func updateWithKey(r *run) {
	t5 := r.held(5)
	in := t5.Resource
	calls := 0
	once := func(key, value string, end error, tokens ...fencing.Token) (bool, error) {
		return r.h.UpdateOnce(r.Context(), r.s, key, func(_ context.Context, write func(resource, key string, value []byte) error) error {
			calls++
			if err := write(in, "a", []byte(value)); err != nil {
				return err
			}
			return end
		}, tokens...)
	}
	want := func(what string, replayed bool, err error, wantReplayed bool, wantCalls int, value string) {
		r.Helper()
		if err != nil || replayed != wantReplayed || calls != wantCalls {
			r.Errorf("%s: got replayed = %t, %v after %d calls, want %t after %d", what, replayed, err, calls, wantReplayed, wantCalls)
		}
		if got := r.read(in, "a"); got != value {
			r.Errorf("%s: got the value %q, want %q", what, got, value)
		}
	}

	// What fails, and what the fence refuses, leaves no record.
	mine := errors.New("mine")
	if _, err := once("k", "undone", mine, t5); !errors.Is(err, mine) || fencing.OutcomeOf(err) != fencing.Failed {
		r.Errorf("got %v (%v), want the function's own error, failed", err, fencing.OutcomeOf(err))
	}
	old := token(in, 4)
	_, err := once("k", "stale", nil, old)
	r.wantStale(err, old, 5, fencing.Superseded)
	if calls != 1 {
		r.Errorf("got %d calls, want 1: the fence comes before the function", calls)
	}

	replayed, err := once("k", "first", nil, t5)
	want("first", replayed, err, false, 2, "first")
	replayed, err = once("k", "second", nil, t5)
	want("again", replayed, err, true, 2, "first")
	t6 := r.raised(in, 6)
	replayed, err = once("k", "third", nil, t6)
	want("with a later token", replayed, err, true, 2, "first")
	replayed, err = once("k", "fourth", nil, t5)
	want("with a stale token", replayed, err, true, 2, "first")
	replayed, err = once("k2", "fifth", nil, t6)
	want("under another key", replayed, err, false, 3, "fifth")

	// The keys are those of commits, and other resources are another payload.
	r.wantKeyReused(in, "k", sale(in), t6)
	other := r.held(1) // its name sorts behind
	_, err = once("k", "reused", nil, t6, other)
	r.wantRefused(err, storage.RefusedError{Op: storage.NoOp, Resource: in, Key: "k", Reason: storage.ErrKeyReused})
	r.keyed("commit", sale(in), t6)
	_, err = once("commit", "reused", nil, t6)
	r.wantRefused(err, storage.RefusedError{Op: storage.NoOp, Resource: in, Key: "commit", Reason: storage.ErrKeyReused})
	for _, key := range []string{"", "a/b"} {
		_, err = once(key, "bad", nil, t6)
		r.wantInvalid(err, "the idempotency key "+key)
	}
	want("the end", false, nil, false, 3, "fifth")
}
