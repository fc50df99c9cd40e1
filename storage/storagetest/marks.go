package storagetest

import (
	"errors"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

func raiseAgain(r *run) {
	t := r.held(34)
	r.put(t, "a", "1")
	r.raise(t)
	r.raise(t)
	r.wantMark(t.Resource, markOf(t))
	r.put(t, "a", "2")
	twin, old := token(t.Resource, 34), token(t.Resource, 33)
	r.wantStale(r.s.Fence.Raise(r.Context(), twin), twin, 34, fencing.Duplicate)
	r.wantStale(r.s.Fence.Raise(r.Context(), old), old, 34, fencing.Superseded)
	r.wantMark(t.Resource, markOf(t))
	r.put(t, "a", "3")
}

// retire ends only the token that is the mark, and needs no mark to be called.
func retire(r *run) {
	t := r.held(34)
	r.put(t, "a", "1")
	for _, miss := range []fencing.Token{token(t.Resource, 34), token(t.Resource, 33), token(t.Resource, 35)} {
		r.ok(r.s.Fence.Retire(r.Context(), miss), "retire of another token")
	}
	r.wantMark(t.Resource, markOf(t))
	r.put(t, "a", "2")
	ended := fencing.Mark{Number: 34, Retired: true}
	for range 2 { // the second finds nothing to do
		r.ok(r.s.Fence.Retire(r.Context(), t), "retire")
		r.wantMark(t.Resource, ended)
		r.wantStale(r.tryPut(t, "a", "late"), t, 34, fencing.Retired)
		_, err := r.s.Store.GetFenced(r.Context(), t, "a")
		r.wantStale(err, t, 34, fencing.Retired)
		r.wantStale(r.s.Fence.Raise(r.Context(), t), t, 34, fencing.Retired)
	}
	r.wantRecord(t.Resource, "a", "2", 2)
	t35 := r.raised(t.Resource, 35)
	r.put(t35, "a", "3")

	never := token(r.resource(), 5)
	r.ok(r.s.Fence.Retire(r.Context(), never), "retire where nothing is")
	r.wantMark(never.Resource, fencing.Absent(0))
	r.raise(never)
	r.put(never, "a", "1")
}

// evict ends a token without its holder, even before its raise has arrived.
func evict(r *run) {
	t34 := r.held(34)
	resource := t34.Resource
	r.put(t34, "a", "1")
	r.ok(r.s.Fence.Evict(r.Context(), token(resource, 33)), "evict below")
	r.ok(r.s.Fence.Evict(r.Context(), token(resource, 34)), "evict another grant")
	r.wantMark(resource, markOf(t34))
	r.put(t34, "a", "2")

	r.ok(r.s.Fence.Evict(r.Context(), t34), "evict")
	r.wantMark(resource, fencing.Mark{Number: 34, Retired: true})
	r.wantStale(r.tryPut(t34, "a", "late"), t34, 34, fencing.Retired)

	t36 := token(resource, 36)
	r.ok(r.s.Fence.Evict(r.Context(), t36), "evict above")
	r.wantMark(resource, fencing.Mark{Number: 36, Retired: true})
	r.wantStale(r.s.Fence.Raise(r.Context(), t36), t36, 36, fencing.Retired) // the raise that was under way
	r.wantStale(r.tryPut(t36, "a", "late"), t36, 36, fencing.Retired)
	t35 := token(resource, 35)
	r.wantStale(r.s.Fence.Raise(r.Context(), t35), t35, 36, fencing.Superseded)

	t37 := r.raised(resource, 37)
	r.put(t37, "a", "3")
	r.ok(r.s.Fence.Evict(r.Context(), fencing.Token{Resource: resource, Number: 37}), "evict by number")
	r.wantStale(r.tryPut(t37, "a", "late"), t37, 37, fencing.Retired)
	r.wantRecord(resource, "a", "3", 3)

	never := token(r.resource(), 5)
	r.ok(r.s.Fence.Evict(r.Context(), never), "evict where nothing is")
	r.wantStale(r.s.Fence.Raise(r.Context(), never), never, 5, fencing.Retired)
	next := r.raised(never.Resource, 6)
	r.put(next, "a", "1")
}

func reentry(r *run) {
	t := r.held(34)
	for i := range int64(5) {
		if v := r.put(t, "a", "again"); v != i+1 {
			r.Errorf("got version %d, want %d", v, i+1)
		}
		if _, err := r.s.Store.GetFenced(r.Context(), t, "a"); err != nil {
			r.Errorf("fenced read: %v", err)
		}
	}
	r.wantMark(t.Resource, markOf(t))
}

// unclaimed: no clock decides. A gap in the numbers does not end a token either; only a
// newer raise does.
func unclaimed(r *run) {
	t := r.held(34)
	other := r.held(1000)
	r.put(t, "a", "1")
	r.put(other, "a", "1")
	next := token(t.Resource, 40) // granted somewhere, never raised here
	r.put(t, "a", "2")
	r.raise(next)
	r.wantStale(r.tryPut(t, "a", "3"), t, 40, fencing.Superseded)
	r.put(next, "a", "3")
}

func marksApart(r *run) {
	a := r.held(34)
	b := fencing.Token{Resource: a.Resource + "-b", Number: 2, Grant: a.Grant}
	r.raise(b)
	r.ok(r.s.Fence.Retire(r.Context(), a), "retire")
	r.put(b, "x", "1")
	r.wantMark(a.Resource, fencing.Mark{Number: 34, Retired: true})
	r.wantMark(b.Resource, markOf(b))
	_, err := r.try([]storage.Op{storage.Put(a.Resource, "x", nil)}, b)
	if !errors.Is(err, fencing.ErrInvalid) {
		r.Errorf("got %v for a write under another resource's token, want an *InvalidError", err)
	}
	r.wantAbsent(a.Resource, "x")
}

// highestNumber: numbers compare as numbers, to the last one.
func highestNumber(r *run) {
	resource := r.resource()
	for _, n := range []int64{9, 10, 99, 100, 99999999999999, 100000000000000, 100000000000001, 1 << 52, fencing.MaxNumber - 1, fencing.MaxNumber} {
		old := token(resource, n-1)
		t := r.raised(resource, n)
		r.wantStale(r.tryPut(old, "a", "old"), old, n, fencing.Superseded)
		r.put(t, "a", "new")
		r.wantMark(resource, markOf(t))
	}
	above := token(resource, fencing.MaxNumber+1)
	if err := r.s.Fence.Raise(r.Context(), above); !errors.Is(err, fencing.ErrInvalid) {
		r.Errorf("raise above the highest: got %v, want an *InvalidError", err)
	}
}

func strictNeverRaises(r *run) {
	t := r.held(34)
	for _, next := range []fencing.Token{token(t.Resource, 35), token(t.Resource, fencing.MaxNumber)} {
		r.wantStale(r.tryPut(next, "a", "early"), next, 34, fencing.Ungranted)
		_, err := r.s.Store.GetFenced(r.Context(), next, "a")
		r.wantStale(err, next, 34, fencing.Ungranted)
	}
	plain := fencing.Token{Resource: t.Resource, Number: 35}
	r.wantStale(r.tryPut(plain, "a", "plain"), plain, 34, fencing.GrantRequired)
	r.wantStale(r.s.Fence.Raise(r.Context(), plain), plain, 34, fencing.GrantRequired)
	_, err := r.s.Store.GetFenced(r.Context(), plain, "a")
	r.wantStale(err, plain, 34, fencing.GrantRequired)
	r.wantMark(t.Resource, markOf(t))
	r.wantAbsent(t.Resource, "a")
	r.put(t, "a", "mine")
}

func classicRaises(r *run) {
	resource := r.resource()
	plain := func(n int64) fencing.Token { return fencing.Token{Resource: resource, Number: n} }
	r.put(plain(33), "a", "33")
	r.wantMark(resource, fencing.Mark{Number: 33})
	if _, err := r.s.Store.GetFenced(r.Context(), plain(34), "a"); err != nil {
		r.Errorf("fenced read with 34: %v", err)
	}
	r.wantMark(resource, fencing.Mark{Number: 34})
	r.wantStale(r.tryPut(plain(33), "a", "late"), plain(33), 34, fencing.Superseded)
	if _, err := r.s.Store.GetFenced(r.Context(), plain(35), "none"); !errors.Is(err, storage.ErrNotFound) {
		r.Errorf("fenced read with 35: got %v, want ErrNotFound", err)
	}
	r.wantMark(resource, fencing.Mark{Number: 35})
	_, err := r.s.Store.GetFenced(r.Context(), plain(34), "a")
	r.wantStale(err, plain(34), 35, fencing.Superseded)
	// A grant id beside a number is compared.
	granted := token(resource, 35)
	r.wantStale(r.tryPut(granted, "a", "twin"), granted, 35, fencing.Duplicate)
	granted.Number = 36
	r.put(granted, "a", "36")
	r.wantStale(r.tryPut(plain(36), "a", "twin"), plain(36), 36, fencing.Duplicate)
	r.put(plain(fencing.MaxNumber), "a", "bricked")
	r.wantStale(r.tryPut(granted, "a", "late"), granted, fencing.MaxNumber, fencing.Superseded)
	// A token without operations is used too.
	other := token(r.resource(), 1)
	more := fencing.Token{Resource: r.resource(), Number: 50}
	r.commit([]storage.Op{storage.Put(other.Resource, "a", nil)}, other, more)
	r.wantMark(more.Resource, fencing.Mark{Number: 50})
}

// classicKeepsRaise: a store that has seen 34 must refuse 33, whatever became of 34's
// operation.
func classicKeepsRaise(r *run) {
	t33 := r.held(33)
	r.put(t33, "n", "1")
	t34 := token(t33.Resource, 34)
	_, err := r.tryAdd(t34, "n", -5, 0)
	r.wantRefused(err, storage.RefusedError{Resource: t33.Resource, Key: "n", Reason: storage.ErrBelowMinimum, Have: 1})
	r.wantMark(t33.Resource, markOf(t34))
	r.wantStale(r.tryPut(t33, "n", "0"), t33, 34, fencing.Superseded)
	t35 := token(t33.Resource, 35)
	_, err = r.try([]storage.Op{storage.Require(t33.Resource, "n", 9)}, t35)
	r.wantRefused(err, storage.RefusedError{
		Resource: t33.Resource, Key: "n", Reason: storage.ErrVersionMismatch, Have: 1, Want: 9,
	})
	r.wantStale(r.tryPut(t34, "n", "0"), t34, 35, fencing.Superseded)
	r.wantRecord(t33.Resource, "n", "1", 1)
}
