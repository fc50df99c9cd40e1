package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
)

// Gateway is the handler. It is safe for concurrent use and needs no closing.
type Gateway struct {
	o     Options
	echo  *echo.Echo // the main handler
	admin *echo.Echo // see Admin
	hands handovers
	drain drain

	combined           *combiner
	inFlight, waiting  shares // requests
	streams            shares
	bodies             shares // bytes of bodies, and of values in replies
	callers, strangers rates
	health             health
}

// New returns the gateway of an issuer and a store. The error is a
// [*fencing.InvalidError].
func New(o Options) (*Gateway, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	g := &Gateway{o: o, health: newHealth()}
	g.combined = &combiner{o: &g.o}
	g.inFlight = newShares("requests in work", int64(o.MaxInFlight), 1)
	g.streams = newShares("event streams", int64(o.MaxStreams), 1)
	g.bodies = newShares("bytes of bodies in memory", o.MaxBodies, int64(max(o.MaxBody, o.MaxValue)))
	g.waiting = shares{what: "requests that wait for locks", most: int64(o.MaxWaiting), mostEach: int64(o.MaxWaitingPerKey)}
	g.echo = g.router(func(r route) bool { return !r.admin || !o.AdminApart })
	g.admin = g.router(func(r route) bool { return r.admin || r.scope == 0 })
	return g, nil
}

// router serves those routes that has names.
func (g *Gateway) router(has func(route) bool) *echo.Echo {
	e := echo.New()
	e.Logger.SetOutput(io.Discard) // everything goes through Options.Logger
	e.IPExtractor = echo.ExtractIPDirect()
	e.HTTPErrorHandler = g.fail
	e.Use(g.observe, g.guard, g.entrance)
	if len(g.o.Origins) > 0 {
		e.Use(cors(g.o.Origins))
	}
	for _, r := range g.routes() {
		if !has(r) {
			continue
		}
		h := g.door(r)
		e.Add(r.method, r.path, h)
		if r.method == http.MethodGet {
			e.HEAD(r.path, h)
		}
	}
	return e
}

// route is one of the API's.
type route struct {
	method, path string
	scope        apikey.Scope // what a key must have; 0: the route is open to everybody
	admin        bool         // served by the admin handler, and by the main one unless AdminApart
	slow         bool         // it may wait or stream
	stream       bool         // it streams: counted by MaxStreams in place of MaxInFlight
	handle       echo.HandlerFunc
}

// routes is the whole API. GET routes answer HEAD too.
func (g *Gateway) routes() []route {
	const resource = "/v1/resources/:resource"
	return []route{
		{method: http.MethodPost, path: resource + "/lock", scope: apikey.Lock, slow: true, handle: g.lock},
		{method: http.MethodPatch, path: resource + "/lock", scope: apikey.Lock, handle: g.renew},
		{method: http.MethodDelete, path: resource + "/lock", scope: apikey.Lock, handle: g.release},
		{method: http.MethodGet, path: resource + "/lock", scope: apikey.Read, handle: g.lockStatus},
		{method: http.MethodPost, path: resource + "/lock/evict", scope: apikey.Admin, admin: true, handle: g.evict},
		{method: http.MethodPost, path: "/v1/locks/renew", scope: apikey.Lock, handle: g.renewAll},
		{method: http.MethodGet, path: "/v1/locks", scope: apikey.Read, handle: g.listLocks},

		{method: http.MethodGet, path: resource + "/records", scope: apikey.Read, handle: g.listRecords},
		{method: http.MethodGet, path: resource + "/records/:key", scope: apikey.Read, handle: g.getRecord},
		{method: http.MethodPut, path: resource + "/records/:key", scope: apikey.Write, handle: g.putRecord},
		{method: http.MethodDelete, path: resource + "/records/:key", scope: apikey.Write, handle: g.deleteRecord},
		// With lock in place of tokens it waits, and needs the scope lock too.
		{method: http.MethodPost, path: "/v1/commits", scope: apikey.Write, slow: true, handle: g.commit},

		{method: http.MethodGet, path: resource + "/fence", scope: apikey.Read, handle: g.getFence},
		{method: http.MethodPost, path: resource + "/fence", scope: apikey.Write, handle: g.raise},
		{method: http.MethodGet, path: "/v1/events", scope: apikey.Read, slow: true, stream: true, handle: g.events},

		{method: http.MethodGet, path: "/metrics", scope: apikey.Admin, admin: true, handle: g.metrics},
		{method: http.MethodGet, path: "/livez", handle: g.livez},
		{method: http.MethodGet, path: "/readyz", handle: g.readyz},
		{method: http.MethodGet, path: "/openapi.yaml", handle: g.openapi},
		{method: http.MethodGet, path: "/problems", handle: g.problemList},
		{method: http.MethodGet, path: "/problems/:slug", handle: g.problemPage},
	}
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.serve(g.echo, w, r) }

func (g *Gateway) serve(e *echo.Echo, w http.ResponseWriter, r *http.Request) {
	// echo routes by RawPath if it is set, else by Path: parameters would come escaped or
	// not, depending on whether the sender's escaping is the usual one. With RawPath set
	// they always come escaped, to be unescaped exactly once by param. Where nothing is escaped it
	// makes no difference.
	if raw := r.URL.EscapedPath(); r.URL.RawPath != raw && r.URL.Path != raw {
		u := *r.URL
		u.RawPath = raw
		r2 := *r
		r2.URL = &u
		e.ServeHTTP(w, &r2)
		r.Pattern = r2.Pattern // for whoever is around this handler, as a ServeMux does it
		return
	}
	e.ServeHTTP(w, r)
}

// guard is around every handler: headers that every reply has, and panics.
func (g *Gateway) guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		h := c.Response().Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
				panic(v)
			}
			e := wire.NewError(wire.SlugInternal, "")
			e.Problem.Instance = newInstance()
			g.o.Logger.Error("the handler panicked", append(g.about(c), "instance", e.Problem.Instance,
				"panic", wire.Redact(fmt.Sprint(v)), "stack", wire.Redact(string(debug.Stack())))...)
			if c.Response().Committed {
				panic(http.ErrAbortHandler) // half a reply must not look like a whole one
			}
			err = e
		}()
		return next(c)
	}
}

// context is the request's, bounded by Options.Timeout and the time it wants to wait.
func (g *Gateway) context(c echo.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Request().Context(), wait+g.o.Timeout)
}
