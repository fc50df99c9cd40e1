package prunetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencingtest"
	"github.com/fencegate/fencegate/storage"
)

// rule is that part of the table of verdicts that is about a floor, with one that comes from
// pruning. No case raises the floor, and each has a resource of its own.
func rule(t *testing.T, s Subject) {
	const floor = 9
	if err := s.Evict(t.Context(), token("pruned", floor)); err != nil {
		t.Fatal(err)
	}
	s.Old(t, "pruned")
	s.prune(t, 1)
	cases := 0
	for i, c := range fencingtest.Table() {
		if c.State.Floor != floor {
			continue
		}
		cases++
		for name, use := range map[string]func(context.Context, *storage.Store, fencing.Token) error{"read": read, "write": put} {
			c.Token.Resource = fmt.Sprintf("%s%d", name, i)
			if !c.State.Absent {
				t.Fatalf("%s: a mark beside the floor, which this does not make", c.Name)
			}
			if got := s.mark(t, c.Token.Resource); got != fencing.Absent(floor) {
				t.Fatalf("got the mark %v, want %v", got, fencing.Absent(floor))
			}
			t.Run(fmt.Sprintf("%s/%s/%s/%s", c.Op, c.Mode, c.Name, name), func(t *testing.T) {
				verdict(t, s, c, use)
			})
		}
	}
	if cases < 6 {
		t.Errorf("the table has %d cases with the floor %d, want 6 or more", cases, floor)
	}
}

func verdict(t *testing.T, s Subject, c fencingtest.Case, use func(context.Context, *storage.Store, fencing.Token) error) {
	t.Helper()
	front, err := storage.New(s.Pruner, &storage.Options{Mode: c.Mode})
	if err != nil {
		t.Fatal(err)
	}
	switch c.Op {
	case fencingtest.Use:
		err = use(t.Context(), front, c.Token)
	case fencingtest.Raise:
		err = front.Raise(t.Context(), c.Token)
	case fencingtest.Retire:
		err = front.Retire(t.Context(), c.Token)
	case fencingtest.Evict:
		err = front.Evict(t.Context(), c.Token)
	}
	stale, _ := errors.AsType[*fencing.StaleError](err)
	if c.Want == "" && err != nil || c.Want != "" && (stale == nil || stale.Reason != c.Want) {
		t.Errorf("got %v, want %q", err, c.Want)
	}
	if got := s.mark(t, c.Token.Resource); got.Number != c.After.Number || got.Retired != c.After.Retired {
		t.Errorf("got the mark %v afterwards, want %v", got, c.After)
	}
}

func read(ctx context.Context, s *storage.Store, t fencing.Token) error {
	_, err := s.GetFenced(ctx, t, "k")
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

func put(ctx context.Context, s *storage.Store, t fencing.Token) error {
	_, err := s.Put(ctx, t, "k", nil)
	return err
}
