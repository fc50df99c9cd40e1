package storage

import (
	"context"
	"errors"

	"github.com/fencegate/fencegate/fencing"
)

// Validate says whether Commit would refuse c for its form: the operations, their sizes, the key.
// It is for those who would have to take locks before they can send the commit; tokens are not
// looked at. The error is a [*fencing.InvalidError].
func (s *Store) Validate(c Commit) error {
	c.Key = "" // its record is not looked up, so its fingerprint is not needed
	_, err := s.untaken(c, "")
	return err
}

// Answered returns the answer that is on record for the commit's key, if there is one, and
// changes nothing: it is for those who would have to take locks before they can send the commit.
// The resources are those of the operations; tokens are not looked at. The error is what Commit
// returned for the key before, [ErrKeyReused] for another commit's key, both with found; else a
// [*fencing.InvalidError] or another refusal of the look-up itself, or failed: nothing is known
// then, and nothing was done.
//
// A commit with this key that is in flight may be answered later: not found means only that it
// may be sent.
func (s *Store) Answered(ctx context.Context, c Commit) (res Result, found bool, err error) {
	if c.Key == "" {
		return Result{}, false, invalid("commit", "a key to look up")
	}
	// The look-up comes before the fence: a commit whose tokens are surely not the mark is
	// answered from the record, or refused.
	if c, err = s.untaken(c, fencing.NewGrant()); err != nil {
		return Result{}, false, err
	}
	out := s.b.Apply(ctx, []Commit{c})[0]
	_, data := errors.AsType[*RefusedError](out.Err)
	switch {
	case errors.Is(out.Err, fencing.ErrStale):
		return Result{}, false, nil
	case out.Err == nil:
		return out.Result, out.Result.Replayed, nil
	case !data && fencing.OutcomeOf(out.Err) == fencing.Unknown:
		return Result{}, false, &lookupError{out.Err}
	}
	return Result{}, data, out.Err
}

// untaken validates c, with tokens of a grant that never was.
func (s *Store) untaken(c Commit, grant string) (Commit, error) {
	c.Tokens = nil
	seen := map[string]bool{}
	for _, op := range c.Ops {
		if !seen[op.Resource] {
			seen[op.Resource] = true
			c.Tokens = append(c.Tokens, fencing.Token{Resource: op.Resource, Number: 1, Grant: grant})
		}
	}
	return s.prepare(c)
}

// lookupError is a look-up whose reply was lost: it had nothing to do but look.
type lookupError struct{ err error }

func (e *lookupError) Error() string            { return "look up an idempotency key: " + e.err.Error() }
func (e *lookupError) As(target any) bool       { return errors.As(e.err, target) }
func (e *lookupError) Outcome() fencing.Outcome { return fencing.Failed }
func (e *lookupError) Is(target error) bool {
	return target == fencing.ErrFailed || target != fencing.ErrUnknown && errors.Is(e.err, target)
}
