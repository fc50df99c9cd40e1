package storage

import (
	"context"
	"errors"
	"slices"

	"github.com/fencegate/fencegate/fencing"
)

// Answered returns the answer that is on record for the commit's key, if there is one, and
// changes nothing: it is for those who would have to take locks before they can send the commit.
// The resources are those of the operations; tokens are not looked at. The error is what Commit
// returned for the key before, [ErrKeyReused] for another commit's key, a
// [*fencing.InvalidError], or one with its outcome; found is false if it is not an answer.
func (s *Store) Answered(ctx context.Context, c Commit) (res Result, found bool, err error) {
	if c.Key == "" {
		return Result{}, false, invalid("commit", "a key to look up")
	}
	// The look-up comes before the fence: a commit whose tokens are surely not the mark is
	// answered from the record, or refused.
	c.Tokens = nil
	for _, op := range c.Ops {
		if !slices.ContainsFunc(c.Tokens, func(t fencing.Token) bool { return t.Resource == op.Resource }) {
			c.Tokens = append(c.Tokens, fencing.Token{Resource: op.Resource, Number: 1, Grant: fencing.NewGrant()})
		}
	}
	if c, err = s.prepare(c); err != nil {
		return Result{}, false, err
	}
	out := s.b.Apply(ctx, []Commit{c})[0]
	_, data := errors.AsType[*RefusedError](out.Err)
	switch {
	case errors.Is(out.Err, fencing.ErrStale):
		return Result{}, false, nil
	case out.Err != nil:
		return Result{}, data, out.Err
	}
	return out.Result, out.Result.Replayed, nil
}
