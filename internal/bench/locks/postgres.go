package locks

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking/pglock"
)

// postgres drains waiters of pglock, and of pg_advisory_lock, for which each waiter blocks a
// connection. There is no goal.
func postgres(ctx context.Context, h *rig.Host, r *report.Report) error {
	server := testenv.StartPostgres(h, &testenv.PostgresOptions{NoSync: true})
	url := rig.Migrated(ctx, h, server)
	blocked, err := rig.Pool(ctx, h, url, waiters+1)
	if err != nil {
		return err
	}
	crowds := []crowd{{"pg_advisory_lock", func(int) locker { return advisory(blocked) }}}
	ours := func(pool *pgxpool.Pool) (locker, error) {
		b, err := pglock.New(ctx, pool, nil)
		if err != nil {
			return nil, err
		}
		desk, err := issuer(b)
		return byIssuer(desk), err
	}
	shared, err := rig.Pool(ctx, h, url, 20)
	if err != nil {
		return err
	}
	one, err := ours(shared)
	if err != nil {
		return err
	}
	var many []locker
	for range waiters + 1 {
		l, err := ours(shared)
		if err != nil {
			return err
		}
		many = append(many, l)
	}
	crowds = append(crowds,
		crowd{"fencegate pglock, one process", func(int) locker { return one }},
		crowd{"fencegate pglock, 64 processes", func(waiter int) locker { return many[waiter] }})
	_, err = drainAll(ctx, r, "locks-drain-postgres", crowds, "Postgres, 1 ms", time.Millisecond)
	return err
}

func advisory(pool *pgxpool.Pool) locker {
	return func(ctx context.Context, resource string, _ bool) (func() error, error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		if _, err = conn.Exec(ctx, "select pg_advisory_lock(hashtext($1))", resource); err != nil {
			conn.Release()
			return nil, err
		}
		return func() error {
			defer conn.Release()
			_, err := conn.Exec(context.WithoutCancel(ctx), "select pg_advisory_unlock(hashtext($1))", resource)
			return err
		}, nil
	}
}
