package gateway

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// RouteNames lists the API's routes.
func (g *Gateway) RouteNames() []string {
	var list []string
	for _, r := range g.routes() {
		list = append(list, r.method+" "+r.path)
	}
	return list
}

// BodyBytes is how many bytes of bodies are counted.
func (g *Gateway) BodyBytes() int64 { return g.bodies.taken() }

// MaxRated is how many callers have a limiter of their own.
const MaxRated = maxRated

// Take takes a request from a caller's quota, and returns for how many there are limiters.
func (g *Gateway) Take(who string, perSecond float64, burst int) (ok bool, limiters int) {
	now := time.Now()
	ok = g.callers.of(who, rate.Limit(perSecond), burst, now).AllowN(now, 1)
	return ok, len(g.callers.m)
}

// TakeBodies takes of the budget of bodies, whether there is so much or not; below 0 it gives back.
func (g *Gateway) TakeBodies(who string, n int64) { g.bodies.retake(who, n) }

// WaitContext is the context of what waits.
func (g *Gateway) WaitContext(parent context.Context) (context.Context, context.CancelFunc) {
	return g.waitContext(parent)
}
