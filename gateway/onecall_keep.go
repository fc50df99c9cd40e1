package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// holdTTL is for how long a one-call commit takes a lock; while it needs it for longer, it is
// renewed. Where a gateway dies, others wait for that long.
const holdTTL = 3 * time.Second

// keepEvery is how often a lock that is still needed is renewed. Few live to see it.
const keepEvery = holdTTL / 3

// holdMost is for how long a commit that was sent to the store keeps its locks at most.
const holdMost = 10 * time.Second

// tooLate reports whether a grant that was asked for at a time came to nothing because its hold was over before the store
// had its token: a fenced transaction of somebody who has stopped can be in a raise's way for longer than that, until the
// store ends it. Another attempt is worth it then; as each takes a holdTTL, they are few.
func tooLate(err error, asked time.Time) bool {
	return errors.Is(err, locking.ErrLost) && time.Since(asked) >= holdTTL
}

// keeping renews locks while they are needed: for a commit that waits for more of them, or that the
// store takes its time for.
type keeping struct {
	c      *combiner
	ctx    context.Context //nolint:containedctx // that of its renewals, which stop ends
	cancel context.CancelFunc

	mu    sync.Mutex // guards what follows, and is held during a renewal
	timer *time.Timer
	held  []fencing.Token
	end   time.Time // of the last renewal; zero for none yet
	over  func()    // called then; nil for nothing
}

// keep begins to renew what is held and what will be added, until ctx ends; stop must be called.
func (c *combiner) keep(ctx context.Context, held ...fencing.Token) *keeping {
	k := &keeping{c: c, held: held}
	k.ctx, k.cancel = context.WithCancel(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(keepEvery, k.renew)
	return k
}

// finish says that what the locks are for has begun: they are kept for another holdMost at most,
// and over is called then.
func (k *keeping) finish(over func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.end, k.over = time.Now().Add(holdMost), over
}

func (k *keeping) add(t fencing.Token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = append(k.held, t)
}

// renew renews what is held. Its verdicts do not matter here: whether a hold was lost, the store
// decides.
func (k *keeping) renew() {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ctx.Err() != nil:
	case k.end.IsZero() || time.Now().Before(k.end):
		k.timer.Reset(keepEvery) // before, or one that is not answered would be the only one in the hold's time
		k.renewNow()
	case k.over != nil:
		go k.over() // it may stop this
	}
}

func (k *keeping) renewNow() {
	if len(k.held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(k.ctx, keepEvery)
	defer cancel()
	var err error
	defer k.c.caught("a renewal", &err)
	k.c.o.Issuer.Renew(ctx, holdTTL, k.held)
}

// stop returns when nothing is renewed any more: a release must not overtake a renewal. It may be
// called more than once.
func (k *keeping) stop() {
	k.cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer.Stop()
}
