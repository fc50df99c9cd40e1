package storagetest

import (
	"bytes"
	"errors"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

func versionsGrow(r *run) {
	t := r.held(5)
	in := t.Resource
	for i := range int64(4) {
		if v := r.put(t, "a", "same"); v != i+1 {
			r.Errorf("put: got version %d, want %d", v, i+1)
		}
	}
	if got := r.commit([]storage.Op{storage.Add(in, "n", 1, 0)}, t)[0]; got.Version != 1 {
		r.Errorf("add to nothing: got version %d, want 1", got.Version)
	}
	if got := r.commit([]storage.Op{storage.Add(in, "n", 0, 0)}, t)[0]; got.Version != 2 {
		r.Errorf("add: got version %d, want 2", got.Version)
	}
	if v := r.put(t, "n", "5"); v != 3 {
		r.Errorf("put after add: got version %d, want 3", v)
	}
	next := r.raised(in, 6) // another token does not count anew
	if v := r.put(next, "a", "x"); v != 5 {
		r.Errorf("put with another token: got version %d, want 5", v)
	}
	r.wantRecord(in, "a", "x", 5)
	r.wantRecord(in, "n", "5", 3)
}

func versionsNeverAgain(r *run) {
	t := r.held(5)
	in := t.Resource
	r.put(t, "a", "1")
	r.put(t, "a", "2")
	r.remove(t, "a")
	if v := r.put(t, "a", "3"); v != 3 {
		r.Errorf("put after the delete of version 2: got version %d, want 3", v)
	}
	// Several deleted records, some in one commit: none comes back with an old version.
	seen := map[string]int64{}
	for i, key := range []string{"b", "c", "d"} {
		for range 2 * (i + 1) {
			seen[key] = r.put(t, key, "x")
		}
	}
	r.commit([]storage.Op{storage.Delete(in, "d"), storage.Delete(in, "b")}, t)
	r.remove(t, "c")
	for _, key := range []string{"b", "c", "d"} {
		if v := r.put(t, key, "y"); v <= seen[key] {
			r.Errorf("%s had version %d before its delete and got %d after", key, seen[key], v)
		}
	}
	// Nor by add, nor under another token, nor after a second delete.
	last := r.put(t, "n", "1")
	r.remove(t, "n")
	next := r.raised(in, 6)
	v := r.commit([]storage.Op{storage.Add(in, "n", 1, 0)}, next)[0].Version
	if v <= last {
		r.Errorf("n had version %d before its delete and got %d after", last, v)
	}
	r.remove(next, "n")
	if again := r.put(next, "n", "1"); again <= v {
		r.Errorf("n had version %d before its delete and got %d after", v, again)
	}
	// A delete that finds nothing uses no version up.
	fresh := r.held(1)
	r.remove(fresh, "none")
	if v := r.put(fresh, "none", ""); v != 1 {
		r.Errorf("got version %d after a delete of nothing, want 1", v)
	}
}

func require(r *run) {
	t := r.held(5)
	in := t.Resource
	mismatch := func(err error, key string, have, want int64) {
		r.Helper()
		r.wantRefused(err, storage.RefusedError{
			Op: 0, Resource: in, Key: key, Reason: storage.ErrVersionMismatch, Have: have, Want: want,
		})
	}
	create := []storage.Op{storage.Require(in, "a", 0), storage.Put(in, "a", []byte("first"))}
	r.commit(create, t)
	_, err := r.try(create, t)
	mismatch(err, "a", 1, 0)
	if got := r.commit([]storage.Op{storage.Require(in, "a", 1)}, t)[0].Version; got != 1 {
		r.Errorf("require: got version %d, want 1", got)
	}
	r.wantRecord(in, "a", "first", 1) // a require changes nothing
	for _, v := range []int64{2, fencing.MaxNumber, 1<<63 - 1} {
		_, err = r.try([]storage.Op{storage.Require(in, "a", v)}, t)
		mismatch(err, "a", 1, v)
	}
	r.put(t, "a", "second")
	_, err = r.try([]storage.Op{storage.Require(in, "a", 1), storage.Put(in, "a", []byte("lost"))}, t)
	mismatch(err, "a", 2, 1)
	_, err = r.try([]storage.Op{storage.Require(in, "b", 1)}, t)
	mismatch(err, "b", 0, 1)
	r.remove(t, "a")
	_, err = r.try([]storage.Op{storage.Require(in, "a", 2)}, t)
	mismatch(err, "a", 0, 2)
	r.commit(create, t)
	r.wantRecord(in, "a", "first", 3)
	_, err = r.try([]storage.Op{storage.Require(in, "a", 1)}, t) // as at its first life
	mismatch(err, "a", 3, 1)
}

// requireBesideChange: a require sees the record as it was before the commit, wherever it
// stands in it, and reports the version after.
func requireBesideChange(r *run) {
	t := r.held(5)
	in := t.Resource
	r.put(t, "a", "1")
	want := func(got []storage.OpResult, versions ...int64) {
		r.Helper()
		for i, v := range versions {
			if got[i].Version != v {
				r.Errorf("operation %d: got version %d, want %d", i, got[i].Version, v)
			}
		}
	}
	want(r.commit([]storage.Op{storage.Require(in, "a", 1), storage.Put(in, "a", []byte("2"))}, t), 2, 2)
	want(r.commit([]storage.Op{storage.Put(in, "a", []byte("3")), storage.Require(in, "a", 2)}, t), 3, 3)
	want(r.commit([]storage.Op{storage.Require(in, "a", 3), storage.Add(in, "a", 1, 0), storage.Require(in, "a", 3)}, t), 4, 4, 4)
	want(r.commit([]storage.Op{storage.Require(in, "none", 0), storage.Require(in, "a", 4)}, t), 0, 4)
	want(r.commit([]storage.Op{storage.Delete(in, "a"), storage.Require(in, "a", 4)}, t), 0, 0)
	want(r.commit([]storage.Op{storage.Add(in, "a", 1, 0), storage.Require(in, "a", 0)}, t), 5, 5)
	_, err := r.try([]storage.Op{storage.Delete(in, "a"), storage.Require(in, "a", 0)}, t)
	r.wantRefused(err, storage.RefusedError{Op: 1, Resource: in, Key: "a", Reason: storage.ErrVersionMismatch, Have: 5})
}

func deletes(r *run) {
	t := r.held(5)
	r.put(t, "a", "1")
	r.put(t, "b", "1")
	if got := r.remove(t, "a"); got != (storage.OpResult{}) {
		r.Errorf("delete: got %+v, want version 0", got)
	}
	if got := r.remove(t, "a"); got != (storage.OpResult{}) {
		r.Errorf("delete again: got %+v, want version 0", got)
	}
	r.wantAbsent(t.Resource, "a")
	r.wantRecord(t.Resource, "b", "1", 1)
	if _, err := r.s.Store.GetFenced(r.Context(), t, "a"); !errors.Is(err, storage.ErrNotFound) {
		r.Errorf("fenced read: got %v, want ErrNotFound", err)
	}
	list, err := r.s.Store.List(r.Context(), t.Resource, "", "", 10)
	r.ok(err, "list")
	if len(list) != 1 {
		r.Errorf("got %d records, want 1", len(list))
	}
}

func values(r *run) {
	t := r.held(5)
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	for name, value := range map[string]string{
		"empty": "", "all": string(all[:]), "nul": "\x00", "nuls": "a\x00b\x00", "newline": "\n", "crlf": "a\r\nb\r\n",
		"utf8": "\xff\xfe\xc0\x80", "colon": ":1:2:", "quote": `"'\`, "escape": `\x00\n%s$1?`, "space": " a ", "null": "null",
		"json": `{"a":[1,"b"]}`, "false": "false", "big": "100000000000000000000000", "float": "1e14", "hex": `\xdeadbeef`,
	} {
		r.put(t, name, value)
		r.wantRecord(t.Resource, name, value, 1)
		rec, err := r.s.Store.GetFenced(r.Context(), t, name)
		if err != nil || string(rec.Value) != value {
			r.Errorf("fenced read of %s: got %q, %v, want %q", name, rec.Value, err, value)
		}
	}
	list, err := r.s.Store.List(r.Context(), t.Resource, "all", "", 1)
	if err != nil || len(list) != 1 || !bytes.Equal(list[0].Value, all[:]) {
		r.Errorf("list: got %v, %v, want all 256 bytes", list, err)
	}
	r.put(t, "all", "")
	r.wantRecord(t.Resource, "all", "", 2)
	r.commit([]storage.Op{storage.Put(t.Resource, "nil", nil)}, t)
	r.wantRecord(t.Resource, "nil", "", 1)
}

func largestValue(r *run) {
	t := r.held(5)
	value := strings.Repeat("0123456789abcde\x00", r.h.MaxValue/16+1)
	r.put(t, "a", value[:r.h.MaxValue])
	r.wantRecord(t.Resource, "a", value[:r.h.MaxValue], 1)
	if err := r.tryPut(t, "a", value[:r.h.MaxValue+1]); !errors.Is(err, fencing.ErrInvalid) {
		r.Errorf("one byte more: got %.80v, want an *InvalidError", err)
	}
	r.wantRecord(t.Resource, "a", value[:r.h.MaxValue], 1)
}

// valuesApart: the store keeps no slice of its callers, and gives none of its own away.
func valuesApart(r *run) {
	t := r.held(5)
	value := []byte("mine")
	r.commit([]storage.Op{storage.Put(t.Resource, "a", value)}, t)
	copy(value, "XXXX")
	r.wantRecord(t.Resource, "a", "mine", 1)
	rec, err := r.s.Store.Get(r.Context(), t.Resource, "a")
	r.ok(err, "get")
	copy(rec.Value, "XXXX")
	rec, err = r.s.Store.GetFenced(r.Context(), t, "a")
	r.ok(err, "fenced read")
	copy(rec.Value, "XXXX")
	list, err := r.s.Store.List(r.Context(), t.Resource, "", "", 1)
	r.ok(err, "list")
	copy(list[0].Value, "XXXX")
	r.wantRecord(t.Resource, "a", "mine", 1)
}

func fencedReads(r *run) {
	t := r.held(5)
	if rec, err := r.s.Store.GetFenced(r.Context(), t, "a"); !errors.Is(err, storage.ErrNotFound) {
		r.Errorf("got %+v, %v, want ErrNotFound", rec, err)
	}
	r.put(t, "a", "1")
	r.put(t, "a", "2")
	rec, err := r.s.Store.GetFenced(r.Context(), t, "a")
	r.ok(err, "fenced read")
	if rec.Resource != t.Resource || rec.Key != "a" || string(rec.Value) != "2" || rec.Version != 2 {
		r.Errorf("got %+v, want a = 2, version 2", rec)
	}
	r.raised(t.Resource, 6)
	for _, key := range []string{"a", "none"} { // stale comes before not found
		rec, err = r.s.Store.GetFenced(r.Context(), t, key)
		r.wantStale(err, t, 6, fencing.Superseded)
		if len(rec.Value) != 0 || rec.Version != 0 {
			r.Errorf("a refused read of %s returned %+v", key, rec)
		}
	}
	r.wantRecord(t.Resource, "a", "2", 2) // a plain read needs no token
}
