package locking

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// IssuerOptions tunes a [LocalIssuer]. The zero value is the default.
type IssuerOptions struct {
	// Poll is the longest time between two looks at a held lock, 1 ms to 1 min, and to
	// 1 s (LookEvery) over a lock store that keeps a line ([Waiter]). A release through the same
	// issuer wakes the next waiter at once, and one elsewhere does where the lock store
	// sends word; else it is seen by looking. Default: 100 ms, with a line 1 s.
	Poll time.Duration
	// MaxWaiters is how many may wait for one resource here, 1 or more; who comes then
	// gets ErrTooManyWaiters. Default: 10,000.
	MaxWaiters int
	// Cleanup bounds what is done after a failed grant or while the caller's context
	// has ended, 10 ms to 1 min. Default: 5 s.
	Cleanup time.Duration
	// OnEvent is told of grants, renewals, releases, evictions and regressions.
	// Default: nobody.
	OnEvent func(fencing.Event)
}

// LocalIssuer is the [Issuer] over a lock store and the stores that guard the data. It
// is safe for concurrent use and needs no closing.
type LocalIssuer struct {
	b           Backend
	waiter      Waiter      // b, if it can
	transferrer Transferrer // b, if it can
	fences      []fencing.Fence
	lines       lines
	attempts    attempts
	o           IssuerOptions
}

var _ Issuer = (*LocalIssuer)(nil)

// NewIssuer binds a lock store to the stores whose marks its grants raise. Without
// fences nobody but a classic store can use the tokens, and an update can be lost between
// a grant and its first write. The error is a [*fencing.InvalidError].
func NewIssuer(b Backend, fences []fencing.Fence, o *IssuerOptions) (*LocalIssuer, error) {
	if b == nil {
		return nil, &fencing.InvalidError{What: "lock backend", Allowed: "one, not nil"}
	}
	for _, f := range fences {
		if f == nil {
			return nil, &fencing.InvalidError{What: "fence", Allowed: "stores, none of them nil"}
		}
	}
	i := &LocalIssuer{b: b, fences: fences}
	if o != nil {
		i.o = *o
	}
	i.waiter, _ = b.(Waiter)
	i.transferrer, _ = b.(Transferrer)
	longest := time.Minute
	if i.waiter != nil {
		longest = LookEvery
	}
	if i.o.Poll == 0 {
		i.o.Poll = 100 * time.Millisecond
		if i.waiter != nil {
			i.o.Poll = LookEvery
		}
	}
	if i.o.MaxWaiters == 0 {
		i.o.MaxWaiters = 10_000
	}
	i.lines.most = i.o.MaxWaiters
	i.lines.handsOver = i.transferrer != nil
	if i.o.Cleanup == 0 {
		i.o.Cleanup = 5 * time.Second
	}
	if i.o.Poll < time.Millisecond || i.o.Poll > longest {
		return nil, &fencing.InvalidError{What: "Poll", Got: i.o.Poll.String(), Allowed: "1ms to " + longest.String()}
	}
	if i.o.MaxWaiters < 1 {
		return nil, &fencing.InvalidError{What: "MaxWaiters", Got: strconv.Itoa(i.o.MaxWaiters), Allowed: "1 or more"}
	}
	if i.o.Cleanup < 10*time.Millisecond || i.o.Cleanup > time.Minute {
		return nil, &fencing.InvalidError{What: "Cleanup", Got: i.o.Cleanup.String(), Allowed: "10ms to 1m"}
	}
	return i, nil
}

// Renew implements [Issuer].
func (i *LocalIssuer) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	verdicts := make([]error, len(held))
	bad := ValidateTTL(ttl)
	asked := make([]fencing.Token, 0, len(held))
	places := make([]int, 0, len(held)) // of what is asked
	for k, t := range held {
		if verdicts[k] = bad; bad == nil {
			verdicts[k] = validateHeld(t)
		}
		if verdicts[k] == nil {
			asked, places = append(asked, t), append(places, k)
		}
	}
	if len(asked) == 0 {
		return verdicts
	}
	start := time.Now()
	for k, err := range i.b.Renew(ctx, ttl, asked) {
		verdicts[places[k]] = err
		i.report(fencing.EventRenewed, asked[k], start, err)
	}
	return verdicts
}

// validateHeld checks a token that claims to be a hold's: it needs a grant id.
func validateHeld(t fencing.Token) error {
	return errors.Join(t.Validate(), fencing.ValidateGrant(t.Grant))
}

