package pglock

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/pgtx"
)

var errBusy = errors.New("another call is at work on the lock")

// caller calls the schema's functions.
type caller struct {
	pool    *pgxpool.Pool
	timeout time.Duration
}

// row is call for a function that returns one row.
func (c caller) row(ctx context.Context, dest []any, sql string, args ...any) error {
	return c.call(ctx, pgtx.Row(dest...), sql, args...)
}

// call runs one function in a transaction of its own, in one round trip.
func (c caller) call(ctx context.Context, read func(pgx.Rows) error, sql string, args ...any) error {
	ctx, wait, cancel := pgtx.Deadline(ctx, c.timeout, c.timeout+c.timeout/10)
	defer cancel()
	return pgtx.Call(ctx, c.pool, pgtx.Limits{Wait: wait}, read, sql, args...)
}

// reading is the context of a call that only reads.
func (c caller) reading(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, _, cancel := pgtx.Deadline(ctx, c.timeout, c.timeout+c.timeout/10)
	return ctx, cancel
}
