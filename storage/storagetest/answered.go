package storagetest

import (
	"context"
	"errors"
	"reflect"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// Answered is a Harness.Answered for subjects whose Store is a *storage.Store.
func Answered(ctx context.Context, s Subject, c storage.Commit) (storage.Result, bool, error) {
	store, ok := s.Store.(interface {
		Answered(ctx context.Context, c storage.Commit) (storage.Result, bool, error)
	})
	if !ok {
		return storage.Result{}, false, errors.New("the subject's store has no Answered")
	}
	return store.Answered(ctx, c)
}

// look looks a key up, and wants that to change nothing.
func (r *run) look(key string, ops []storage.Op) (storage.Result, bool, error) {
	r.Helper()
	var resources []string
	for _, op := range ops {
		resources = append(resources, op.Resource)
	}
	before := r.image(resources...)
	res, found, err := r.h.Answered(r.Context(), r.s, storage.Commit{Ops: ops, Key: key})
	r.wantImage(before, resources...)
	return res, found, err
}

func (r *run) wantNoAnswer(key string, ops []storage.Op) {
	r.Helper()
	if res, found, err := r.look(key, ops); found || err != nil {
		r.Errorf("look up %.40s: got %+v, found = %t, %v, want nothing", key, res, found, err)
	}
}

func (r *run) wantAnswer(then storage.Result, key string, ops []storage.Op) {
	r.Helper()
	res, found, err := r.look(key, ops)
	if !found || err != nil || !res.Replayed || !reflect.DeepEqual(res.Ops, then.Ops) {
		r.Errorf("look up %.40s: got %+v, found = %t, %v, want the answer of then, %+v", key, res, found, err, then.Ops)
	}
}

// keyAnswered: what is on record under a key can be looked up without a token, and that changes
// nothing: it raises no mark, and applies nothing, not even where the token could be a guess.
func keyAnswered(r *run) {
	base := r.resource()
	low, high, none := base+"-a", base+"-b", base+"-c"
	add := func(resource string) []storage.Op { return []storage.Op{storage.Add(resource, "n", 1, 0)} }
	r.wantNoAnswer("k", add(none)) // nobody has ever locked it
	r.wantMark(none, fencing.Absent(0))

	t := r.raised(low, 1)
	r.wantNoAnswer("k", add(low))
	then := r.keyed("k", add(low), t)
	r.wantAnswer(then, "k", add(low))
	r.wantNoAnswer("k2", add(low))
	r.wantNoAnswer("k", add(high))

	// Whoever has the lock now, and whether anybody has.
	t = r.raised(low, 7)
	r.wantAnswer(then, "k", add(low))
	r.ok(r.s.Fence.Retire(r.Context(), t), "retire")
	r.wantAnswer(then, "k", add(low))
	r.wantNoAnswer("k2", add(low))

	// Refusals by the data are answers; another commit's key is one, too; those of the fence are none.
	t, h := r.raised(low, 8), r.raised(high, 1)
	less := []storage.Op{storage.Add(low, "n", -5, 0)}
	_, refused := r.tryKeyed("less", less, t)
	_, found, err := r.look("less", less)
	if !found {
		r.Errorf("look up a refusal: got nothing")
	}
	r.wantRefused(err, storage.RefusedError{Resource: low, Key: "n", Reason: storage.ErrBelowMinimum, Have: 1})
	if !reflect.DeepEqual(err, refused) {
		r.Errorf("look up a refusal: got %v, want %v", err, refused)
	}
	_, found, err = r.look("k", less)
	if !found {
		r.Errorf("look up another commit's key: got nothing")
	}
	r.wantRefused(err, storage.RefusedError{Op: storage.NoOp, Resource: low, Key: "k", Reason: storage.ErrKeyReused})
	_, err = r.tryKeyed("stale", add(low), token(low, 2))
	if !errors.Is(err, fencing.ErrStale) {
		r.Errorf("got %v, want stale", err)
	}
	r.wantNoAnswer("stale", add(low))

	// Several resources: the key is the lowest's.
	pair := append(add(high), add(low)...)
	r.wantNoAnswer("both", pair)
	then = r.keyed("both", pair, h, t)
	r.wantAnswer(then, "both", pair)

	for name, c := range map[string]storage.Commit{
		"without a key":   {Ops: add(low)},
		"with a bad key":  {Ops: add(low), Key: "a b"},
		"of nothing":      {Key: "k"},
		"of a bad name":   {Ops: add("a/b"), Key: "k"},
		"of two changes":  {Ops: append(add(low), add(low)...), Key: "k"},
		"of a huge delta": {Ops: []storage.Op{storage.Add(low, "n", storage.MaxCounter+1, 0)}, Key: "k"},
	} {
		_, found, err := r.h.Answered(r.Context(), r.s, c)
		if found || !errors.Is(err, fencing.ErrInvalid) {
			r.Errorf("look up %s: got found = %t, %v, want invalid", name, found, err)
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	_, found, err = r.h.Answered(ctx, r.s, storage.Commit{Ops: pair, Key: "both"})
	if found || fencing.OutcomeOf(err) != fencing.Failed || !errors.Is(err, fencing.ErrFailed) || errors.Is(err, fencing.ErrUnknown) {
		r.Errorf("look up in a context that has ended: got found = %t, %v, want failed: it had nothing to do but look", found, err)
	}
}
