package storagetest

import (
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// kept counts which of the keys still have a record, without making one: a commit with a stale
// token is answered by its record, or refused by the fence.
func (r *run) kept(stale fencing.Token, keys []string) int {
	r.Helper()
	n := 0
	for _, key := range keys {
		_, err := r.tryKeyed(key, sale(stale.Resource), stale)
		switch {
		case err == nil:
			n++
		case !errors.Is(err, fencing.ErrStale):
			r.Errorf("sent again under %s: got %v, want an answer, or stale", key, err)
		}
	}
	return n
}

func sale(resource string) []storage.Op { return []storage.Op{storage.Add(resource, "sold", 1, 0)} }

// sell commits under n keys at once.
func (r *run) sell(t fencing.Token, prefix string, n int) []string {
	r.Helper()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	r.parallel(writers, func(w int) {
		for i := w; i < n; i += writers {
			if _, err := r.untilAnswered(keys[i], sale(t.Resource), t); err != nil {
				r.Errorf("sell: %v", err)
			}
		}
	})
	return keys
}

// retention: overdue records go in small steps, by later commits with a key; not those whose
// token is the mark, and not those that are not overdue.
func retention(r *run) {
	const many = 300
	t5 := r.held(5)
	in := t5.Resource
	bystander := r.held(5)
	others := r.sell(bystander, "old", 3)
	old := r.sell(t5, "old", many)
	r.h.Aged(r, r.s, in)
	r.h.Aged(r, r.s, bystander.Resource)
	stale := token(in, 4)
	mine := r.sell(t5, "mine", 20)
	if got := r.kept(stale, old[:50]); got != 50 {
		r.Errorf("the token is the mark: got %d of 50 overdue records left, want all", got)
	}

	t6 := r.raised(in, 6)
	r.kept(t5, old[:1]) // sent again: no commit that makes a record
	r.sell(t6, "step", 1)
	left := r.kept(stale, old)
	if left == 0 || left == many {
		r.Errorf("after one commit: got %d of %d overdue records left, want some, not all", left, many)
	}
	r.sell(t6, "more", many-1)
	if got := r.kept(stale, old); got != 0 {
		r.Errorf("after %d commits: got %d of %d overdue records left, want none", many, got, many)
	}
	if got := r.kept(stale, mine); got != len(mine) {
		r.Errorf("got %d of %d records left that are not overdue, want all", got, len(mine))
	}
	if got := r.kept(token(bystander.Resource, 4), others); got != len(others) {
		r.Errorf("got %d of %d records of another resource left, want all: its token is the mark", got, len(others))
	}
	r.keyed(old[0], sale(in), t6) // the key is free again
	r.wantRecord(in, "sold", string(storage.Counter(2*many+20+1)), 0)
}

// sweep: what no commit comes by to remove, a sweep does.
func sweep(r *run) {
	const many = 40
	superseded, ended, current, fresh := r.held(5), r.held(5), r.held(5), r.held(5)
	for _, t := range []fencing.Token{superseded, ended, current, fresh} {
		r.sell(t, "k", many)
	}
	for _, t := range []fencing.Token{superseded, ended, current} {
		r.h.Aged(r, r.s, t.Resource)
	}
	r.raised(superseded.Resource, 6)
	r.raised(fresh.Resource, 6)
	r.ok(r.s.Fence.Retire(r.Context(), ended), "retire")
	n, err := r.h.Sweep(r.Context(), r.s)
	r.ok(err, "sweep")
	keys := make([]string, many)
	for i := range keys {
		keys[i] = fmt.Sprintf("k-%d", i)
	}
	for _, c := range []struct {
		name string
		t    fencing.Token
		want int
	}{
		{"superseded", superseded, 0},
		{"retired", ended, 0},
		{"the mark", current, many},
		{"not overdue", fresh, many},
	} {
		if got := r.kept(token(c.t.Resource, 4), keys); got != c.want {
			r.Errorf("%s: got %d of %d records left, want %d", c.name, got, many, c.want)
		}
	}
	if n < 2*many {
		r.Errorf("the sweep says that it removed %d, want %d or more", n, 2*many)
	}
}
