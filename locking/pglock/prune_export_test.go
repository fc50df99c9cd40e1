package pglock

import (
	"context"
	"time"
)

// PruneYoung is Prune without a least age, with one that may be negative: then what ended less
// than that ago, or will have, goes as well.
func (c caller) PruneYoung(ctx context.Context, olderThan time.Duration) (dropped int, err error) {
	return c.pruneBoth(ctx, olderThan, true, nil)
}
