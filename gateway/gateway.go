package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/gateway/wire"
)

// Gateway is the handler. It is safe for concurrent use and needs no closing.
type Gateway struct {
	o     Options
	echo  *echo.Echo
	hands handovers
}

// New returns the gateway of an issuer and a store. The error is a
// [*fencing.InvalidError].
func New(o Options) (*Gateway, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	g := &Gateway{o: o, echo: echo.New()}
	g.echo.Logger.SetOutput(io.Discard) // everything goes through Options.Logger
	g.echo.IPExtractor = echo.ExtractIPDirect()
	g.echo.HTTPErrorHandler = g.fail
	g.echo.Use(g.guard)
	g.route()
	return g, nil
}

func (g *Gateway) route() {
	e := g.echo
	get := func(path string, h echo.HandlerFunc) {
		e.GET(path, h)
		e.HEAD(path, h)
	}
	const resource = "/v1/resources/:resource"
	e.POST(resource+"/lock", g.lock)
	e.PATCH(resource+"/lock", g.renew)
	e.DELETE(resource+"/lock", g.release)
	get(resource+"/lock", g.lockStatus)
	e.POST(resource+"/lock/evict", g.evict)
	e.POST("/v1/locks/renew", g.renewAll)
	get("/v1/locks", g.listLocks)

	get(resource+"/records", g.listRecords)
	get(resource+"/records/:key", g.getRecord)
	e.PUT(resource+"/records/:key", g.putRecord)
	e.DELETE(resource+"/records/:key", g.deleteRecord)
	e.POST("/v1/commits", g.commit)

	get(resource+"/fence", g.getFence)
	e.POST(resource+"/fence", g.raise)

	get("/livez", g.livez)
	get("/problems", g.problemList)
	get("/problems/:slug", g.problemPage)
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// echo routes by RawPath if it is set, else by Path: parameters would come escaped or
	// not, depending on whether the sender's escaping is the usual one. With RawPath set
	// they always come escaped, to be unescaped exactly once by param.
	if raw := r.URL.EscapedPath(); r.URL.RawPath != raw {
		u := *r.URL
		u.RawPath = raw
		r2 := *r
		r2.URL = &u
		r = &r2
	}
	g.echo.ServeHTTP(w, r)
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

func (g *Gateway) livez(c echo.Context) error {
	return c.String(http.StatusOK, "ok\n")
}
