package storage

import (
	"context"

	"github.com/fencegate/fencegate/fencing"
)

// Backend holds the data of a [Store]. It knows neither modes nor limits: the Store in
// front validates every argument, raises first where the mode is classic, and refuses
// plain numbers where it is strict. A backend must decide by [fencing.Mark.Current], on
// marks of its own incarnation, in the same atomic step as the operation.
//
// All methods must be safe for concurrent use. A backend is given its pool or client
// and closes nothing. Errors carry their outcome: refusals as [*fencing.StaleError] or
// [*RefusedError], fencing.AsFailed only where surely nothing happened and nothing will,
// everything else unknown.
type Backend interface {
	fencing.Fence

	// Apply applies each commit of the batch on its own merits: one that is refused
	// does not touch the others. The answer has one Outcome per commit, in order. The
	// tokens of a commit come sorted by resource.
	Apply(ctx context.Context, batch []Commit) []Outcome

	// Get returns a record, read where writes go, or ErrNotFound.
	Get(ctx context.Context, resource, key string) (Record, error)

	// GetFenced returns a record of t's resource, read in the same atomic step in
	// which t was found to be the mark; a *fencing.StaleError if it is not, and
	// ErrNotFound if it is and there is no record.
	GetFenced(ctx context.Context, t fencing.Token, key string) (Record, error)

	// List returns up to limit records of a resource whose keys begin with prefix and
	// come after the key after, sorted by key as bytes.
	List(ctx context.Context, resource, prefix, after string, limit int) ([]Record, error)
}
