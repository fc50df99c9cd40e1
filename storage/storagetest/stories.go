package storagetest

import (
	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// readModifyWrite: the coupon has 10 left. 33 is paused before its write, 34 takes over,
// reads 10, and 33 wakes up before 34 writes. Were the write of 33 accepted, one of two
// acknowledged sales would be lost.
func readModifyWrite(r *run) {
	t33 := r.held(33)
	r.put(t33, "stock", "10")
	t34 := token(t33.Resource, 34)
	if r.mode == fencing.Strict {
		r.raise(t34)
	}
	rec, err := r.s.Store.GetFenced(r.Context(), t34, "stock") // a classic store raises here
	r.ok(err, "fenced read with 34")
	if string(rec.Value) != "10" || rec.Version != 1 {
		r.Errorf("34 read %q, version %d, want 10, 1", rec.Value, rec.Version)
	}
	r.wantStale(r.tryPut(t33, "stock", "9"), t33, 34, fencing.Superseded)
	if v := r.put(t34, "stock", "9"); v != 2 {
		r.Errorf("34 wrote version %d, want 2: something was written between its read and its write", v)
	}
	r.wantRecord(t33.Resource, "stock", "9", 2)
}

// gapWithoutRaise is why a fence must be raised at the grant: a store that hears of 34
// only by its write accepts the delayed write of 33, and 34 overwrites it. This is
// documented, and if it no longer happens, the documentation is wrong.
func gapWithoutRaise(r *run) {
	t33 := r.held(33)
	r.put(t33, "stock", "10")
	t34 := token(t33.Resource, 34)
	r.wantRecord(t33.Resource, "stock", "10", 1) // the plain read of 34
	if v := r.put(t33, "stock", "9"); v != 2 {
		r.Errorf("33 wrote version %d, want 2", v)
	}
	if v := r.put(t34, "stock", "9"); v != 3 {
		r.Errorf("34 wrote version %d, want 3", v)
	}
	r.wantRecord(t33.Resource, "stock", "9", 3) // two sales, one gone from the stock
}

// thirdClient: 33 is paused, 34 takes over and gives back, 35 comes.
func thirdClient(r *run) {
	t33 := r.held(33)
	resource := t33.Resource
	r.put(t33, "a", "by 33")
	t34 := r.raised(resource, 34)
	r.put(t34, "a", "by 34")
	r.ok(r.s.Fence.Retire(r.Context(), t34), "retire")
	r.wantStale(r.tryPut(t33, "a", "late"), t33, 34, fencing.Superseded)
	r.wantStale(r.tryPut(t34, "a", "late"), t34, 34, fencing.Retired)
	t35 := r.raised(resource, 35)
	r.wantStale(r.tryPut(t33, "a", "late"), t33, 35, fencing.Superseded)
	r.wantStale(r.tryPut(t34, "a", "late"), t34, 35, fencing.Superseded)
	for _, t := range []fencing.Token{t33, t34} {
		_, err := r.s.Store.GetFenced(r.Context(), t, "a")
		r.wantStale(err, t, 35, fencing.Superseded)
		r.wantStale(r.s.Fence.Raise(r.Context(), t), t, 35, fencing.Superseded)
	}
	r.wantRecord(resource, "a", "by 34", 2)
	r.put(t35, "a", "by 35")
	r.wantRecord(resource, "a", "by 35", 3)
}

// torn: a task of two writes is overtaken between them. Each write is fenced, and yet
// half of the task stays.
func torn(r *run) {
	t33 := r.held(33)
	r.put(t33, "from", "old")
	r.put(t33, "to", "old")
	r.put(t33, "from", "new")
	r.raised(t33.Resource, 34)
	r.wantStale(r.tryPut(t33, "to", "new"), t33, 34, fencing.Superseded)
	r.wantRecord(t33.Resource, "from", "new", 2)
	r.wantRecord(t33.Resource, "to", "old", 1)
}

// whole: with one commit, the same task happens or does not.
func whole(r *run) {
	t33 := r.held(33)
	r.put(t33, "from", "old")
	r.put(t33, "to", "old")
	task := func(value string) []storage.Op {
		return []storage.Op{
			storage.Put(t33.Resource, "from", []byte(value)), storage.Put(t33.Resource, "to", []byte(value)),
		}
	}
	r.commit(task("new"), t33)
	r.wantRecord(t33.Resource, "from", "new", 2)
	r.wantRecord(t33.Resource, "to", "new", 2)
	r.raised(t33.Resource, 34)
	_, err := r.try(task("late"), t33)
	r.wantStale(err, t33, 34, fencing.Superseded)
	r.wantRecord(t33.Resource, "from", "new", 2)
	r.wantRecord(t33.Resource, "to", "new", 2)
}
