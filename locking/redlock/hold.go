package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/locking"
)

// Renew implements locking.Backend. A hold that a majority still has is renewed; one that
// no majority can have any more is lost; otherwise the verdict is unknown.
func (b *Backend) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	verdicts := make([]error, len(held))
	ttlErr := b.validateTTL(ttl)
	var calls []redisx.Call
	var asked []int // the token of each call
	for i, t := range held {
		if verdicts[i] = ttlErr; ttlErr == nil {
			verdicts[i] = t.Validate()
		}
		if verdicts[i] == nil {
			asked = append(asked, i)
			calls = append(calls, b.call(t.Resource, decimal(t.Number), t.Grant, millis(ttl)))
		}
	}
	sent := time.Now()
	replies := b.askFit(ctx, renew, func(int) []redisx.Call { return calls })
	late := time.Since(sent) >= ttl-b.drift(ttl)
	for k, i := range asked {
		one := make([]redisx.Reply, len(b.nodes))
		for n := range b.nodes {
			one[n] = replies[n][k]
		}
		yes, no := answers(one, "held")
		down, err := errorsOf(one)
		switch {
		case yes >= b.quorum && late:
			verdicts[i] = fencing.AsUnknown(errors.New("redlock: the renewal took longer than its TTL"))
		case yes >= b.quorum:
			verdicts[i] = nil
		case no > len(b.nodes)-b.quorum:
			verdicts[i] = locking.ErrLost
		default:
			verdicts[i] = fencing.AsUnknown(b.noMajority(down, err))
		}
	}
	return verdicts
}

// answers counts the nodes that answered with this word, and those with another.
func answers(replies []redisx.Reply, word string) (yes, no int) {
	for _, r := range replies {
		switch {
		case r.Err != nil:
		case r.Values[0] == word:
			yes++
		default:
			no++
		}
	}
	return yes, no
}

// Release implements locking.Backend. It ends the hold on every node. With nodes that did
// not answer, freed is true if a majority may have had the hold.
func (b *Backend) Release(ctx context.Context, t fencing.Token) (bool, error) {
	if err := errors.Join(t.Validate(), fencing.ValidateGrant(t.Grant)); err != nil {
		return false, err
	}
	return b.end(ctx, t.Resource, t.Number, t.Grant)
}

// Evict implements locking.Backend.
func (b *Backend) Evict(ctx context.Context, resource string, number int64) error {
	if err := fencing.ValidateResource(resource); err != nil {
		return err
	}
	if err := fencing.ValidateNumber(number); err != nil {
		return err
	}
	_, err := b.end(ctx, resource, number, "")
	return err
}

func (b *Backend) end(ctx context.Context, resource string, number int64, grantID string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fencing.AsFailed(err)
	}
	call := b.call(resource, decimal(number), grantID)
	replies := b.ask(ctx, release, call)
	freed, none := answers(replies, "freed")
	down, err := errorsOf(replies)
	for i, r := range replies {
		if r.Err != nil {
			b.nodes[i].owe(debt{release, call, time.Now().Add(b.o.MaxTTL)})
		}
	}
	switch {
	case none > len(b.nodes)-b.quorum:
		return false, nil // no majority had it, whatever the others say
	case down >= b.quorum:
		return false, fencing.AsUnknown(b.noMajority(down, err))
	}
	return freed > 0, nil
}
