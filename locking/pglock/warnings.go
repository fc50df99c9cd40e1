package pglock

import (
	"context"

	"github.com/fencegate/fencegate/internal/pgtx"
)

// Warnings implements locking.Checker. synchronous_commit is not among them: what grants and
// ends holds switches it on.
func (b *Backend) Warnings(ctx context.Context) ([]string, error) {
	return pgtx.Warnings(ctx, b.pool, &pgtx.Words{
		Configure: "pglock.Configure", Counts: "grants a lock that a failover may forget",
	})
}
