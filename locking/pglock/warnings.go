package pglock

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/locking"
)

// Warnings implements locking.Checker. synchronous_commit is not among them: what grants and
// ends holds switches it on. A queue of notifications that is half full is.
func (b *Backend) Warnings(ctx context.Context) ([]string, error) {
	list, err := warnings(ctx, b.pool)
	if err != nil {
		return nil, err
	}
	var usage float64
	if err := b.pool.QueryRow(ctx, queueSQL).Scan(&usage); err != nil {
		return nil, fencing.AsFailed(pgtx.Scrub(err))
	}
	if usage >= 0.5 {
		list = append(list, fmt.Sprintf("the server's queue of notifications is full to %.0f %%: waiters look once per %v instead of being woken; "+
			"some session listens and stays in a transaction", usage*100, locking.LookEvery))
	}
	return list, nil
}

func warnings(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	return pgtx.Warnings(ctx, pool, &pgtx.Words{
		Configure: "pglock.Configure", Counts: "grants a lock that a failover may forget",
	})
}
