package pglock

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/locking"
)

// TryAcquire implements locking.Backend.
func (b *Backend) TryAcquire(ctx context.Context, r locking.Request) (locking.Hold, error) {
	if err := r.Validate(); err != nil {
		return locking.Hold{}, err
	}
	for n := 1; ; n++ {
		hold, verdict, err := b.attempt(ctx, r, nil)
		if err != nil || verdict != "busy" {
			return hold, err
		}
		// Another call is not a hold: it may end with the lock free. But if it stays, somebody
		// has the row, and the caller shall look again.
		if n == looks {
			return locking.Hold{}, &locking.HeldError{Resource: r.Resource}
		}
		if !pause(ctx) {
			return locking.Hold{}, fencing.AsFailed(ctx.Err())
		}
	}
}

// attempt asks for the lock, once. channel is nil for a single attempt, and else where a
// request that waits is told.
func (b *Backend) attempt(ctx context.Context, r locking.Request, channel *string) (hold locking.Hold, verdict string, err error) {
	var label string
	var remaining int64
	t := fencing.Token{Resource: r.Resource, Grant: r.Grant}
	var drawn bool
	call := b.call
	if channel != nil {
		call = b.wait
	}
	err = call(ctx, pgtx.Row(&verdict, &t.Number, &drawn, &label, &remaining),
		acquireSQL, r.Resource, r.Grant, r.Label, r.TTL.Milliseconds(), r.Floor, channel)
	if err != nil {
		return hold, "", err
	}
	switch verdict {
	case "granted":
		return locking.Hold{Token: t, Drawn: drawn, Remaining: fromMS(remaining)}, verdict, nil
	case "held":
		return hold, verdict, &locking.HeldError{Resource: r.Resource, Number: t.Number, Label: label, Remaining: fromMS(remaining)}
	case "lost":
		return hold, verdict, locking.ErrLost
	case "exhausted":
		return hold, verdict, locking.ErrExhausted
	}
	return hold, verdict, nil
}

// Renew implements locking.Backend, with one call for all holds. A row that another call is
// at work on is not waited for while others are locked: it is tried again by itself.
func (b *Backend) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	verdicts := make([]error, len(held))
	if err := locking.ValidateTTL(ttl); err != nil {
		return fill(verdicts, nil, err)
	}
	places := make([]int, len(held)) // of what is still to be done
	for i := range places {
		places[i] = i
	}
	for n := 1; len(places) > 0; n++ {
		busy, err := b.renew(ctx, ttl, held, places, verdicts)
		if err != nil {
			return fill(verdicts, places, err)
		}
		places = busy
		if len(places) == 0 {
			break
		}
		if n == looks || !pause(ctx) {
			return fill(verdicts, places, fencing.AsFailed(errBusy))
		}
	}
	return verdicts
}

// fill sets the verdicts at some places; nil means all.
func fill(verdicts []error, places []int, err error) []error {
	if places == nil {
		for i := range verdicts {
			verdicts[i] = err
		}
	}
	for _, i := range places {
		verdicts[i] = err
	}
	return verdicts
}

// renew tries the holds at some places and returns the places of rows that were busy.
func (b *Backend) renew(ctx context.Context, ttl time.Duration, held []fencing.Token, places []int, verdicts []error) ([]int, error) {
	var resources, grants []string
	var numbers []int64
	for _, i := range places {
		resources, grants = append(resources, held[i].Resource), append(grants, held[i].Grant)
		numbers = append(numbers, held[i].Number)
	}
	var busy []int
	err := b.call(ctx, func(rows pgx.Rows) error {
		var i int
		var verdict string
		_, err := pgx.ForEachRow(rows, []any{&i, &verdict}, func() error {
			place := places[i-1]
			switch verdict {
			case "renewed":
				verdicts[place] = nil
			case "lost":
				verdicts[place] = locking.ErrLost
			default:
				busy = append(busy, place)
			}
			return nil
		})
		return err
	}, renewSQL, resources, numbers, grants, ttl.Milliseconds())
	return busy, err
}

// Release implements locking.Backend.
func (b *Backend) Release(ctx context.Context, t fencing.Token) (freed bool, err error) {
	err = b.row(ctx, []any{&freed}, releaseSQL, t.Resource, t.Number, t.Grant)
	return freed && err == nil, err
}

// Evict implements locking.Backend.
func (b *Backend) Evict(ctx context.Context, resource string, number int64) error {
	var had bool
	return b.row(ctx, []any{&had}, evictSQL, resource, number)
}

// Status implements locking.Backend.
func (b *Backend) Status(ctx context.Context, resource string) (locking.Status, error) {
	ctx, cancel := b.reading(ctx)
	defer cancel()
	st := locking.Status{Resource: resource}
	var remaining int64
	rows, err := b.pool.Query(ctx, statusSQL, resource)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&st.Number, &st.Held, &st.Label, &remaining, &st.Waiters}, func() error { return nil })
	}
	if err != nil {
		return locking.Status{}, fencing.AsFailed(pgtx.Scrub(fmt.Errorf("status of %s: %w", resource, err)))
	}
	if !st.Held {
		st.Label = ""
		return st, nil
	}
	st.Remaining = fromMS(remaining)
	return st, nil
}

// List implements locking.Backend.
func (b *Backend) List(ctx context.Context, prefix, after string, limit int) ([]locking.Status, error) {
	ctx, cancel := b.reading(ctx)
	defer cancel()
	rows, err := b.pool.Query(ctx, listSQL, prefix, after, limit)
	if err != nil {
		return nil, fencing.AsFailed(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (locking.Status, error) {
		st := locking.Status{Held: true}
		var remaining int64
		err := row.Scan(&st.Resource, &st.Number, &st.Label, &remaining, &st.Waiters)
		st.Remaining = fromMS(remaining)
		return st, err
	})
	if err != nil {
		return nil, fencing.AsFailed(pgtx.Scrub(err))
	}
	return list, nil
}
