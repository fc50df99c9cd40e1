package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
)

// Raise implements fencing.Fence, in one round trip. It waits for the fenced transactions
// of older tokens in flight, until the context's deadline or Options.RaiseTimeout; if they
// have not ended by then, it has failed.
func (b *Backend) Raise(ctx context.Context, t fencing.Token) error {
	var refusal *string
	var highest int64
	err := b.change(ctx, "raise", t, raiseSQL, &refusal, &highest)
	if err == nil && refusal != nil {
		return &fencing.StaleError{Token: t, Highest: highest, Reason: fencing.Reason(*refusal)}
	}
	return err
}

// Retire implements fencing.Fence, in one round trip. It waits for transactions as Raise does.
func (b *Backend) Retire(ctx context.Context, t fencing.Token) error {
	var was bool
	return b.change(ctx, "retire", t, retireSQL, &was)
}

// Evict implements fencing.Fence, in one round trip. It waits for transactions as Raise does.
func (b *Backend) Evict(ctx context.Context, t fencing.Token) error {
	var changed bool
	return b.change(ctx, "evict", t, evictSQL, &changed)
}

// change calls one of the functions that change a mark, and scans its one row.
func (b *Backend) change(ctx context.Context, verb string, t fencing.Token, sql string, dest ...any) error {
	wait := b.o.RaiseTimeout
	if deadline, ok := ctx.Deadline(); ok {
		// The server gives up a little before the context does: its answer says for sure that
		// nothing happened, silence does not.
		left := time.Until(deadline)
		wait = left - min(left/10, 100*time.Millisecond)
	} else {
		// lock_timeout counts each wait; this bounds all of them, and a server that is gone.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*wait+5*time.Second)
		defer cancel()
	}
	err := b.call(ctx, wait, func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, dest, func() error { return nil })
		return err
	}, sql, t.Resource, t.Number, t.Grant)
	if hasCode(err, lockNotAvailable) {
		return fencing.AsFailed(fmt.Errorf("%s %v: a transaction holds the mark since more than %v: %w", verb, t, wait.Round(time.Millisecond), err))
	}
	return err
}

// Mark implements fencing.Fence.
func (b *Backend) Mark(ctx context.Context, resource string) (fencing.Mark, error) {
	var m fencing.Mark
	err := b.pool.QueryRow(ctx, marksSQL, []string{resource}).Scan(nil, &m.Number, &m.Grant, &m.Retired)
	if err != nil {
		return fencing.Mark{}, fencing.AsFailed(scrub(err))
	}
	return m, nil
}
