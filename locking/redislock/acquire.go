package redislock

import (
	"context"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/locking"
)

// TryAcquire implements locking.Backend. A free lock that somebody waits for goes to the
// first in line: the caller is told that it is held.
func (b *Backend) TryAcquire(ctx context.Context, r locking.Request) (locking.Hold, error) {
	if err := r.Validate(); err != nil {
		return locking.Hold{}, err
	}
	h, err := b.attempt(ctx, r, "")
	if err == nil {
		b.wakes.remove(r) // it may have joined before
	}
	return h, err
}

// attempt asks for the lock once. With a channel, r takes or keeps its place in line where
// the lock is not granted.
func (b *Backend) attempt(ctx context.Context, r locking.Request, channel string) (locking.Hold, error) {
	reply, err := b.sender.Run(ctx, acquire, redisx.Call{
		Keys: b.keys(r.Resource),
		Args: []any{r.Grant, r.Label, millis(r.TTL), decimal(r.Floor), channel},
	})
	if err != nil {
		return locking.Hold{}, err
	}
	switch {
	case reply[0] == "hold" && len(reply) == 4:
		number, left, err := numberAndTime(reply[1], reply[3])
		if err != nil {
			return locking.Hold{}, err
		}
		return locking.Hold{
			Token:     fencing.Token{Resource: r.Resource, Number: number, Grant: r.Grant},
			Drawn:     reply[2] == "1",
			Remaining: left,
		}, nil
	case reply[0] == "held" && len(reply) == 4:
		number, left, err := numberAndTime(reply[1], reply[3])
		if err != nil {
			return locking.Hold{}, err
		}
		return locking.Hold{}, &locking.HeldError{Resource: r.Resource, Number: number, Label: reply[2], Remaining: left}
	}
	return locking.Hold{}, refused(reply)
}

// Transfer implements locking.Transferrer. Besides its errors there is a
// [*fencing.InvalidError], also for two resources or twice the same grant.
func (b *Backend) Transfer(ctx context.Context, from fencing.Token, r locking.Request) (locking.Hold, error) {
	if err := r.ValidateTransfer(from); err != nil {
		return locking.Hold{}, err
	}
	reply, err := b.sender.Run(ctx, transfer, redisx.Call{
		Keys: b.keys(r.Resource),
		Args: []any{decimal(from.Number), from.Grant, r.Grant, r.Label, millis(r.TTL), decimal(r.Floor)},
	})
	if err != nil {
		return locking.Hold{}, err
	}
	if reply[0] != "hold" || len(reply) != 2 {
		return locking.Hold{}, refused(reply)
	}
	number, left, err := numberAndTime(reply[1], millis(r.TTL))
	if err != nil {
		return locking.Hold{}, err
	}
	b.wakes.remove(r)
	return locking.Hold{
		Token: fencing.Token{Resource: r.Resource, Number: number, Grant: r.Grant}, Drawn: true, Remaining: left,
	}, nil
}

// refused is the error for an answer that grants nothing and does not name a holder.
func refused(reply []string) error {
	switch reply[0] {
	case "lost":
		return locking.ErrLost
	case "exhausted":
		return locking.ErrExhausted
	}
	return strange(reply[0])
}