// Release implements [Issuer].
func (i *LocalIssuer) Release(ctx context.Context, t fencing.Token) (bool, error) {
	if err := validateHeld(t); err != nil {
		return false, err
	}
	start := time.Now()
	err := i.inStores(ctx, func(ctx context.Context, f fencing.Fence) error { return f.Retire(ctx, t) })
	freed, freeErr := i.free(ctx, t)
	if freed || freeErr != nil {
		i.report(fencing.EventReleased, t, start, freeErr)
	}
	switch {
	case err == nil && freeErr == nil:
		return freed, nil
	case freed || err == nil && len(i.fences) > 0:
		return freed, fencing.AsPartial(errors.Join(err, freeErr)) // freed, or retired
	}
	return freed, errors.Join(err, freeErr)
}

// inStores runs fn on every bound store and joins the errors. It leaves half of the time
// that ctx has for what comes after it, so that a store that hangs does not keep the lock
// from being freed.
func (i *LocalIssuer) inStores(ctx context.Context, fn func(context.Context, fencing.Fence) error) error {
	if len(i.fences) == 0 {
		return nil
	}
	limit := i.o.Cleanup
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var errs error
	for _, f := range i.fences {
		errs = errors.Join(errs, fn(ctx, f))
	}
	return errs
}

// Evict implements [Issuer].
func (i *LocalIssuer) Evict(ctx context.Context, resource string, number int64, reason string) error {
	t := fencing.Token{Resource: resource, Number: number}
	if err := t.Validate(); err != nil {
		return err
	}
	start := time.Now()
	st, err := i.b.Status(ctx, resource)
	if err != nil {
		return err
	}
	highest := st.Number
	for _, f := range i.fences {
		m, err := f.Mark(ctx, resource)
		if err != nil {
			return err
		}
		highest = max(highest, m.Number)
	}
	if number > highest {
		return &fencing.InvalidError{
			What: "number", Got: t.String(),
			Allowed: "one that was granted, up to " + fencing.Token{Resource: resource, Number: highest}.String(),
		}
	}
	for k, f := range i.fences {
		if err = f.Evict(ctx, t); err != nil {
			if k > 0 {
				err = fencing.AsPartial(err)
			}
			break
		}
	}
	if err == nil {
		if err = i.b.Evict(ctx, resource, number); err != nil && len(i.fences) > 0 {
			err = fencing.AsPartial(err)
		}
	}
	i.lines.endRun(resource)
	i.lines.wake(resource)
	e := i.event(fencing.EventEvicted, t, start, err)
	if err == nil {
		e.Reason = reason
	}
	i.emit(e)
	return err
}

// Status implements [Issuer]. Waiters counts at least those of this issuer.
func (i *LocalIssuer) Status(ctx context.Context, resource string) (Status, error) {
	if err := fencing.ValidateResource(resource); err != nil {
		return Status{}, err
	}
	st, err := i.b.Status(ctx, resource)
	st.Waiters = max(st.Waiters, i.lines.length(resource))
	return st, err
}

// List implements [Issuer].
func (i *LocalIssuer) List(ctx context.Context, prefix, after string, limit int) ([]Status, error) {
	for _, name := range []string{prefix, after} {
		if name != "" {
			if err := fencing.ValidateResource(name); err != nil {
				return nil, err
			}
		}
	}
	if limit < 1 || limit > 1000 {
		return nil, &fencing.InvalidError{What: "limit", Allowed: "1 to 1000"}
	}
	list, err := i.b.List(ctx, prefix, after, limit)
	for k := range list {
		list[k].Waiters = max(list[k].Waiters, i.lines.length(list[k].Resource))
	}
	return list, err
}

func (i *LocalIssuer) event(kind fencing.EventKind, t fencing.Token, start time.Time, err error) fencing.Event {
	e := fencing.Event{Time: time.Now(), Kind: kind, Resource: t.Resource, Number: t.Number, Elapsed: time.Since(start)}
	fencing.Explain(&e, err)
	return e
}

func (i *LocalIssuer) report(kind fencing.EventKind, t fencing.Token, start time.Time, err error) {
	i.emit(i.event(kind, t, start, err))
}

func (i *LocalIssuer) emit(e fencing.Event) {
	if i.o.OnEvent != nil {
		i.o.OnEvent(e)
	}
}
