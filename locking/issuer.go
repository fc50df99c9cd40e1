package locking

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Issuer is the desk where leases are taken out: it waits, grants, raises the token in
// every bound store, and ends it there again. [NewIssuer] makes the local one; the
// gateway's client is the remote one. All methods must be safe for concurrent use.
type Issuer interface {
	// Grant returns a token once its lock is held and every bound store has it as the
	// mark; until r.Wait has passed it waits for the lock. r.Grant may be empty: then
	// the issuer makes one. Errors: *HeldError when the wait is over, ErrLost for a
	// grant that has ended, ErrExhausted, ErrUnsettled, *fencing.InvalidError, or an
	// error with its outcome. After an error nothing is held, as far as the issuer
	// could see to it: a hold that it could not free ends with its TTL.
	Grant(ctx context.Context, r Request) (Granted, error)

	// Renew is Backend.Renew.
	Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error

	// Release retires t in every bound store and then frees the lock; it frees even
	// where a retire failed, and then returns that error beside freed. freed is false,
	// without an error, if t's hold had ended before. If only some of the steps took
	// effect the outcome is unknown; repeating it is safe.
	Release(ctx context.Context, t fencing.Token) (freed bool, err error)

	// Evict ends the grant of this number without its holder, in the stores first, then
	// in the lock, for a reason that is told to OnEvent. A number above the greatest
	// that the lock or a store has seen is refused with a *fencing.InvalidError. If only
	// some of the steps took effect the outcome is unknown; repeating it is safe.
	Evict(ctx context.Context, resource string, number int64, reason string) error

	// Status is Backend.Status.
	Status(ctx context.Context, resource string) (Status, error)

	// List is Backend.List, limit 1..1000.
	List(ctx context.Context, prefix, after string, limit int) ([]Status, error)
}

// Granted is a grant as it reaches the holder. The hold lasts, at least, until
//
//	the request's sending + Waited + ExpiresIn
//
// on any clock that runs as fast as the lock store's.
type Granted struct {
	Token     fencing.Token
	ExpiresIn time.Duration // what remained of the hold, counted from Waited
	Waited    time.Duration // from the request's arrival to just before the call that set the expiry
}
