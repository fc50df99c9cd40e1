package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// alone says how a commit without tokens takes the locks that it needs.
type alone struct {
	wait  *time.Duration // nil: it does not
	label string
}

// commitAlone takes the locks of the commit's resources, commits, and frees them: in one call by
// a gateway, else step by step.
func (t *target) commitAlone(ctx context.Context, std stdio, c storage.Commit, a alone) (storage.Result, error) {
	a.label = cmp.Or(a.label, hostLabel())
	if t.gateway != nil {
		return t.gateway.Store().CommitLocked(ctx, c, &client.LockOptions{Wait: *a.wait, Label: a.label})
	}
	if t.local != nil && c.Key != "" { // before anybody waits for a lock
		bound, cancel := t.bound(ctx, 0)
		defer cancel()
		if res, found, err := t.local.Answered(bound, c); found || err != nil {
			return res, err
		}
	}
	if t.local != nil && t.local.Mode() != fencing.Strict {
		return storage.Result{}, &fencing.InvalidError{What: "lock", Allowed: "tokens: an outside lock service grants the locks of a classic store's resources"}
	}
	var resources []string
	for _, op := range c.Ops {
		if !slices.Contains(resources, op.Resource) {
			resources = append(resources, op.Resource)
		}
	}
	locker, err := locking.New(t.issuer, &locking.Options{Label: a.label, Wait: max(*a.wait, 1)})
	if err != nil {
		return storage.Result{}, err
	}
	bound, cancel := t.bound(ctx, *a.wait)
	defer cancel()
	leases, err := locker.AcquireAll(bound, resources...)
	if err != nil {
		return storage.Result{}, err
	}
	c.Tokens = leases.Tokens()
	res, err := t.store.Commit(bound, c)
	if freed := leases.Release(ctx); freed != nil {
		fmt.Fprintln(std.err, "fencegate: the lock may be held until its lease time is over:", reads.of(freed))
	}
	if errors.Is(err, fencing.ErrStale) && fencing.OutcomeOf(err) == fencing.Refused { // not the caller's token
		err = fencing.AsFailed(errors.New("the lock was lost on the way: " + err.Error()))
	}
	return res, err
}
