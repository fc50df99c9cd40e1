package pgstore

import (
	"context"

	"github.com/fencegate/fencegate/internal/pgtx"
)

// Warnings tells, in words, which settings of the server or of this pool's role weaken
// what package storage promises, or show grant ids, which are secrets; none is good.
func (b *Backend) Warnings(ctx context.Context) ([]string, error) {
	return pgtx.Warnings(ctx, b.pool, &pgtx.Words{
		Configure: "pgstore.Configure", Counts: "counts as applied",
		Commit: "fenced transactions switch it on, but whatever else writes to this database can lose what was acknowledged",
	})
}
