package storagetest

import (
	"context"
	"errors"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencingtest"
	"github.com/fencegate/fencegate/storage"
)

// Rule is what a backend adds to its Harness for the table of package fencingtest.
type Rule struct {
	// Set puts a state into the store behind s, past the rule.
	Set func(tb testing.TB, s Subject, resource string, state fencingtest.State)
	// Floors and Incarnations: see fencingtest.Harness.
	Floors, Incarnations bool
}

// RunRule runs the table of verdicts over each way of use: by fenced reads, by commits
// that write, and by commits that only name the token. The ways run in parallel, the
// cases of one way one after the other.
func RunRule(t *testing.T, h Harness, rule Rule) {
	for name, use := range map[string]func(ctx context.Context, s Subject, t fencing.Token) error{
		"read": useRead, "write": useWrite, "name": useName,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fencingtest.Run(t, fencingtest.Harness{
				New: func(tb testing.TB, mode fencing.Mode) fencingtest.Subject {
					s := h.New(tb, mode)
					return &ruleSubject{Fence: s.Fence, s: s, use: use}
				},
				Set: func(tb testing.TB, s fencingtest.Subject, resource string, state fencingtest.State) {
					rule.Set(tb, s.(*ruleSubject).s, resource, state) //nolint:errcheck // New made it
				},
				Unique: unique,
				Floors: rule.Floors, Incarnations: rule.Incarnations,
			})
		})
	}
}

type ruleSubject struct {
	fencing.Fence
	s   Subject
	use func(ctx context.Context, s Subject, t fencing.Token) error
}

func (r *ruleSubject) Use(ctx context.Context, t fencing.Token) error { return r.use(ctx, r.s, t) }

func useRead(ctx context.Context, s Subject, t fencing.Token) error {
	_, err := s.Store.GetFenced(ctx, t, "rule")
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

func useWrite(ctx context.Context, s Subject, t fencing.Token) error {
	_, err := s.Store.Commit(ctx, storage.Commit{
		Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Put(t.Resource, "rule", []byte("x"))},
	})
	return err
}

// useName writes to another resource, whose number is above any floor.
func useName(ctx context.Context, s Subject, t fencing.Token) error {
	other := token("rule-other-"+fencing.NewGrant(), fencing.MaxNumber)
	if err := s.Fence.Raise(ctx, other); err != nil {
		return err
	}
	_, err := s.Store.Commit(ctx, storage.Commit{
		Tokens: []fencing.Token{t, other}, Ops: []storage.Op{storage.Put(other.Resource, "rule", []byte("x"))},
	})
	return err
}
