package fencingtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fencegate/fencegate/fencing"
)

// Subject is one implementation of the rule, with a store's memory behind it.
type Subject interface {
	fencing.Fence
	// Use performs one fenced operation, a read or a write, with t.
	Use(ctx context.Context, t fencing.Token) error
}

// Harness connects an implementation to the table.
type Harness struct {
	// New returns a subject of the given mode. Subjects of one test may share a
	// server: every case has a resource of its own.
	New func(tb testing.TB, mode fencing.Mode) Subject
	// Set puts a state into the store behind s, past the rule.
	Set func(tb testing.TB, s Subject, resource string, state State)
	// Unique returns a resource name that no other test uses.
	Unique func(tb testing.TB, prefix string) string
	// Floors: the store has a floor. Cases with one run on a store of their own,
	// for the floor is the store's and not a resource's.
	Floors bool
	// Incarnations: Set can write a mark of an earlier incarnation.
	Incarnations bool
}

// Run runs the table, and then every combination of small marks and tokens against the
// Go rule.
func Run(t *testing.T, h Harness) {
	shared := map[fencing.Mode]Subject{
		fencing.Strict:  h.New(t, fencing.Strict),
		fencing.Classic: h.New(t, fencing.Classic),
	}
	for _, c := range append(Table(), combinations()...) {
		if c.State.Floor != 0 && !h.Floors || c.State.Inherited && !h.Incarnations {
			continue
		}
		t.Run(fmt.Sprintf("%s/%s/%s", c.Op, c.Mode, c.Name), func(t *testing.T) {
			s := shared[c.Mode]
			if c.State.Floor != 0 {
				s = h.New(t, c.Mode)
			}
			c.Token.Resource = h.Unique(t, "rule")
			h.Set(t, s, c.Token.Resource, c.State)
			check(t, s, c)
		})
	}
}

func check(t *testing.T, s Subject, c Case) {
	t.Helper()
	ctx := t.Context()
	err := do(ctx, s, c)
	switch {
	case c.Invalid:
		if !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("got %v, want an *InvalidError", err)
		}
	case c.Want == "":
		if err != nil {
			t.Errorf("got %v, want accepted", err)
		}
	default:
		stale, ok := errors.AsType[*fencing.StaleError](err)
		if !ok || stale.Reason != c.Want {
			t.Fatalf("got %v, want a *StaleError because of %q", err, c.Want)
		}
		if want := c.State.Seen().Number; stale.Highest != want {
			t.Errorf("got highest %d, want %d", stale.Highest, want)
		}
		if stale.Token != c.Token {
			t.Errorf("got the token %v in the error, want %v", stale.Token, c.Token)
		}
	}
	got, err := s.Mark(ctx, c.Token.Resource)
	if err != nil {
		t.Fatalf("mark: %v", err)
	}
	if got.Number != c.After.Number || got.Retired != c.After.Retired || !got.Retired && got.Grant != c.After.Grant {
		t.Errorf("got the mark %v afterwards, want %v (the grant ids may differ too)", got, c.After)
	}
}

func do(ctx context.Context, s Subject, c Case) error {
	switch c.Op {
	case Use:
		return s.Use(ctx, c.Token)
	case Raise:
		return s.Raise(ctx, c.Token)
	case Retire:
		return s.Retire(ctx, c.Token)
	case Evict:
		return s.Evict(ctx, c.Token)
	}
	return fmt.Errorf("no such operation: %q", c.Op)
}

// combinations returns every small mark with every small token, judged by the Go rule,
// which the table has judged.
func combinations() []Case {
	var cases []Case
	marks := []State{{Absent: true}}
	for _, m := range []fencing.Mark{
		{Number: 2, Grant: GrantA}, {Number: 2, Grant: GrantB}, {Number: 2}, {Number: 2, Retired: true},
	} {
		marks = append(marks, State{Mark: m}, State{Mark: m, Inherited: true})
	}
	for _, mode := range []fencing.Mode{strict, classic} {
		for i, state := range marks {
			for n := int64(1); n <= 3; n++ {
				for _, grant := range []string{GrantA, GrantB, ""} {
					for _, op := range []Op{Use, Raise, Retire, Evict} {
						c := Case{Op: op, Mode: mode, State: state, Token: token(n, grant)}
						c.Name = fmt.Sprintf("combination %d with %d%.1s", i, n, grant)
						c.Want, c.After = judge(c)
						cases = append(cases, c)
					}
				}
			}
		}
	}
	return cases
}

func judge(c Case) (fencing.Reason, fencing.Mark) {
	m := c.State.Seen()
	var err error
	after := m
	switch c.Op {
	case Use:
		if err = m.Check(c.Token, c.Mode); err == nil {
			after, _ = m.Raise(c.Token)
		}
	case Raise:
		if c.Mode == strict && c.Token.Grant == "" {
			return fencing.GrantRequired, m
		}
		after, err = m.Raise(c.Token)
	case Retire:
		after = m.Retire(c.Token)
	case Evict:
		after = m.Evict(c.Token)
	}
	if stale, ok := errors.AsType[*fencing.StaleError](err); ok {
		return stale.Reason, m
	}
	return "", after
}
