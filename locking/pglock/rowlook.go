package pglock

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/locking"
)

// Status implements locking.Backend. Waiters is not known. Where a holder's time is up and its
// session has not ended, it is held with nothing remaining.
func (b *RowLocks) Status(ctx context.Context, resource string) (locking.Status, error) {
	ctx, cancel := b.reading(ctx)
	defer cancel()
	st, _, err := b.look(ctx, resource, "")
	return st, err
}

// look returns the state of a lock, and whether its last grant is this one.
func (b *RowLocks) look(ctx context.Context, resource, grant string) (st locking.Status, same bool, err error) {
	st.Resource = resource
	var remaining int64
	rows, err := b.pool.Query(ctx, rowStatusSQL, resource, grant)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&st.Number, &st.Held, &st.Label, &remaining, &same}, func() error { return nil })
	}
	if err != nil {
		return locking.Status{}, false, fencing.AsFailed(pgtx.Scrub(fmt.Errorf("status of %s: %w", resource, err)))
	}
	if !st.Held {
		st.Label = ""
		return st, same, nil
	}
	st.Remaining = fromMS(remaining)
	return st, same, nil
}

// List implements locking.Backend.
func (b *RowLocks) List(ctx context.Context, prefix, after string, limit int) ([]locking.Status, error) {
	ctx, cancel := b.reading(ctx)
	defer cancel()
	rows, err := b.pool.Query(ctx, rowListSQL, prefix, after, limit)
	if err != nil {
		return nil, fencing.AsFailed(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (locking.Status, error) {
		st := locking.Status{Held: true}
		var remaining int64
		err := row.Scan(&st.Resource, &st.Number, &st.Label, &remaining)
		st.Remaining = fromMS(remaining)
		return st, err
	})
	if err != nil {
		return nil, fencing.AsFailed(pgtx.Scrub(err))
	}
	return list, nil
}
