package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/gateway/wire"
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

// statusGone stands in [Request] for a reply that nobody was there to read.
const statusGone = 499

// Load is what a gateway is doing at the moment.
type Load struct {
	InFlight int // requests in work, but those of Waiting and Streams, of admin routes and of open ones
	Waiting  int // requests that may wait for locks
	Streams  int // event streams
}

// Load returns what the gateway is doing.
func (g *Gateway) Load() Load {
	return Load{InFlight: int(g.inFlight.taken()), Waiting: int(g.waiting.taken()), Streams: int(g.streams.taken())}
}

// exchange is a request and its reply, and what is told of them at the end.
type exchange struct {
	echo.Context

	pass    pass // the door's
	id      string
	problem string // the slug of the reply's problem
	err     error  // what the handler returned
	ended   bool   // false: a panic has cut the reply
}

// observe gives every request an id, and tells of it once it was answered. It is around everything
// else, so that panics and what the router refuses are told of, too.
func (g *Gateway) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		arrived := time.Now()
		in := c.Request()
		in.Pattern = c.Path()
		x := &exchange{Context: c, id: requestID(c.Request().Header[wire.HeaderRequest])}
		c.Response().Header()[wire.HeaderRequest] = []string{x.id}
		defer func() { g.tell(x, in.Pattern, arrived) }() // also when a panic goes on to cut the connection
		if x.err = next(x); x.err != nil {
			if _, ok := errors.AsType[*echo.HTTPError](x.err); ok {
				in.Pattern = "" // the router's error: no handler of ours returns one
			}
			g.fail(x.err, x)
		}
		x.ended = true
		return nil
	}
}

// requestID returns the id that a client chose, if it may be shown, or a new one.
func requestID(sent []string) string {
	if len(sent) == 1 && fitsID(sent[0]) {
		return sent[0]
	}
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func fitsID(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '.', b == '_', b == '-':
		default:
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64 && wire.Redact(s) == s
}

// tell is the log line, and OnRequest.
func (g *Gateway) tell(x *exchange, route string, arrived time.Time) {
	ctx := x.Request().Context()
	logs := g.o.Logger.Enabled(ctx, slog.LevelInfo)
	if !logs && g.o.OnRequest == nil {
		return
	}
	r := Request{
		ID: x.id, Method: method(x.Request().Method), Route: route, Status: x.Response().Status,
		Problem: x.problem, Key: g.caller(x).ID, Duration: time.Since(arrived),
	}
	switch {
	case !x.ended:
		r.Status, r.Problem = http.StatusInternalServerError, wire.SlugInternal
	case x.err != nil && hungUp(ctx):
		r.Status = statusGone
	}
	if name, err := resource(x); err == nil {
		r.Resource = wire.Redact(name)
	}
	if logs {
		line := append(make([]slog.Attr, 0, 10),
			slog.String("id", r.ID), slog.String("method", r.Method), slog.String("route", r.Route), slog.Int("status", r.Status))
		for _, a := range [...]struct{ name, value string }{{"problem", r.Problem}, {"key", r.Key}, {"resource", r.Resource}} {
			if a.value != "" {
				line = append(line, slog.String(a.name, a.value))
			}
		}
		line = append(line, slog.Duration("duration", r.Duration), slog.Int64("bytes", x.Response().Size), slog.String("client", x.RealIP()))
		g.o.Logger.LogAttrs(ctx, slog.LevelInfo, "request", line...)
	}
	if g.o.OnRequest != nil {
		g.o.OnRequest(r)
	}
}

// hungUp reports whether the client has hung up.
func hungUp(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// method returns a request's method as it may be shown: clients may send any word as one.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "other"
}
