package fencing

import "context"

// Fence is what a store offers to an issuer: the power over a resource's mark. Each
// method is one atomic step and must be safe for concurrent use. Apart from
// [*StaleError] and [*InvalidError], errors carry their outcome (see [OutcomeOf]):
// [ErrFailed] only where surely nothing happened.
type Fence interface {
	// Raise makes t the mark, see [Mark.Raise]. Where it returns nil, every older
	// token is refused from now on, and transactions of older tokens that were in
	// flight have ended.
	Raise(ctx context.Context, t Token) error

	// Retire ends t where it is the mark, see [Mark.Retire]; else it does nothing
	// and returns nil.
	Retire(ctx context.Context, t Token) error

	// Evict ends t without its holder, see [Mark.Evict].
	Evict(ctx context.Context, t Token) error

	// Mark returns the resource's mark as it is now, read where writes go (never
	// from a replica); [Absent] for a resource never seen. The answer may be old
	// when it arrives: no decision about a write may hang on it.
	Mark(ctx context.Context, resource string) (Mark, error)
}
