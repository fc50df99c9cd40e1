package storagetest

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// endedContext: a call with a context that has ended is an error, and if that says that
// nothing happened, nothing has.
func endedContext(r *run) {
	t := r.held(5)
	r.put(t, "a", "1")
	before := r.image(t.Resource)
	ended, cancel := context.WithCancel(r.Context())
	cancel()
	next := token(t.Resource, 6)
	for name, call := range map[string]func() error{
		"commit": func() error {
			_, err := r.s.Store.Commit(ended, storage.Commit{
				Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Put(t.Resource, "a", []byte("2"))},
			})
			return err
		},
		"raise":  func() error { return r.s.Fence.Raise(ended, next) },
		"evict":  func() error { return r.s.Fence.Evict(ended, next) },
		"retire": func() error { return r.s.Fence.Retire(ended, t) },
		"fenced read": func() error {
			_, err := r.s.Store.GetFenced(ended, t, "a")
			return err
		},
		"read": func() error {
			_, err := r.s.Store.Get(ended, t.Resource, "a")
			return err
		},
		"list": func() error {
			_, err := r.s.Store.List(ended, t.Resource, "", "", 10)
			return err
		},
		"mark": func() error {
			_, err := r.s.Store.Mark(ended, t.Resource)
			return err
		},
	} {
		err := call()
		switch outcome := fencing.OutcomeOf(err); {
		case errors.Is(err, storage.ErrNotFound):
			r.Errorf("%s: got %v, want the context's error", name, err)
		case outcome == fencing.Unknown:
			before = r.image(t.Resource) // it may have happened
		case outcome != fencing.Failed:
			r.Errorf("%s: got %v (%v), want an error that is failed or unknown", name, err, outcome)
		default:
			r.wantImage(before, t.Resource)
		}
	}
}

// endingContext ends contexts at any moment of a commit. Those applied are in the sum,
// those failed are not, the unknown may be.
func endingContext(r *run) {
	t := r.held(5)
	var applied, unknown int64
	for i := range 40 {
		ctx, cancel := context.WithTimeout(r.Context(), time.Duration(i)*60*time.Microsecond)
		_, err := r.s.Store.Commit(ctx, storage.Commit{
			Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Add(t.Resource, "sum", 1, 0)},
		})
		cancel()
		switch fencing.OutcomeOf(err) {
		case fencing.Applied:
			applied++
		case fencing.Unknown:
			unknown++
		case fencing.Failed:
		case fencing.Refused:
			r.Errorf("got %v, want anything but refused", err)
		}
	}
	// An attempt whose reply was lost may still be under way: the sum may grow yet, but
	// never above what was applied or is unknown.
	rec, err := r.s.Store.Get(r.Context(), t.Resource, "sum")
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		r.Fatalf("get: %v", err)
	}
	sum, _ := storage.ParseCounter(rec.Value)
	if sum < applied || sum > applied+unknown {
		r.Errorf("got the sum %d after %d applied and %d unknown", sum, applied, unknown)
	}
}
