package gateway_test

import (
	"sync"
	"testing"
)

// TestDrainMany: who is sent away first may be gone before the last one is told.
func TestDrainMany(t *testing.T) {
	t.Parallel()
	d := newDesk(t, setup{})
	var wg sync.WaitGroup
	for range 2000 {
		ctx, end := d.WaitContext(t.Context())
		wg.Go(func() {
			<-ctx.Done()
			end()
		})
	}
	d.Drain()
	wg.Wait()
}
