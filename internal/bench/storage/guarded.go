package storage

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/storage/pgstore"
)

var batchGoals = []report.Goal{
	{Name: "Postgres, SQL in the fence / the same without, time", Unit: "x", Target: 1.10, Better: report.Lower},
	{Name: "Postgres, SQL in the fence, round trips", Unit: "trips", Target: 1, Better: report.Lower},
}

// voucher is a row of a team's table with its token.
type voucher struct {
	database
	id    string
	token fencing.Token
}

// send returns a call that runs statements as one implicit transaction in one round trip, first
// of all the one that gets the token, if there is one.
func (c voucher) send(pool *pgxpool.Pool, first string, statements ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		var b pgx.Batch
		if first != "" {
			b.Queue(first, c.token.Resource, c.token.Text())
		}
		for _, sql := range statements {
			b.Queue(sql, c.id)
		}
		return pool.SendBatch(ctx, &b).Close()
	}
}

// batch compares statements behind enter to the same ones alone.
func batch(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	c, err := stocked(ctx, h, s, "coupons")
	if err != nil {
		return err
	}
	ratios, err := timed(ctx, s, 0.5, c.send(c.pool, "", updateCouponSQL), c.send(c.pool, enterSQL, updateCouponSQL))
	if err != nil {
		return err
	}
	r.Reached(batchGoals[0], ratios...)
	if ratios, err = timed(ctx, s, 0.5, c.send(c.pool, "", updateCouponSQL), c.send(c.pool, nothingSQL, updateCouponSQL)); err != nil {
		return err
	}
	r.Noted("Postgres, SQL behind a statement that does nothing / the same without, time", "x", ratios...)
	ratios, err = timed(ctx, s, 0.5,
		c.send(c.pool, "", updateCouponSQL, insertOrderSQL), c.send(c.pool, enterSQL, updateCouponSQL, insertOrderSQL))
	if err != nil {
		return err
	}
	r.Noted("Postgres, UPDATE and INSERT in the fence / the same without, time", "x", ratios...)

	pool, proxy, err := c.through(ctx, h)
	if err != nil {
		return err
	}
	fenced := c.send(pool, enterSQL, updateCouponSQL)
	n, err := trips(proxy, s.Count/10, func() error { return fenced(ctx) })
	if err != nil {
		return err
	}
	r.Reached(batchGoals[1], n)
	return nil
}

// stocked opens a database with a coupon in each of the tables, and its token.
func stocked(ctx context.Context, h *rig.Host, s Sizes, tables ...string) (voucher, error) {
	c := voucher{id: "42"}
	var err error
	if c.database, err = openDatabase(ctx, h, s, 4); err != nil {
		return c, err
	}
	for _, table := range tables {
		if err := c.coupon(ctx, table, c.id); err != nil {
			return c, err
		}
	}
	b, err := pgstore.New(ctx, c.pool, nil)
	if err != nil {
		return c, err
	}
	holder, err := granted(ctx, b, "coupon:"+c.id)
	c.token = holder.token
	return c, err
}

var guardedGoals = []report.Goal{
	{Name: "Postgres, UPDATE of a guarded table / of a plain one, time", Unit: "x", Target: 1.25, Better: report.Lower},
}

// guarded compares enter, UPDATE and the guard's trigger to the UPDATE of a table without one.
func guarded(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	c, err := stocked(ctx, h, s, "coupons", "guarded")
	if err != nil {
		return err
	}
	if _, err := c.pool.Exec(ctx, protectSQL); err != nil {
		return err
	}
	if err := c.send(c.pool, "", updateGuardedSQL)(ctx); err == nil {
		return errors.New("the guarded table took an UPDATE without a token")
	}
	plain := func(ctx context.Context) error {
		_, err := c.pool.Exec(ctx, updateCouponSQL, c.id)
		return err
	}
	ratios, err := timed(ctx, s, 0.5, plain, c.send(c.pool, enterSQL, updateGuardedSQL))
	if err != nil {
		return err
	}
	r.Reached(guardedGoals[0], ratios...)
	return nil
}
