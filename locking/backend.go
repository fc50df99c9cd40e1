package locking

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Request asks for a grant.
type Request struct {
	// Resource is what to lock.
	Resource string
	// Grant is the grant id: fencing.NewGrant for every new attempt, the same again to
	// ask after an attempt whose reply was lost. A secret, which JSON hides too.
	Grant string `json:"-"`
	// Label is what the holder calls itself, shown in Status; at most 200 bytes of
	// printable ASCII. Not a secret.
	Label string
	// TTL is how long the hold lasts without renewal, MinTTL..MaxTTL.
	TTL time.Duration
	// Wait is how long to wait while another holds the lock: 0 not at all, negative
	// as long as the context lasts. Backends ignore it: each of their calls is one
	// attempt.
	Wait time.Duration
	// Floor is a number that the granted one must exceed: the highest that a store
	// has seen. 0 where there is none.
	Floor int64
}

// The range of TTLs, and the default.
const (
	MinTTL     = 100 * time.Millisecond
	MaxTTL     = time.Hour
	DefaultTTL = 30 * time.Second
)

// Hold is what TryAcquire found or made.
type Hold struct {
	Token fencing.Token
	// Drawn says that this very call drew the token's number. Only whoever drew a
	// number may send it to a store as a raise; anybody else confirms that the mark
	// equals the token.
	Drawn bool
	// Remaining is how long the hold lasted, at least, counted from the moment the
	// call was sent, on the lock store's clock.
	Remaining time.Duration
}

// Status describes a resource's lock, without secrets.
type Status struct {
	Resource  string
	Number    int64         // the last number that was granted; 0 if none ever was
	Held      bool          // a hold has not expired
	Label     string        // the holder's, while held
	Remaining time.Duration // of the hold, while held
	Waiters   int           // how many are known to wait
}

// Backend is a lock store: it grants, numbers and ends holds, one attempt a call. It
// does not know of stores and marks.
//
// All methods must be safe for concurrent use and idempotent in the sense written beside
// them. A backend is given its pool or client and closes nothing; it starts no goroutine.
// Errors carry their outcome: fencing.AsFailed only where surely nothing happened and
// nothing will.
type Backend interface {
	// TryAcquire grants the lock if it is free or its hold has expired; the number is
	// max(last number, r.Floor)+1. Beyond fencing.MaxNumber it returns ErrExhausted.
	//
	//  - Held by another grant: a *HeldError.
	//  - Held by r.Grant with a number above r.Floor: the same hold, Drawn false; a
	//    repeat never extends a hold.
	//  - Held by r.Grant with a number up to r.Floor: the same hold under a new number,
	//    Drawn true; its expiry stays.
	//  - r.Grant is the last grant of the resource and has ended (released, evicted or
	//    expired): ErrLost. So a delayed repeat does not take the lock again.
	TryAcquire(ctx context.Context, r Request) (Hold, error)

	// Renew lets each hold last for at least ttl from now, on the lock store's clock. It
	// never brings an expiry nearer and never revives an ended hold: that is ErrLost.
	// A hold is matched by number and grant. The answer has one verdict per token.
	Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error

	// Release ends t's hold, matched by number and grant. freed is false, without an
	// error, if there was no such hold any more.
	Release(ctx context.Context, t fencing.Token) (freed bool, err error)

	// Evict ends the hold of this number, whoever's it is; it does nothing if there is
	// none. Afterwards its grant gets ErrLost.
	Evict(ctx context.Context, resource string, number int64) error

	// Status returns the state of one resource; the zero Status with its name if it was
	// never locked.
	Status(ctx context.Context, resource string) (Status, error)

	// List returns up to limit resources that are held, whose names begin with prefix
	// and come after the name after, sorted by name as bytes.
	List(ctx context.Context, prefix, after string, limit int) ([]Status, error)
}
