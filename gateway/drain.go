package gateway

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
)

// errDraining is the answer to who would wait, and the cause by which the waiting end.
var errDraining = wire.NewError(wire.SlugDraining, "")

// drain ends what waits.
type drain struct {
	begun atomic.Bool // set under mu

	mu     sync.Mutex // guards the rest; nothing blocks under it
	nextID int64
	ends   map[int64]context.CancelCauseFunc
}

// Drain prepares for a stop: requests that wait for locks are answered 503 draining, so that their
// clients turn to another gateway, new ones as well, streams end, /readyz says no, and every reply
// closes its connection. Everything else is served as before, until the server is shut down. It
// may be called more than once.
//
// A wait that ends here leaves no lock behind: one that was granted in the same moment is either
// delivered or given back.
func (g *Gateway) Drain() {
	d := &g.drain
	d.mu.Lock()
	d.begun.Store(true)
	ends := d.ends
	d.ends = nil
	d.mu.Unlock()
	for _, end := range ends {
		end(errDraining)
	}
}

// draining reports whether Drain was called.
func (g *Gateway) draining() bool { return g.drain.begun.Load() }

// waitContext is for what waits, for a lock or for events: it ends with parent, and when the
// gateway drains. The error of a wait goes through drained.
func (g *Gateway) waitContext(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	d := &g.drain
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun.Load() {
		end(errDraining)
		return ctx, func() {}
	}
	if d.ends == nil {
		d.ends = map[int64]context.CancelCauseFunc{}
	}
	id := d.nextID
	d.nextID++
	d.ends[id] = end
	return ctx, func() {
		end(nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.ends, id)
	}
}

// drained is err of what was done under a waitContext: 503 draining, if Drain ended it and nothing
// happened. An unknown outcome stays one.
func drained(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), error(errDraining)) && fencing.OutcomeOf(err) == fencing.Failed {
		return errDraining
	}
	return err
}

// closeWhileDraining makes the client connect anew for its next request.
func (g *Gateway) closeWhileDraining(c echo.Context) {
	if g.draining() {
		c.Response().Header().Set("Connection", "close")
	}
}
