package pglock

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// MaxStall is what [Backend.MaxStall] returns, 8 s. A waiter that stands still is in line
// until PlaceTTL after its last Join, and so is given the lock before that, if at all; the last
// that is given it has it for PushTTL; and whoever asks then finds that its time is up, which
// those who are alive do every LookEvery at least. It passes over all the other dead at once.
const MaxStall = locking.PlaceTTL + locking.PushTTL + locking.LookEvery

// MaxStall implements locking.Waiter.
func (*Backend) MaxStall() time.Duration { return MaxStall }

// Join implements locking.Waiter, with a line in the database. A request that waits for
// another call at work on the row does so for LookEvery at most, and then gets a *HeldError
// that knows nothing, maybe without having a place. A Join that failed leaves what was
// before: without a place there is nothing to leave.
//
// wake is called with a lock held, and so must not call the backend.
func (b *Backend) Join(ctx context.Context, r locking.Request, wake func()) (locking.Hold, error) {
	if wake == nil {
		wake = func() {}
	}
	if err := r.Validate(); err != nil {
		b.word.remove(r)
		return locking.Hold{}, err
	}
	added := b.word.add(r, wake) // before it is sent, so that no word of it is missed
	hold, _, err := b.attempt(ctx, r, &b.word.channel)
	if waitIsOver(err) {
		err = &locking.HeldError{Resource: r.Resource}
	}
	switch fencing.OutcomeOf(err) {
	case fencing.Applied:
		b.word.remove(r)
	case fencing.Refused:
		if errors.Is(err, locking.ErrHeld) {
			b.word.listen()
		} else {
			b.word.remove(r)
		}
	case fencing.Failed:
		if added {
			b.word.remove(r)
		}
	case fencing.Unknown: // it may have a place
	}
	return hold, err
}

// Leave implements locking.Waiter.
func (b *Backend) Leave(ctx context.Context, r locking.Request) error {
	b.word.remove(r)
	return b.row(ctx, []any{nil}, leaveSQL, r.Resource, r.Grant)
}

// Transfer implements locking.Transferrer. A request for another resource than from's, or by
// the same grant, is refused with a *fencing.InvalidError.
func (b *Backend) Transfer(ctx context.Context, from fencing.Token, r locking.Request) (locking.Hold, error) {
	if err := r.Validate(); err != nil {
		return locking.Hold{}, err
	}
	if r.Resource != from.Resource || r.Grant == from.Grant {
		return locking.Hold{}, &fencing.InvalidError{What: "transfer", Allowed: "to another grant of the same resource"}
	}
	var verdict string
	t := fencing.Token{Resource: r.Resource, Grant: r.Grant}
	err := b.row(ctx, []any{&verdict, &t.Number}, transferSQL,
		from.Resource, from.Number, from.Grant, r.Grant, r.Label, r.TTL.Milliseconds(), r.Floor)
	switch {
	case err != nil:
		return locking.Hold{}, err
	case verdict == "lost":
		return locking.Hold{}, locking.ErrLost
	case verdict == "exhausted":
		return locking.Hold{}, locking.ErrExhausted
	}
	b.word.remove(r)
	return locking.Hold{Token: t, Drawn: true, Remaining: r.TTL}, nil
}
