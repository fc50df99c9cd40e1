// Package prunetest is the suite for stores that prune marks.
package prunetest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
)

// Pruner is what such a store is.
type Pruner interface {
	storage.Backend
	Prune(ctx context.Context, olderThan time.Duration, progress func(looked, dropped int)) (dropped int, err error)
	Prunable(ctx context.Context, olderThan time.Duration, progress func(looked, dropped int)) (n int, err error)
}

// Subject is one store. Its database is used by nobody else.
type Subject struct {
	Pruner
	// Old makes the mark of a resource two hours older.
	Old func(tb testing.TB, resource string)
	// Inherit makes a mark one of an earlier incarnation.
	Inherit func(tb testing.TB, resource string)
	// Aged makes every mark that is written from here on two hours old.
	Aged func(tb testing.TB)
	// Plain is the error for a store that has taken a plain number.
	Plain error
	// Grants is how often each of the 16 holders of the concurrent scenario is granted the lock.
	Grants int
}

// Run runs the suite.
func Run(t *testing.T, subject func(tb testing.TB) Subject) {
	for name, scenario := range map[string]func(t *testing.T, s Subject){
		"DroppedNumbersAreRefused": droppedNumbers,
		"WhatIsDropped":            whatIsDropped,
		"RuleHolds":                rule,
		"NextGrantIsAbove":         nextGrant,
		"VersionsNeverRepeat":      versions,
		"StopsBetweenSteps":        stops,
		"PlainNumbers":             plainNumbers,
		"PlainAfterGrant":          raisedOver,
		"OperatorIsNotPlain":       operator,
		"Concurrent":               concurrent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, subject(t))
		})
	}
}

func token(resource string, n int64) fencing.Token {
	return fencing.Token{Resource: resource, Number: n, Grant: fencing.NewGrant()}
}

func (s Subject) raise(tb testing.TB, resource string, n int64) fencing.Token {
	tb.Helper()
	t := token(resource, n)
	if err := s.Raise(tb.Context(), t); err != nil {
		tb.Fatalf("raise %v: %v", t, err)
	}
	return t
}

func (s Subject) retire(tb testing.TB, t fencing.Token) {
	tb.Helper()
	if err := s.Retire(tb.Context(), t); err != nil {
		tb.Fatalf("retire %v: %v", t, err)
	}
}

func (s Subject) commit(ctx context.Context, t fencing.Token, ops ...storage.Op) (storage.Result, error) {
	out := s.Apply(ctx, []storage.Commit{{Tokens: []fencing.Token{t}, Ops: ops}})
	return out[0].Result, out[0].Err
}

// put writes a record and returns its version.
func (s Subject) put(tb testing.TB, t fencing.Token, key string) int64 {
	tb.Helper()
	res, err := s.commit(tb.Context(), t, storage.Put(t.Resource, key, []byte("v")))
	if err != nil {
		tb.Fatalf("put by %v: %v", t, err)
	}
	return res.Ops[0].Version
}

// prune prunes, and checks that it was said beforehand what goes.
func (s Subject) prune(tb testing.TB, want int) {
	tb.Helper()
	if n, err := s.Prunable(tb.Context(), time.Hour, nil); err != nil || n != want {
		tb.Errorf("%d marks could be dropped, %v, want %d", n, err, want)
	}
	if n, err := s.Prune(tb.Context(), time.Hour, nil); err != nil || n != want {
		tb.Fatalf("%d marks were dropped, %v, want %d", n, err, want)
	}
	if n, err := s.Prune(tb.Context(), time.Hour, nil); err != nil || n != 0 {
		tb.Errorf("%d marks were dropped when it was done again, %v, want 0", n, err)
	}
}

