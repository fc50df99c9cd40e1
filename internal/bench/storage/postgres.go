package storage

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage/pgstore"
)

var (
	//go:embed sql/tables.sql
	tablesSQL string
	//go:embed sql/update_plain.sql
	updatePlainSQL string
	//go:embed sql/update_coupon.sql
	updateCouponSQL string
	//go:embed sql/update_guarded.sql
	updateGuardedSQL string
	//go:embed sql/select_coupon.sql
	selectCouponSQL string
	//go:embed sql/set_coupon.sql
	setCouponSQL string
	//go:embed sql/insert_order.sql
	insertOrderSQL string
	//go:embed sql/enter.sql
	enterSQL string
	//go:embed sql/nothing.sql
	nothingSQL string
	//go:embed sql/protect.sql
	protectSQL string
	//go:embed sql/xids.sql
	xidsSQL string
	//go:embed sql/wal.sql
	walSQL string
	//go:embed sql/hot.sql
	hotSQL string
)

// database is one with fencegate's schema and the tables of a team without it, on a server that
// keeps what it acknowledges.
type database struct {
	server *testenv.Postgres
	url    string
	pool   *pgxpool.Pool
}

// openDatabase starts a server. Nothing runs in it on its own account in the time that a part
// takes: a checkpoint or a vacuum in the turn of one would be counted against it.
func openDatabase(ctx context.Context, h *rig.Host, s Sizes, connections int32) (database, error) {
	d := database{}
	if s.Shared {
		d.server = testenv.SharedPostgres(h)
	} else {
		d.server = testenv.StartPostgres(h, &testenv.PostgresOptions{Settings: []string{
			"checkpoint_timeout = 1h", "max_wal_size = 8GB", "autovacuum = off",
		}})
	}
	d.url = rig.Migrated(ctx, h, d.server)
	var err error
	if d.pool, err = rig.Pool(ctx, h, d.url, connections); err != nil {
		return d, err
	}
	_, err = d.pool.Exec(ctx, tablesSQL)
	return d, err
}

// through returns a pool of one connection that a proxy counts.
func (d database) through(ctx context.Context, h *rig.Host) (*pgxpool.Pool, *rig.Proxy, error) {
	p := rig.StartPostgresProxy(h, d.server.Addr())
	url, err := rig.Through(d.url, p)
	if err != nil {
		return nil, nil, err
	}
	pool, err := rig.Pool(ctx, h, url, 1)
	return pool, p, err
}

// holder returns a holder in a pgstore on the pool, with its record.
func (d database) holder(ctx context.Context, pool *pgxpool.Pool, resource string) (holder, error) {
	b, err := pgstore.New(ctx, pool, nil)
	if err != nil {
		return holder{}, err
	}
	h, err := granted(ctx, b, resource)
	if err == nil {
		err = h.put(ctx)
	}
	return h, err
}

// plain makes a row of the table that nobody guards, and returns its UPDATE.
func (d database) plain(ctx context.Context, id string) (func(context.Context) error, error) {
	_, err := d.pool.Exec(ctx, "insert into plain values ($1, $2) on conflict do nothing", id, value())
	return func(ctx context.Context) error {
		_, err := d.pool.Exec(ctx, updatePlainSQL, id, value())
		return err
	}, err
}

func (d database) number(ctx context.Context, sql string) (n float64, err error) {
	err = d.pool.QueryRow(ctx, sql).Scan(&n)
	return n, err
}

// wal returns how many bytes of WAL one call of op writes. The first write to a page after
// a checkpoint logs the page; none of these is that.
func (d database) wal(ctx context.Context, n int, op func(context.Context) error) (float64, error) {
	for range n/10 + 1 {
		if err := op(ctx); err != nil {
			return 0, err
		}
	}
	return perOperation(n, func() (float64, error) { return d.number(ctx, walSQL) }, func() error { return op(ctx) })
}

// stock is what a coupon begins with; no benchmark comes to its end.
const stock = 1_000_000_000

func (d database) coupon(ctx context.Context, table, id string) error {
	_, err := d.pool.Exec(ctx, fmt.Sprintf("insert into %s values ($1, $2)", pgx.Identifier{table}.Sanitize()), id, int64(stock))
	return err
}
