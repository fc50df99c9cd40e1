package sqlitestore

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/internal/prune"
)

// PruneYoung is Prune without a least age, for what was changed within this second too.
func (b *Backend) PruneYoung(ctx context.Context) (dropped int, err error) {
	return prune.Run(ctx, b.pruneStep(-2*time.Second, true), nil)
}
