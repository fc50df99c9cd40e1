package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/fencing"
)

// handovers keeps track of the lock requests in flight by their grant, so that the
// cleaning up after one whose client went away does not end the hold that the client's
// retry, with the same grant, has just been given.
type handovers struct {
	mu sync.Mutex // guards m and what it points to; nothing blocks under it
	m  map[grantKey]*handover
}

type grantKey struct{ resource, grant string }

type handover struct {
	open      int           // requests in flight
	delivered bool          // one of them got its reply through
	token     fencing.Token // what was granted, if anything was
}

// begin enters a request; end must follow. It reports whether there is another one of that grant.
func (h *handovers) begin(k grantKey) (repeat bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.m == nil {
		h.m = map[grantKey]*handover{}
	}
	if h.m[k] == nil {
		h.m[k] = &handover{}
	}
	h.m[k].open++
	return h.m[k].open > 1
}

// end takes the request out, with what it was granted and whether the reply went out.
// The last of a grant's requests must give the returned token back, unless it is zero.
func (h *handovers) end(k grantKey, t fencing.Token, delivered bool) fencing.Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.m[k]
	o.open--
	o.delivered = o.delivered || delivered
	if t.Number > o.token.Number {
		o.token = t // a later number replaces an earlier one of the same hold
	}
	if o.open > 0 {
		return fencing.Token{}
	}
	delete(h.m, k)
	if o.delivered {
		return fencing.Token{}
	}
	return o.token
}

const gone = "the reply could not be delivered"

// giveBack ends a grant that nobody took.
func (g *Gateway) giveBack(c echo.Context, t fencing.Token, label string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), g.o.Cleanup)
	defer cancel()
	if g.o.OnEvent != nil {
		g.o.OnEvent(fencing.Event{
			Time: time.Now(), Kind: fencing.EventLost, Resource: t.Resource, Number: t.Number, Label: label, Reason: gone,
		})
	}
	half, cancelHalf := context.WithTimeout(ctx, g.o.Cleanup/2)
	defer cancelHalf()
	_, err := g.o.Issuer.Release(half, t)
	if err == nil {
		return
	}
	if evictErr := g.o.Issuer.Evict(ctx, t.Resource, t.Number, gone); evictErr != nil {
		g.o.Logger.Error("a grant could not be given back; it ends with its TTL", append(g.about(c),
			"number", t.Number, "error", redactErr(err), "evict_error", redactErr(evictErr))...)
	}
}
