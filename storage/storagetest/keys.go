package storagetest

import (
	"reflect"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

func (r *run) tryKeyed(key string, ops []storage.Op, tokens ...fencing.Token) (storage.Result, error) {
	return r.s.Store.Commit(r.Context(), storage.Commit{Tokens: tokens, Ops: ops, Key: key})
}

// keyed applies ops under a key, for the first time.
func (r *run) keyed(key string, ops []storage.Op, tokens ...fencing.Token) storage.Result {
	r.Helper()
	res, err := r.tryKeyed(key, ops, tokens...)
	if err != nil || res.Replayed || len(res.Ops) != len(ops) {
		r.Fatalf("commit of %d operations under %.40s: got %d results, replayed = %t, %v, want applied and not replayed",
			len(ops), key, len(res.Ops), res.Replayed, err)
	}
	return res
}

// wantReplayed sends a commit again and wants the answer of then, and that nothing changes.
// Only a classic store's mark may: it raises by use.
func (r *run) wantReplayed(then storage.Result, key string, ops []storage.Op, tokens ...fencing.Token) {
	r.Helper()
	var resources []string
	for _, t := range tokens {
		resources = append(resources, t.Resource)
	}
	before := r.image(resources...)
	res, err := r.tryKeyed(key, ops, tokens...)
	if err != nil {
		r.Errorf("sent again under %.40s with %v: got %v, want the answer of then", key, tokens, err)
		return
	}
	if !res.Replayed {
		r.Errorf("sent again under %.40s with %v: got replayed = false, want true", key, tokens)
	}
	if !reflect.DeepEqual(res.Ops, then.Ops) {
		r.Errorf("sent again under %.40s: got the results %+v, want those of then, %+v", key, res.Ops, then.Ops)
	}
	if after := r.image(resources...); !reflect.DeepEqual(after.Records, before.Records) {
		r.Errorf("sent again under %.40s: records changed, from %+v to %+v", key, before.Records, after.Records)
	}
}

// wantKeyReused sends another commit under a key that was used, and wants nothing to happen.
func (r *run) wantKeyReused(lowest, key string, ops []storage.Op, tokens ...fencing.Token) {
	r.Helper()
	_, err := r.tryKeyed(key, ops, tokens...)
	r.wantRefused(err, storage.RefusedError{Op: storage.NoOp, Resource: lowest, Key: key, Reason: storage.ErrKeyReused})
}

// keyOnce: a commit sent again under its key changes nothing and is answered as it was.
func keyOnce(r *run) {
	t := r.held(5)
	in := t.Resource
	r.put(t, "old", "x")
	r.put(t, "kept", "x")
	r.put(t, "stock", "10")
	ops := []storage.Op{
		storage.Require(in, "kept", 1), storage.Add(in, "stock", -3, 0), storage.Put(in, "new", []byte("y")), storage.Delete(in, "old"),
	}
	const key = "order:1"
	then := r.keyed(key, ops, t)
	want := []storage.OpResult{{Version: 1}, {Version: 2, Counter: 7}, {Version: 1}, {}}
	if !reflect.DeepEqual(then.Ops, want) {
		r.Errorf("got the results %+v, want %+v", then.Ops, want)
	}
	before := r.image(in)
	for range 3 {
		r.wantReplayed(then, key, ops, t)
	}
	r.wantImage(before, in)

	// The answer is that of then, whatever the records are now.
	r.put(t, "new", "z")
	r.put(t, "kept", "z")
	r.remove(t, "stock")
	r.wantReplayed(then, key, ops, t)
	r.wantAbsent(in, "stock")

	// Another key, or none, is another commit.
	again := []storage.Op{storage.Add(in, "n", 1, 0)}
	for i, key := range []string{"order:2", "order:3", "", ""} {
		res, err := r.tryKeyed(key, again, t)
		if err != nil || res.Replayed || res.Ops[0].Counter != int64(i+1) {
			r.Errorf("under the key %q: got %+v, %v, want the sum %d, not replayed", key, res, err, i+1)
		}
	}
}

// keyLaterToken: what was applied is answered as applied, whatever became of the token. Its
// holder must not be told "refused".
func keyLaterToken(r *run) {
	t5 := r.held(5)
	in := t5.Resource
	ops := []storage.Op{storage.Add(in, "sold", 1, 0)}
	then := r.keyed("k", ops, t5)

	t6 := r.raised(in, 6)
	r.wantReplayed(then, "k", ops, t6)
	r.wantReplayed(then, "k", ops, t5)           // superseded
	r.wantReplayed(then, "k", ops, token(in, 6)) // the mark's number, another grant
	r.ok(r.s.Fence.Retire(r.Context(), t6), "retire")
	r.wantReplayed(then, "k", ops, t6) // retired
	r.wantReplayed(then, "k", ops, token(in, 9))
	if r.mode == fencing.Strict { // a classic store has raised that one
		r.wantMark(in, fencing.Mark{Number: 6, Retired: true})
	}
	r.wantRecord(in, "sold", "1", 1)

	// Without its key, and under another one, the fence decides.
	highest, err := r.s.Fence.Mark(r.Context(), in)
	r.ok(err, "mark")
	_, err = r.try(ops, t5)
	r.wantStale(err, t5, highest.Number, fencing.Superseded)
	_, err = r.tryKeyed("k2", ops, t5)
	r.wantStale(err, t5, highest.Number, fencing.Superseded)
	r.wantRecord(in, "sold", "1", 1)
}

// keyFenceRefusal: what the fence refuses under a key may be applied later, under a token that is
// the mark.
func keyFenceRefusal(r *run) {
	t6 := r.held(6)
	in := t6.Resource
	t5 := token(in, 5)
	ops := []storage.Op{storage.Add(in, "sold", 1, 0)}
	for range 2 {
		_, err := r.tryKeyed("k", ops, t5)
		r.wantStale(err, t5, 6, fencing.Superseded)
	}
	r.wantAbsent(in, "sold")
	then := r.keyed("k", ops, t6)
	r.wantReplayed(then, "k", ops, t5)
	r.wantRecord(in, "sold", "1", 1)

	if r.mode == fencing.Strict {
		t7 := token(in, 7)
		_, err := r.tryKeyed("early", ops, t7)
		r.wantStale(err, t7, 6, fencing.Ungranted)
		plain := fencing.Token{Resource: in, Number: 6}
		_, err = r.tryKeyed("k", ops, plain) // before anything else
		r.wantStale(err, plain, 6, fencing.GrantRequired)
		r.raise(t7)
		r.keyed("early", ops, t7)
	}

	// With two tokens, whichever of them is stale.
	base := r.resource()
	a, b := r.raised(base+"-a", 3), r.raised(base+"-b", 4)
	oldA, oldB := token(a.Resource, 2), token(b.Resource, 3)
	both := []storage.Op{storage.Add(a.Resource, "n", 1, 0), storage.Add(b.Resource, "n", 1, 0)}
	_, err := r.tryKeyed("k", both, a, oldB)
	r.wantStale(err, oldB, 4, fencing.Superseded)
	_, err = r.tryKeyed("k", both, oldA, b)
	r.wantStale(err, oldA, 3, fencing.Superseded)
	then = r.keyed("k", both, a, b)
	r.wantReplayed(then, "k", both, oldA, b)
	r.wantReplayed(then, "k", both, a, oldB)
	r.wantRecord(b.Resource, "n", "1", 1)
}

// keyDataRefusals: what the data refused under a key stays refused, though it would be applied now.
func keyDataRefusals(r *run) {
	t := r.held(5)
	in := t.Resource
	r.put(t, "stock", "0")
	r.put(t, "text", "text")
	r.put(t, "high", "9007199254740991")
	r.put(t, "versioned", "1")
	good := storage.Put(in, "good", []byte("x"))
	cases := map[string]struct {
		op   storage.Op
		want storage.RefusedError
	}{
		"k-minimum": {storage.Add(in, "stock", -1, 0), storage.RefusedError{Key: "stock", Reason: storage.ErrBelowMinimum}},
		"k-version": {storage.Require(in, "versioned", 2), storage.RefusedError{Key: "versioned", Reason: storage.ErrVersionMismatch, Have: 1, Want: 2}},
		"k-counter": {storage.Add(in, "text", 1, 0), storage.RefusedError{Key: "text", Reason: storage.ErrNotCounter}},
		"k-range": {
			storage.Add(in, "high", 1, storage.NoMinimum),
			storage.RefusedError{Key: "high", Reason: storage.ErrCounterRange, Have: storage.MaxCounter},
		},
	}
	refuse := func(tokens ...fencing.Token) {
		for key, c := range cases {
			c.want.Op, c.want.Resource = 1, in
			for range 2 {
				_, err := r.tryKeyed(key, []storage.Op{good, c.op}, tokens...)
				r.wantRefused(err, c.want)
			}
			r.wantKeyReused(in, key, []storage.Op{c.op}, tokens...)
		}
	}
	refuse(t)
	r.wantAbsent(in, "good")
	r.put(t, "stock", "5")
	r.put(t, "text", "5")
	r.put(t, "high", "5")
	r.put(t, "versioned", "2")
	before := r.image(in)
	refuse(t)
	next := r.raised(in, 6)
	refuse(next)
	refuse(t) // stale by now
	if after := r.image(in); !reflect.DeepEqual(after.Records, before.Records) {
		r.Errorf("records changed, from %+v to %+v", before.Records, after.Records)
	}
	for key, c := range cases {
		if _, err := r.tryKeyed(key+"-2", []storage.Op{c.op}, next); err != nil {
			r.Errorf("under another key: got %v, want applied", err)
		}
	}
}
