package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// keeping renews the locks that a commit has while it waits for the others that it needs.
type keeping struct {
	mu     sync.Mutex // guards held; nothing blocks under it
	held   []fencing.Token
	cancel context.CancelFunc
	ended  chan struct{}
}

// keep begins to keep what will be added; stop must be called.
func (g *Gateway) keep(ctx context.Context) *keeping {
	k := &keeping{ended: make(chan struct{})}
	ctx, k.cancel = context.WithCancel(ctx)
	go func() {
		defer close(k.ended)
		tick := time.NewTicker(holdTTL / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				k.renew(ctx, g.combined)
			case <-ctx.Done():
				return
			}
		}
	}()
	return k
}

func (k *keeping) add(t fencing.Token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = append(k.held, t)
}

// renew renews what is held. Its verdicts do not matter here: whether a hold was lost, the store
// decides.
func (k *keeping) renew(ctx context.Context, c *combiner) {
	k.mu.Lock()
	held := slices.Clone(k.held)
	k.mu.Unlock()
	if len(held) == 0 {
		return
	}
	var err error
	defer c.caught("a renewal", &err)
	c.o.Issuer.Renew(ctx, holdTTL, held)
}

// stop returns when nothing is renewed any more: a release must not overtake a renewal. It may be
// called more than once.
func (k *keeping) stop() {
	k.cancel()
	<-k.ended
}
