package locking

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// What a line of waiters is kept by, the same in every lock store that has one.
const (
	// PlaceTTL is how long a place in line is kept after its last Join.
	PlaceTTL = 5 * time.Second
	// PushTTL is the most that a lock lasts which was given to a waiter that has not
	// asked yet; a shorter TTL of its own request stands.
	PushTTL = 2 * time.Second
	// LookEvery is how often a waiter repeats Join, at most: it keeps its place, and
	// finds what a lost word would have told.
	LookEvery = time.Second
)

// Waiter is what a Backend may offer to those who wait, beyond single attempts: a line that
// all processes share, and word when it is worth asking again. The methods are safe for
// concurrent use, for different requests; those for one grant id are called one at a time.
type Waiter interface {
	Backend

	// Join is TryAcquire for a request that waits. Where TryAcquire would answer with a
	// *HeldError, or somebody else's turn comes first, r takes a place at the end of the
	// line, or keeps the place that it has for another PlaceTTL. A release gives the lock
	// to the first in line whose place is alive, for PushTTL at most; that one's next Join
	// is granted the hold, now for its whole TTL, Drawn true. A hold that was given
	// so and expired before anybody asked for it does not count as an ended grant: Join
	// takes a new place. One that was evicted, or given up by Leave, does.
	//
	// wake is called when it is worth asking again, perhaps needlessly, perhaps after Join
	// was granted; a lost word costs no more than LookEvery. It must not block, nor call
	// the backend. Whoever has joined, or may have (a Join whose outcome is unknown), repeats
	// Join until it is granted or refused otherwise, is given the lock by Transfer, or leaves.
	//
	// A backend without a line of its own may do with wake alone.
	Join(ctx context.Context, r Request, wake func()) (Hold, error)

	// Leave gives up r's place; a lock that was given to r and not asked for yet goes to
	// the next in line. Afterwards wake is not called any more, whatever the error. A hold
	// that a Join returned stays.
	Leave(ctx context.Context, r Request) error

	// MaxStall is by how much, at most, waiters of processes that died or stand still
	// delay the others, however many they are: from when the lock was free, or its holder's
	// time was up, and the last of them stood still.
	MaxStall() time.Duration
}

// Transferrer is what a Backend may offer to an issuer whose holder and next waiter are its
// own: one call instead of a release and an attempt.
type Transferrer interface {
	// Transfer ends from's hold and grants the lock to r, whoever else is in line: Drawn
	// true, for r's TTL, with a number above the last one and r.Floor. A place that r has
	// in line is given up. ErrLost if from's hold has ended: then nothing was changed. Any
	// other refusal (ErrExhausted) changes nothing either.
	Transfer(ctx context.Context, from fencing.Token, r Request) (Hold, error)
}

// Checker is what a Backend may offer to operators.
type Checker interface {
	// Warnings says, in a sentence each, how the lock store may lose what it
	// acknowledged as it is set up now; nothing if there is nothing to say. An error says
	// that it could not be asked.
	Warnings(ctx context.Context) ([]string, error)
}
