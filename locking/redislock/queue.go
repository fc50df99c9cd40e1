package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/locking"
)

// MaxStall is what [Backend.MaxStall] returns. Say the lock is free, or its holder's time is
// up, and the last of any number of dead waiters has called Join for the last time. Their
// places are dead PlaceTTL later. Until then the lock may be pushed to one after another of
// them; the last of these pushes comes before their places are dead and is over PushTTL
// after it. Within LookEvery of that a live waiter looks, finds the lock free, and so serves
// the line, in which only the living are left. What calls take on their way comes on top.
const MaxStall = locking.PlaceTTL + locking.PushTTL + locking.LookEvery

// MaxStall implements locking.Waiter: it is the constant [MaxStall], 8 seconds.
func (b *Backend) MaxStall() time.Duration { return MaxStall }

// Join implements locking.Waiter. Where the lock is free and nobody waits it is as cheap as
// TryAcquire and starts nothing. wake is called with locks of this Backend taken: it must
// not call the Backend.
//
// A Join that failed leaves what was before: without a place there is nothing to leave. If
// its outcome is unknown there may be a place, so the caller goes on, or leaves.
func (b *Backend) Join(ctx context.Context, r locking.Request, wake func()) (locking.Hold, error) {
	if err := r.Validate(); err != nil {
		return locking.Hold{}, err
	}
	if wake == nil {
		return locking.Hold{}, &fencing.InvalidError{What: "wake", Allowed: "a function, not nil"}
	}
	// Before the script: word may come before its reply.
	added := b.wakes.add(r, wake)
	h, err := b.attempt(ctx, r, b.wakes.channel)
	switch fencing.OutcomeOf(err) {
	case fencing.Applied:
		b.wakes.remove(r)
	case fencing.Refused:
		if errors.Is(err, locking.ErrHeld) {
			b.wakes.await(r)
		} else {
			b.wakes.remove(r)
		}
	case fencing.Failed:
		if added {
			b.wakes.remove(r)
		}
	case fencing.Unknown:
	}
	return h, err
}

// Leave implements locking.Waiter.
func (b *Backend) Leave(ctx context.Context, r locking.Request) error {
	if err := r.Validate(); err != nil {
		return err
	}
	b.wakes.remove(r)
	_, err := leave.Run(ctx, b.client, redisx.Call{Keys: b.keys(r.Resource), Args: []any{r.Grant}})
	return err
}
