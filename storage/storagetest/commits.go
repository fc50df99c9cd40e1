package storagetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

func severalResources(r *run) {
	base := r.resource()
	names := []string{base + "-a", base + "-b", base + "-c"}
	var tokens []fencing.Token
	var ops []storage.Op
	for i, name := range names {
		tokens = append(tokens, r.raised(name, int64(10+i)))
		ops = append(ops, storage.Put(name, "x", []byte(name)), storage.Add(name, "n", int64(i), 0))
	}
	for i, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		got := r.commit(ops, tokens[order[0]], tokens[order[1]], tokens[order[2]])
		for at, res := range got {
			if res.Version != int64(i+1) {
				r.Errorf("operation %d: got version %d, want %d", at, res.Version, i+1)
			}
		}
		if got[5].Counter != int64(2*(i+1)) {
			r.Errorf("got the sum %d, want %d", got[5].Counter, 2*(i+1))
		}
	}
	before := r.image(names...)
	for i := range tokens { // one stale token refuses all
		for _, reverse := range []bool{false, true} {
			use := append([]fencing.Token{}, tokens...)
			use[i] = token(names[i], use[i].Number-1)
			bad := use[i]
			if reverse {
				use[0], use[2] = use[2], use[0]
			}
			_, err := r.try(ops, use...)
			r.wantStale(err, bad, bad.Number+1, fencing.Superseded)
		}
	}
	r.wantImage(before, names...)
	// The data of one resource refuses all.
	_, err := r.try(append(append([]storage.Op{}, ops...), storage.Require(names[0], "new", 1)), tokens...)
	r.wantRefused(err, storage.RefusedError{
		Op: 6, Resource: names[0], Key: "new", Reason: storage.ErrVersionMismatch, Want: 1,
	})
	r.wantImage(before, names...)
	// The same grant and number on another resource is no token for this one.
	swapped := fencing.Token{Resource: names[1], Number: tokens[0].Number, Grant: tokens[0].Grant}
	_, err = r.try(ops[2:4], swapped)
	r.wantStale(err, swapped, 11, fencing.Superseded)
}

// bystander: a commit hangs on every token that it names.
func bystander(r *run) {
	t, guard := r.held(5), r.held(8)
	ops := []storage.Op{storage.Put(t.Resource, "a", []byte("x"))}
	r.commit(ops, t, guard)
	next := r.raised(guard.Resource, 9)
	_, err := r.try(ops, t, guard)
	r.wantStale(err, guard, 9, fencing.Superseded)
	_, err = r.try(ops, guard, t)
	r.wantStale(err, guard, 9, fencing.Superseded)
	r.wantRecord(t.Resource, "a", "x", 1)
	r.ok(r.s.Fence.Retire(r.Context(), next), "retire")
	_, err = r.try(ops, t, next)
	r.wantStale(err, next, 9, fencing.Retired)
	r.wantRecord(t.Resource, "a", "x", 1)
	r.commit(ops, t)
	r.wantRecord(t.Resource, "a", "x", 2)
}

func largestCommit(r *run) {
	t := r.held(5)
	var ops []storage.Op
	for i := range r.h.MaxOps {
		ops = append(ops, storage.Add(t.Resource, fmt.Sprintf("k%05d", i), int64(i), 0))
	}
	for i, res := range r.commit(ops, t) {
		if res.Version != 1 || res.Counter != int64(i) {
			r.Fatalf("operation %d: got %+v, want version 1, sum %d", i, res, i)
		}
	}
	ops = append(ops, storage.Delete(t.Resource, "one-more"))
	if _, err := r.try(ops, t); !errors.Is(err, fencing.ErrInvalid) {
		r.Errorf("one operation more: got %v, want an *InvalidError", err)
	}
	last := fmt.Sprintf("k%05d", r.h.MaxOps-1)
	r.wantRecord(t.Resource, last, string(storage.Counter(int64(r.h.MaxOps-1))), 1)
}

