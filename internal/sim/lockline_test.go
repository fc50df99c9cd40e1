package sim_test

import (
	"context"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// lineClient is the driver of a lock store that keeps a line and hands over: memlock, far away.
type lineClient struct {
	lockClient

	mu    sync.Mutex // guards words
	words map[string]func()
}

var (
	_ locking.Waiter      = (*lineClient)(nil)
	_ locking.Transferrer = (*lineClient)(nil)
)

func (c *lineClient) waiter() locking.Waiter {
	return c.to.store.(locking.Waiter)
}

// Join implements locking.Waiter. Word that it is worth asking again is a message too, and may be
// late or lost.
func (c *lineClient) Join(ctx context.Context, r locking.Request, wake func()) (locking.Hold, error) {
	c.mu.Lock()
	c.words[r.Grant] = wake
	c.mu.Unlock()
	h, err := call(ctx, c.link, "join", r.Resource, func() (locking.Hold, error) {
		return c.to.granted(r, func() (locking.Hold, error) {
			return c.waiter().Join(context.Background(), r, func() { c.word(r) })
		})
	})
	return cutHold(h), cutHeld(err)
}

// word sends word to a waiter.
func (c *lineClient) word(r locking.Request) {
	n := c.link.net
	f := n.fate(c.link.from.name + " word " + r.Resource)
	if f.loseOut || c.link.isCut(1) {
		return
	}
	n.at(n.now()+1+f.out, f.order, c.link.from, func() bool {
		c.mu.Lock()
		wake := c.words[r.Grant]
		c.mu.Unlock()
		if wake != nil {
			wake()
		}
		return wake != nil
	})
}

// Leave implements locking.Waiter.
func (c *lineClient) Leave(ctx context.Context, r locking.Request) error {
	c.mu.Lock()
	delete(c.words, r.Grant)
	c.mu.Unlock()
	_, err := call(ctx, c.link, "leave", r.Resource, func() (struct{}, error) {
		return struct{}{}, c.waiter().Leave(context.Background(), r)
	})
	return err
}

// MaxStall implements locking.Waiter.
func (c *lineClient) MaxStall() time.Duration { return c.waiter().MaxStall() }

// Transfer implements locking.Transferrer.
func (c *lineClient) Transfer(ctx context.Context, from fencing.Token, r locking.Request) (locking.Hold, error) {
	h, err := call(ctx, c.link, "transfer", from.String(), func() (locking.Hold, error) {
		before := c.to.status(r.Resource)
		hold, err := c.to.store.(locking.Transferrer).Transfer(context.Background(), from, r)
		if err == nil {
			before.Held = false // the lock passes from its holder
			c.to.h.granted(r, before, hold, nil)
		}
		return hold, err
	})
	return cutHold(h), err
}