func (s Subject) mark(tb testing.TB, resource string) fencing.Mark {
	tb.Helper()
	m, err := s.Mark(tb.Context(), resource)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func wantStale(tb testing.TB, what string, err error, reason fencing.Reason) {
	tb.Helper()
	if e, ok := errors.AsType[*fencing.StaleError](err); !ok || e.Reason != reason {
		tb.Errorf("%s: got %v, want a *StaleError because of %q", what, err, reason)
	}
}

// droppedNumbers: a client that was paused with its token wakes up when the mark is gone.
func droppedNumbers(t *testing.T, s Subject) {
	ctx := t.Context()
	paused := s.raise(t, "a", 33)
	s.put(t, paused, "k")
	s.retire(t, s.raise(t, "a", 34))
	s.retire(t, s.raise(t, "b", 40))
	s.Old(t, "a")
	s.Old(t, "b")
	s.prune(t, 2)
	if got, want := s.mark(t, "a"), fencing.Absent(40); got != want {
		t.Errorf("got the mark %v, want %v", got, want)
	}
	_, err := s.commit(ctx, paused, storage.Put("a", "k", []byte("stale")))
	wantStale(t, "a commit of the paused client", err, fencing.Superseded)
	_, err = s.GetFenced(ctx, paused, "k")
	wantStale(t, "its read", err, fencing.Superseded)
	wantStale(t, "its raise", s.Raise(ctx, paused), fencing.Superseded)
	wantStale(t, "a raise of a number that was dropped", s.Raise(ctx, token("a", 34)), fencing.Superseded)
	wantStale(t, "a raise to the floor", s.Raise(ctx, token("a", 40)), fencing.Retired)
	wantStale(t, "a raise of a new resource to the floor", s.Raise(ctx, token("c", 40)), fencing.Retired)
	if err := errors.Join(s.Retire(ctx, paused), s.Evict(ctx, token("a", 40))); err != nil {
		t.Errorf("retire and evict: %v", err)
	}
	if got, want := s.mark(t, "a"), fencing.Absent(40); got != want {
		t.Errorf("afterwards: got the mark %v, want %v", got, want)
	}
	if rec, err := s.Get(ctx, "a", "k"); err != nil || string(rec.Value) != "v" {
		t.Errorf("the record: got %q, %v, want v", rec.Value, err)
	}
	s.put(t, s.raise(t, "a", 41), "k")
	if err := s.Evict(ctx, token("d", 41)); err != nil {
		t.Fatal(err)
	}
	if got, want := s.mark(t, "d"), (fencing.Mark{Number: 41, Retired: true}); got != want {
		t.Errorf("an evicted one: got the mark %v, want %v", got, want)
	}
}

// whatIsDropped: old and retired, nothing else.
func whatIsDropped(t *testing.T, s Subject) {
	const half = 1 << 52
	live := s.raise(t, "live", 7)
	s.Old(t, "live")
	for resource, n := range map[string]int64{"old": 5, "young": 6, "half": half, "bricked": half + 1} {
		s.retire(t, s.raise(t, resource, n))
		if resource != "young" {
			s.Old(t, resource)
		}
	}
	inherited := s.raise(t, "inherited", 8)
	s.Inherit(t, "inherited")
	s.Old(t, "inherited")
	evicted := s.raise(t, "evicted", 9)
	s.Old(t, "evicted")
	if err := s.Evict(t.Context(), evicted); err != nil { // now: it counts from here
		t.Fatal(err)
	}
	raised := s.raise(t, "raised", 3)
	s.retire(t, raised)
	s.Old(t, "raised")
	raised = s.raise(t, "raised", 4)
	s.retire(t, raised)
	s.raise(t, "restarted", 3)
	s.Old(t, "restarted")
	s.raise(t, "restarted", 4)
	s.Inherit(t, "restarted")
	retired := s.raise(t, "retired", 2)
	s.Old(t, "retired")
	s.retire(t, retired)
	s.prune(t, 3)
	for resource, want := range map[string]fencing.Mark{
		"live":      {Number: 7, Grant: live.Grant},
		"young":     {Number: 6, Retired: true},
		"bricked":   {Number: half + 1, Retired: true},
		"evicted":   {Number: 9, Retired: true},
		"raised":    {Number: 4, Retired: true},
		"restarted": {Number: 4, Retired: true},
		"retired":   {Number: 2, Retired: true},
		"old":       fencing.Absent(half),
		"half":      fencing.Absent(half),
		"inherited": fencing.Absent(half),
	} {
		got := s.mark(t, resource)
		if got.Retired {
			got.Grant = "" // of another incarnation it may still be there
		}
		if got != want {
			t.Errorf("%s: got the mark %v, want %v", resource, got, want)
		}
	}
	s.put(t, live, "k")
	_, err := s.commit(t.Context(), inherited, storage.Put("inherited", "k", nil))
	wantStale(t, "a token of an earlier incarnation", err, fencing.Superseded)
}

// nextGrant: an issuer whose lock store has forgotten everything.
func nextGrant(t *testing.T, s Subject) {
	ctx := t.Context()
	grant := func(resource string) (fencing.Token, locking.Issuer) {
		i, err := locking.NewIssuer(memlock.New(), []fencing.Fence{s}, nil)
		if err != nil {
			t.Fatal(err)
		}
		g, err := i.Grant(ctx, locking.Request{Resource: resource, TTL: time.Minute})
		if err != nil {
			t.Fatalf("grant: %v", err)
		}
		return g.Token, i
	}
	s.retire(t, s.raise(t, "a", 999))
	last, i := grant("a")
	if last.Number != 1000 {
		t.Fatalf("got the number %d, want 1000", last.Number)
	}
	s.put(t, last, "k")
	if _, err := i.Release(ctx, last); err != nil {
		t.Fatal(err)
	}
	s.Old(t, "a")
	s.prune(t, 1)
	for _, resource := range []string{"a", "new"} {
		next, _ := grant(resource)
		if next.Number <= last.Number {
			t.Errorf("%s: granted %d after %d had been dropped", resource, next.Number, last.Number)
		}
		if got := s.mark(t, resource); got.Number != next.Number || got.Retired {
			t.Errorf("%s: got the mark %v, want %d", resource, got, next.Number)
		}
		s.put(t, next, "k")
	}
	_, err := s.commit(ctx, last, storage.Put("a", "k", nil))
	wantStale(t, "a commit of the dropped token", err, fencing.Superseded)
}

// versions: a record that is made again has a version that it never had.
func versions(t *testing.T, s Subject) {
	first := s.raise(t, "a", 1)
	kept := s.put(t, first, "kept")
	for range 5 {
		s.put(t, first, "k")
	}
	last := s.put(t, first, "k")
	remove := func(t1 fencing.Token) {
		if _, err := s.commit(t.Context(), t1, storage.Delete(t1.Resource, "k")); err != nil {
			t.Fatal(err)
		}
	}
	remove(first)
	s.retire(t, first)
	s.Old(t, "a")
	// One with a lower version goes later: it must not take the floor back.
	other := s.raise(t, "b", 2)
	s.put(t, other, "k")
	remove(other)
	s.retire(t, other)
	s.prune(t, 1)
	s.Old(t, "b")
	s.prune(t, 1)
	for i, resource := range []string{"a", "b"} {
		tok := s.raise(t, resource, int64(10+i))
		// A commit of more than one operation takes another way through some stores.
		res, err := s.commit(t.Context(), tok, storage.Put(resource, "k2", nil), storage.Add(resource, "k3", 1, 0))
		if err != nil || res.Ops[0].Version <= last || res.Ops[1].Version <= last {
			t.Errorf("%s: got %+v, %v, want versions above %d", resource, res, err, last)
		}
		if v := s.put(t, tok, "k"); v <= last {
			t.Errorf("%s: a record that was made again has version %d, and there was a version %d", resource, v, last)
		}
		remove(tok)
	}
	again := token("a", 20)
	if err := errors.Join(s.Evict(t.Context(), token("e", 20)), s.Raise(t.Context(), again)); err != nil {
		t.Fatal(err)
	}
	if v := s.put(t, again, "kept"); v != kept+1 {
		t.Errorf("a record that was there all the time has version %d, want %d", v, kept+1)
	}
	if v := s.put(t, again, "k"); v <= last+1 {
		t.Errorf("a record that was made a third time has version %d, and there was a version %d", v, last+1)
	}
	if v := s.put(t, s.raise(t, "e", 21), "k"); v <= last {
		t.Errorf("a resource whose mark an eviction made: version %d, want one above %d", v, last)
	}
}

// stops: what is done when it is told to end stays done, and the rest is done later.
func stops(t *testing.T, s Subject) {
	const marks, page = 1500, 1000
	var group sync.WaitGroup
	for first := range 50 {
		group.Go(func() {
			for i := first; i < marks; i += 50 {
				if err := s.Evict(t.Context(), token("r"+strconv.Itoa(i), int64(i+1))); err != nil {
					t.Errorf("evict: %v", err)
				}
			}
		})
	}
	group.Wait()
	s.Old(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, err := s.Prune(ctx, time.Hour, func(looked, dropped int) {
		if looked != page || dropped != page {
			t.Errorf("told of %d and %d, want %d", looked, dropped, page)
		}
		cancel()
	})
	if n != page || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %d, %v, want %d, and that it was cancelled", n, err, page)
	}
	floor := s.mark(t, "none").Number
	if floor < page {
		t.Errorf("got the floor %d, want %d or more", floor, page)
	}
	n, err = s.Prune(t.Context(), time.Hour, nil)
	if n != marks-page || err != nil {
		t.Errorf("later: got %d, %v, want %d", n, err, marks-page)
	}
	if got := s.mark(t, "none").Number; got != marks {
		t.Errorf("got the floor %d, want %d", got, marks)
	}
	for _, age := range []time.Duration{-1, 0, time.Hour - 1} {
		if _, err := s.Prune(t.Context(), age, nil); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%v: got %v, want ErrInvalid", age, err)
		}
		if _, err := s.Prunable(t.Context(), age, nil); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%v: got %v, want ErrInvalid", age, err)
		}
	}
}
