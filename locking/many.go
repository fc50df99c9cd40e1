package locking

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Leases are leases on several resources, taken out together.
type Leases []*Lease

// Tokens returns the token of each, in order: what a commit over all of them needs.
func (l Leases) Tokens() []fencing.Token {
	tokens := make([]fencing.Token, len(l))
	for i, lease := range l {
		tokens[i] = lease.Token()
	}
	return tokens
}

// Release releases every lease, the last first, and joins the errors.
func (l Leases) Release(ctx context.Context) error {
	var err error
	for _, lease := range slices.Backward(l) {
		err = errors.Join(err, lease.Release(ctx))
	}
	return err
}

// AcquireAll takes out a lease on every resource, or on none: for work that spans several.
// It takes them in sorted order, so that two callers never wait for each other, and returns
// them in the order of its arguments. ctx and Options.Wait bound the whole. Errors: those
// of Acquire, and a [*fencing.InvalidError] for no resources or the same one twice.
func (l *Locker) AcquireAll(ctx context.Context, resources ...string) (_ Leases, err error) {
	sorted := slices.Sorted(slices.Values(resources))
	if len(sorted) == 0 || len(slices.Compact(slices.Clone(sorted))) != len(sorted) {
		return nil, &fencing.InvalidError{What: "resources", Allowed: "one or more, each of them once"}
	}
	end := time.Now().Add(l.o.Wait)
	held := make(map[string]*Lease, len(sorted))
	var taken Leases
	for _, resource := range sorted {
		wait := l.o.Wait
		if wait > 0 {
			wait = max(0, time.Until(end))
		}
		lease, err := l.acquire(ctx, resource, wait)
		if err != nil {
			return nil, errors.Join(err, taken.Release(ctx))
		}
		held[resource] = lease
		taken = append(taken, lease)
	}
	all := make(Leases, len(resources))
	for i, resource := range resources {
		all[i] = held[resource]
	}
	return all, nil
}

// AcquireAny takes out a lease on one of the resources, whichever is free: for stock that is
// split into buckets. It begins at a random one and tries the next at once where one is
// taken; while all are, it looks again and again, in no order of arrival. ctx and
// Options.Wait bound the waiting. Errors: those of Acquire (the *HeldError is that of one
// of them), and a [*fencing.InvalidError] for no resources.
func (l *Locker) AcquireAny(ctx context.Context, resources ...string) (*Lease, error) {
	if len(resources) == 0 {
		return nil, &fencing.InvalidError{What: "resources", Allowed: "one or more"}
	}
	var over <-chan time.Time
	if l.o.Wait > 0 {
		timer := time.NewTimer(l.o.Wait)
		defer timer.Stop()
		over = timer.C
	}
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		var held *HeldError
		for i, first := 0, rand.IntN(len(resources)); i < len(resources); i++ {
			lease, err := l.acquire(ctx, resources[(first+i)%len(resources)], 0)
			h, ok := errors.AsType[*HeldError](err)
			if !ok {
				return lease, err
			}
			if held == nil || h.Remaining < held.Remaining {
				held = h
			}
		}
		look := time.NewTimer(untilNextLook(pause, held.Remaining))
		select {
		case <-look.C:
		case <-over:
			look.Stop()
			return nil, held
		case <-ctx.Done():
			look.Stop()
			return nil, errors.Join(held, ended(ctx))
		}
	}
}
