package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
)

// Raise implements fencing.Fence, in one round trip. It waits for the fenced transactions
// of older tokens in flight, until the context's deadline or Options.RaiseTimeout; if they
// have not ended by then, it has failed. One that it sees at work for Options.MaxIdle is
// ended.
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
	ctx, wait, cancel := pgtx.Deadline(ctx, b.o.RaiseTimeout, b.changeTimeout())
	defer cancel()
	return b.changeWithin(ctx, wait, verb, t, sql, dest...)
}

// changeTimeout bounds a change whose context has no deadline: lock_timeout counts each wait, this all of them, and a server
// that is gone.
func (b *Backend) changeTimeout() time.Duration { return 2*b.o.RaiseTimeout + 5*time.Second }

// changeWithin is change with a limit for each wait in the server.
func (b *Backend) changeWithin(ctx context.Context, wait time.Duration, verb string, t fencing.Token, sql string, dest ...any) error {
	done := b.watch(ctx, t.Resource)
	err := pgtx.Call(ctx, b.pool, pgtx.Limits{Idle: b.o.MaxIdle, Wait: wait}, pgtx.Row(dest...), sql, t.Resource, t.Number, t.Grant)
	holder := done()
	if pgtx.HasCode(err, pgtx.LockNotAvailable) {
		return fencing.AsFailed(fmt.Errorf("%s %v: waited %v, %s holds the mark: %w", verb, t, wait.Round(time.Millisecond), holder, err))
	}
	return err
}

// Mark implements fencing.Fence.
func (b *Backend) Mark(ctx context.Context, resource string) (fencing.Mark, error) {
	var m fencing.Mark
	err := b.pool.QueryRow(ctx, marksSQL, []string{resource}).Scan(nil, &m.Number, &m.Grant, &m.Retired)
	if err != nil {
		return fencing.Mark{}, fencing.AsFailed(pgtx.Scrub(err))
	}
	return m, nil
}
