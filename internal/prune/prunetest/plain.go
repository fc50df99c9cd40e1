package prunetest

import (
	"errors"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// plainNumbers: an outside lock service counts for each resource, and cannot be sent above
// a floor.
func plainNumbers(t *testing.T, s Subject) {
	plain := func(resource string, n int64) fencing.Token { return fencing.Token{Resource: resource, Number: n} }
	raised := s.raise(t, "granted", 7)
	if err := s.Raise(t.Context(), plain("granted", 6)); !errors.Is(err, fencing.ErrStale) {
		t.Fatalf("raise 6 behind 7: got %v, want ErrStale", err)
	}
	s.retire(t, raised)
	s.Old(t, "granted")
	s.prune(t, 1) // a number that was refused is none
	for _, first := range []fencing.Token{plain("zk:A", 1000000), plain("zk:B", 8)} {
		if err := errors.Join(s.Raise(t.Context(), first), s.Raise(t.Context(), first), s.Evict(t.Context(), first)); err != nil {
			t.Fatal(err)
		}
		s.Old(t, first.Resource)
		for what, prune := range map[string]func() (int, error){
			"prune": func() (int, error) { return s.Prune(t.Context(), time.Hour, nil) },
			"count": func() (int, error) { return s.Prunable(t.Context(), time.Hour, nil) },
		} {
			if n, err := prune(); n != 0 || !errors.Is(err, s.Plain) || fencing.OutcomeOf(err) != fencing.Failed {
				t.Errorf("%s: got %d, %v, want %v", what, n, err, s.Plain)
			}
		}
	}
	if err := s.Raise(t.Context(), plain("zk:C", 8)); err != nil {
		t.Errorf("a new resource: %v", err)
	}
}

// operator: an eviction has no grant id either, and draws no number.
func operator(t *testing.T, s Subject) {
	for resource, n := range map[string]int64{"a": 5, "b": 6} {
		if resource == "a" {
			s.raise(t, resource, n)
		}
		if err := s.Evict(t.Context(), fencing.Token{Resource: resource, Number: n}); err != nil {
			t.Fatal(err)
		}
		s.Old(t, resource)
	}
	s.prune(t, 2)
}

// raisedOver: a plain number that takes over from a grant is one too.
func raisedOver(t *testing.T, s Subject) {
	s.raise(t, "a", 5)
	if err := s.Raise(t.Context(), fencing.Token{Resource: "a", Number: 6}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Prune(t.Context(), time.Hour, nil); n != 0 || !errors.Is(err, s.Plain) {
		t.Errorf("got %d, %v, want %v", n, err, s.Plain)
	}
}
