package pgstore

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/internal/prune"
)

// PruneYoung is Prune without a least age.
func (b *Backend) PruneYoung(ctx context.Context, olderThan time.Duration) (dropped int, err error) {
	return prune.Run(ctx, b.pruneStep(olderThan, true), nil)
}
