package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

func (r *run) wantList(resource, prefix, after string, limit int, want ...string) {
	r.Helper()
	list, err := r.s.Store.List(r.Context(), resource, prefix, after, limit)
	r.ok(err, "list")
	var got []string
	for _, rec := range list {
		got = append(got, rec.Key)
		if rec.Resource != resource || string(rec.Value) != "of "+rec.Key || rec.Version != 1 {
			r.Errorf("list: got %s/%s = %q, version %d", rec.Resource, rec.Key, rec.Value, rec.Version)
		}
	}
	if !slices.Equal(got, want) {
		r.Errorf("list %q after %q, limit %d: got %q, want %q", prefix, after, limit, got, want)
	}
}

func (r *run) fill(t fencing.Token, keys ...string) {
	r.Helper()
	var ops []storage.Op
	for _, key := range keys {
		ops = append(ops, storage.Put(t.Resource, key, []byte("of "+key)))
	}
	r.commit(ops, t)
}

func lists(r *run) {
	t := r.held(5)
	in := t.Resource
	r.wantList(in, "", "", 10)
	// In the order of bytes: digits, capitals, small letters; - . : @ _ where they fall.
	sorted := []string{
		"0", "10", "9", "A", "Ab", "B", "Z", "a", "a-b", "a.b", "a:b", "a@b", "aB", "a_b", "a_c", "ab", "axb", "b", "z", "zz",
	}
	shuffled := slices.Clone(sorted)
	slices.Reverse(shuffled)
	r.fill(t, shuffled...)
	other := r.raised(in+"-x", 1) // its name begins with the other's
	r.fill(other, "a", "foreign")

	r.wantList(in, "", "", 1000, sorted...)
	r.wantList(in, "", "", 3, sorted[:3]...)
	r.wantList(in, "", "", len(sorted), sorted...)
	r.wantList(in, "", "Z", 3, "a", "a-b", "a.b")
	r.wantList(in, "", "ZZ", 1, "a") // after need not exist
	r.wantList(in, "", "0", 1, "10")
	r.wantList(in, "", "zz", 10)
	r.wantList(in, "a", "", 1000, "a", "a-b", "a.b", "a:b", "a@b", "aB", "a_b", "a_c", "ab", "axb")
	r.wantList(in, "A", "", 1000, "A", "Ab")
	r.wantList(in, "a_", "", 1000, "a_b", "a_c") // no wildcard
	r.wantList(in, "a.", "", 1000, "a.b")
	r.wantList(in, "a", "a@b", 3, "aB", "a_b", "a_c")
	r.wantList(in, "a", "a", 2, "a-b", "a.b")
	r.wantList(in, "a", "A", 2, "a", "a-b") // before the prefix
	r.wantList(in, "a", "b", 10)            // behind it
	r.wantList(in, "zz", "z", 10, "zz")
	r.wantList(in, "zzz", "", 10)
	r.wantList(in, "c", "", 10)
	r.wantList(other.Resource, "", "", 10, "a", "foreign")
	r.wantList(in+"-y", "", "", 10)
	r.commit([]storage.Op{storage.Delete(in, "0"), storage.Delete(in, "9")}, t)
	r.wantList(in, "", "", 2, "10", "A")
}

// listPages walks through more records than one page holds.
func listPages(r *run) {
	t := r.held(5)
	total := min(150, r.h.MaxOps)
	var keys []string
	for i := range total {
		keys = append(keys, fmt.Sprintf("k%04d", (i*7919)%10000))
	}
	r.fill(t, keys...)
	slices.Sort(keys)
	for _, limit := range []int{1000, 64, total, total - 1} {
		var got []string
		after := ""
		for {
			list, err := r.s.Store.List(r.Context(), t.Resource, "k", after, limit)
			r.ok(err, "list")
			for _, rec := range list {
				got = append(got, rec.Key)
			}
			if len(list) > limit {
				r.Fatalf("got %d records, want at most %d", len(list), limit)
			}
			if len(list) < limit {
				break
			}
			after = list[len(list)-1].Key
		}
		if !slices.Equal(got, keys) {
			r.Errorf("by pages of %d: got %d keys, want all %d in order, once each", limit, len(got), total)
		}
	}
}

// namesExact: no name is folded, cut or mistaken for another.
func namesExact(r *run) {
	base := r.resource()
	long := base + strings.Repeat("x", fencing.MaxNameLen-len(base))
	pairs := [][2]string{
		{base + "a", base + "A"},
		{base + ":a", base + "@a"},
		{base + "a_b", base + "axb"},
		{long, long[:len(long)-1] + "y"},
		{base + ".", base + ".."},
		{base + "0", base + "00"},
		{base + "-m", base + ":m"},
		{base, base + ":r"},
	}
	for i, names := range pairs {
		for j, name := range names {
			t := r.raised(name, int64(10*i+j+1))
			for _, key := range []string{"a", "A", "a_b", "axb", "a:b", strings.Repeat("k", fencing.MaxNameLen)} {
				r.put(t, key, name+key)
			}
		}
	}
	for i, names := range pairs {
		for j, name := range names {
			if m, err := r.s.Fence.Mark(r.Context(), name); err != nil || m.Number != int64(10*i+j+1) {
				r.Errorf("mark of %s: got %v, %v, want %d", name, m, err, 10*i+j+1)
			}
			for _, key := range []string{"a", "A", "a_b", "axb", "a:b", strings.Repeat("k", fencing.MaxNameLen)} {
				r.wantRecord(name, key, name+key, 1)
			}
			r.wantAbsent(name, "aa")
		}
	}
	// A resource and a key that run together as another pair do not meet.
	a, b := r.raised(base+"-p:q", 1), r.raised(base+"-p", 1)
	r.put(a, "r", "one")
	r.put(b, "q:r", "two")
	r.wantRecord(a.Resource, "r", "one", 1)
	r.wantRecord(b.Resource, "q:r", "two", 1)
	if _, err := r.s.Store.Get(r.Context(), base+"-p", "r"); !errors.Is(err, storage.ErrNotFound) {
		r.Errorf("got %v, want ErrNotFound", err)
	}
}