// badInput must be refused before anything is written or raised.
func badInput(r *run) {
	t := r.held(5)
	in := t.Resource
	r.put(t, "a", "1")
	before := r.image(in)
	good := storage.Put(in, "a", []byte("changed"))
	long := strings.Repeat("k", fencing.MaxNameLen+1)
	with := func(change func(*fencing.Token)) fencing.Token {
		bad := token(in, 6) // would raise a classic store
		change(&bad)
		return bad
	}
	type commit = storage.Commit
	one := func(op storage.Op) commit { return commit{Tokens: []fencing.Token{t}, Ops: []storage.Op{op}} }
	by := func(bad fencing.Token) commit {
		return commit{Tokens: []fencing.Token{bad}, Ops: []storage.Op{good}}
	}
	cases := map[string]commit{
		"nothing":             {},
		"no operations":       {Tokens: []fencing.Token{token(in, 6)}},
		"no token":            {Ops: []storage.Op{good}},
		"no token for an op":  {Tokens: []fencing.Token{token(in, 6)}, Ops: []storage.Op{good, storage.Put(in+"-b", "a", nil)}},
		"no token for a read": {Tokens: []fencing.Token{token(in, 6)}, Ops: []storage.Op{good, storage.Require(in+"-b", "a", 0)}},
		"two tokens":          {Tokens: []fencing.Token{t, token(in, 6)}, Ops: []storage.Op{good}},
		"one token twice":     {Tokens: []fencing.Token{t, t}, Ops: []storage.Op{good}},
		"two puts":            {Tokens: []fencing.Token{t}, Ops: []storage.Op{good, good}},
		"put and delete":      {Tokens: []fencing.Token{t}, Ops: []storage.Op{good, storage.Delete(in, "a")}},
		"add and put":         {Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Add(in, "a", 1, 0), good}},
		"two adds":            {Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Add(in, "a", 1, 0), storage.Add(in, "a", 1, 0)}},
		"number 0":            by(with(func(t *fencing.Token) { t.Number = 0 })),
		"number -1":           by(with(func(t *fencing.Token) { t.Number = -1 })),
		"number too high":     by(with(func(t *fencing.Token) { t.Number = fencing.MaxNumber + 1 })),
		"short grant":         by(with(func(t *fencing.Token) { t.Grant = "A" })),
		"grant in small":      by(with(func(t *fencing.Token) { t.Grant = strings.ToLower(t.Grant) })),
		"long grant":          by(with(func(t *fencing.Token) { t.Grant += "A" })),
		"version -1":          one(storage.Require(in, "a", -1)),
		"delta too high":      one(storage.Add(in, "a", storage.MaxCounter+1, 0)),
		"delta too low":       one(storage.Add(in, "a", -storage.MaxCounter-1, 0)),
		"minimum too high":    one(storage.Add(in, "a", 0, storage.MaxCounter+1)),
		"minimum too low":     one(storage.Add(in, "a", 0, -storage.MaxCounter-1)),
		"no kind":             one(storage.Op{Resource: in, Key: "a"}),
		"another kind":        one(storage.Op{Kind: "PUT", Resource: in, Key: "a"}),
	}
	for _, name := range []string{"", long, "a/b", "a b", "a\x00", "a\n", "-a", ".", "..", "é", "a%41", "{a}", "a*", "a'--", "a\xff"} {
		cases[fmt.Sprintf("key %.20q", name)] = one(storage.Put(in, name, nil))
		cases[fmt.Sprintf("required key %.20q", name)] = one(storage.Require(in, name, 0))
		bad := token(name, 6)
		cases[fmt.Sprintf("resource %.20q", name)] = commit{
			Tokens: []fencing.Token{token(in, 6), bad}, Ops: []storage.Op{good, storage.Put(name, "a", nil)},
		}
		r.badReads(name)
	}
	for name, c := range cases {
		_, err := r.s.Store.Commit(r.Context(), c)
		r.wantInvalid(err, name)
	}
	for _, limit := range []int{-1, 0, 1001} {
		_, err := r.s.Store.List(r.Context(), in, "", "", limit)
		r.wantInvalid(err, fmt.Sprintf("limit %d", limit))
	}
	r.wantImage(before, in)
	r.put(t, "a", "2")
	r.wantRecord(in, "a", "2", 2)
}

// badReads looks for records with a bad name in every place.
func (r *run) badReads(name string) {
	good := r.resource()
	what := fmt.Sprintf("read with %.20q", name)
	_, err := r.s.Store.Get(r.Context(), good, name)
	r.wantInvalid(err, what)
	_, err = r.s.Store.Get(r.Context(), name, "a")
	r.wantInvalid(err, what)
	_, err = r.s.Store.GetFenced(r.Context(), token(good, 1), name)
	r.wantInvalid(err, what)
	_, err = r.s.Store.GetFenced(r.Context(), token(name, 1), "a")
	r.wantInvalid(err, what)
	_, err = r.s.Store.List(r.Context(), name, "", "", 10)
	r.wantInvalid(err, what)
	_, err = r.s.Store.Mark(r.Context(), name)
	r.wantInvalid(err, what)
	if name != "" { // allowed there
		_, err = r.s.Store.List(r.Context(), good, name, "", 10)
		r.wantInvalid(err, what)
		_, err = r.s.Store.List(r.Context(), good, "", name, 10)
		r.wantInvalid(err, what)
	}
	r.wantMark(good, fencing.Absent(0))
}

func (r *run) wantInvalid(err error, what string) {
	r.Helper()
	if _, ok := errors.AsType[*fencing.InvalidError](err); !ok || fencing.OutcomeOf(err) != fencing.Refused {
		r.Errorf("%s: got %v (%v), want an *InvalidError (refused)", what, err, fencing.OutcomeOf(err))
	}
}
