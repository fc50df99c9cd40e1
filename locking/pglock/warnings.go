package pglock

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/pgtx"
)

// Warnings implements locking.Checker. synchronous_commit is not among them: what grants and
// ends holds switches it on.
func (b *Backend) Warnings(ctx context.Context) ([]string, error) { return warnings(ctx, b.pool) }

func warnings(ctx context.Context, pool *pgxpool.Pool) ([]string, error) {
	return pgtx.Warnings(ctx, pool, &pgtx.Words{
		Configure: "pglock.Configure", Counts: "grants a lock that a failover may forget",
	})
}
