package storagetest

import (
	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// fenceRefusals refuses every way of use for every reason and looks at everything after.
func fenceRefusals(r *run) {
	current := r.held(34)
	other := r.held(8)
	a, b := current.Resource, other.Resource
	r.put(current, "x", "10")
	r.put(current, "y", "text")
	r.put(other, "x", "1")
	ended := r.held(3)
	r.put(ended, "x", "1")
	r.ok(r.s.Fence.Retire(r.Context(), ended), "retire")
	before := r.image(a, b, ended.Resource)

	twin := token(a, 34)
	plain := fencing.Token{Resource: a, Number: 34}
	never := token(r.resource(), 1)
	for _, c := range []struct {
		t       fencing.Token
		highest int64
		reason  fencing.Reason
	}{
		{token(a, 33), 34, fencing.Superseded},
		{fencing.Token{Resource: a, Number: 33, Grant: current.Grant}, 34, fencing.Superseded},
		{token(a, 35), 34, fencing.Ungranted},
		{fencing.Token{Resource: a, Number: 35, Grant: current.Grant}, 34, fencing.Ungranted},
		{token(a, fencing.MaxNumber), 34, fencing.Ungranted},
		{twin, 34, fencing.Duplicate},
		{plain, 34, fencing.GrantRequired},
		{fencing.Token{Resource: a, Number: 35}, 34, fencing.GrantRequired},
		{ended, 3, fencing.Retired},
		{never, 0, fencing.Ungranted},
	} {
		in := c.t.Resource
		for _, ops := range [][]storage.Op{
			{storage.Put(in, "x", []byte("stale"))},
			{storage.Put(in, "new", []byte("stale"))},
			{storage.Delete(in, "x")},
			{storage.Add(in, "x", 1, 0)},
			{storage.Require(in, "none", 0)},
			{storage.Put(in, "new", nil), storage.Delete(in, "x"), storage.Add(in, "n", 1, 0)},
		} {
			_, err := r.try(ops, c.t)
			r.wantStale(err, c.t, c.highest, c.reason)
		}
		for _, key := range []string{"x", "none"} {
			_, err := r.s.Store.GetFenced(r.Context(), c.t, key)
			r.wantStale(err, c.t, c.highest, c.reason)
		}
		// Beside a good token, its operations first and last.
		for _, ops := range [][]storage.Op{
			{storage.Put(b, "x", []byte("2")), storage.Put(in, "x", nil)},
			{storage.Put(in, "x", nil), storage.Put(b, "x", []byte("2"))},
		} {
			_, err := r.try(ops, other, c.t)
			r.wantStale(err, c.t, c.highest, c.reason)
		}
	}
	r.wantImage(before, a, b, ended.Resource)
	r.wantMark(never.Resource, fencing.Absent(0))
	r.put(current, "x", "11")
	r.wantRecord(a, "x", "11", 2)
}

// dataRefusals refuses by the first, the last and a middle operation of a commit.
func dataRefusals(r *run) {
	t, other := r.held(5), r.held(6)
	a, b := t.Resource, other.Resource
	r.put(t, "n", "10")
	r.put(t, "text", "text")
	r.put(t, "high", "9007199254740991")
	r.put(other, "n", "1")
	before := r.image(a, b)
	good := []storage.Op{
		storage.Put(a, "text", []byte("changed")), storage.Delete(a, "high"),
		storage.Put(a, "new", []byte("new")), storage.Add(b, "n", 5, 0),
	}
	for _, c := range []struct {
		bad  storage.Op
		want storage.RefusedError
	}{
		{storage.Require(a, "n", 2), storage.RefusedError{Key: "n", Reason: storage.ErrVersionMismatch, Have: 1, Want: 2}},
		{storage.Require(a, "n", 0), storage.RefusedError{Key: "n", Reason: storage.ErrVersionMismatch, Have: 1}},
		{storage.Require(a, "none", 1), storage.RefusedError{Key: "none", Reason: storage.ErrVersionMismatch, Want: 1}},
		{storage.Require(a, "n", 1<<62), storage.RefusedError{Key: "n", Reason: storage.ErrVersionMismatch, Have: 1, Want: 1 << 62}},
		{storage.Add(a, "n", -11, 0), storage.RefusedError{Key: "n", Reason: storage.ErrBelowMinimum, Have: 10}},
		{storage.Add(a, "n", 1, 12), storage.RefusedError{Key: "n", Reason: storage.ErrBelowMinimum, Have: 10, Want: 12}},
		{storage.Add(a, "none", -1, 0), storage.RefusedError{Key: "none", Reason: storage.ErrBelowMinimum}},
		{storage.Add(a, "n", storage.MaxCounter, 0), storage.RefusedError{Key: "n", Reason: storage.ErrCounterRange, Have: 10}},
	} {
		c.want.Resource = a
		for at := range len(good) + 1 {
			ops := append(append(append([]storage.Op{}, good[:at]...), c.bad), good[at:]...)
			c.want.Op = at
			_, err := r.try(ops, t, other)
			r.wantRefused(err, c.want)
		}
	}
	for at, ops := range [][]storage.Op{
		{storage.Add(a, "text", 1, 0)},
		{storage.Put(a, "new", nil), storage.Add(a, "text", 1, 0)},
	} {
		_, err := r.try(ops, t)
		r.wantRefused(err, storage.RefusedError{Op: at, Resource: a, Key: "text", Reason: storage.ErrNotCounter})
	}
	r.wantImage(before, a, b)
	// Of two bad operations, the first is named.
	_, err := r.try([]storage.Op{storage.Add(a, "text", 1, 0), storage.Require(a, "n", 7)}, t)
	r.wantRefused(err, storage.RefusedError{Resource: a, Key: "text", Reason: storage.ErrNotCounter})
}

// refusedDelete: what a refused commit would have deleted must not count as deleted.
func refusedDelete(r *run) {
	t := r.held(5)
	r.put(t, "a", "1")
	r.put(t, "a", "2")
	_, err := r.try([]storage.Op{storage.Delete(t.Resource, "a"), storage.Require(t.Resource, "b", 1)}, t)
	r.wantRefused(err, storage.RefusedError{
		Op: 1, Resource: t.Resource, Key: "b", Reason: storage.ErrVersionMismatch, Want: 1,
	})
	if v := r.put(t, "new", ""); v != 1 {
		r.Errorf("a new record got version %d, want 1: nothing was ever deleted", v)
	}
	if v := r.put(t, "a", "3"); v != 3 {
		r.Errorf("got version %d, want 3", v)
	}
}

// fenceFirst: a stale token learns nothing of the data.
func fenceFirst(r *run) {
	t := r.held(5)
	r.put(t, "text", "text")
	old := token(t.Resource, 4)
	for _, op := range []storage.Op{
		storage.Require(t.Resource, "text", 9), storage.Add(t.Resource, "text", 1, 0), storage.Add(t.Resource, "none", -1, 0),
	} {
		_, err := r.try([]storage.Op{op}, old)
		r.wantStale(err, old, 5, fencing.Superseded)
	}
	// Of several stale tokens, the one of the first resource is named, in whatever order
	// they come.
	base := r.resource()
	first, second := r.raised(base+"-a", 5), r.raised(base+"-b", 7)
	oldFirst, oldSecond := token(first.Resource, 4), token(second.Resource, 6)
	ops := []storage.Op{storage.Put(second.Resource, "x", nil), storage.Put(first.Resource, "x", nil)}
	for _, tokens := range [][]fencing.Token{{oldFirst, oldSecond}, {oldSecond, oldFirst}} {
		_, err := r.try(ops, tokens...)
		r.wantStale(err, oldFirst, 5, fencing.Superseded)
	}
}
