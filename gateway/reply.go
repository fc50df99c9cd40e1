package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/gateway/wire"
)

// reply writes a message. The error says that it could not be written.
func reply(c echo.Context, status int, v any) error {
	return write(c, status, wire.TypeJSON, v)
}

func write(c echo.Context, status int, contentType string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the wire types always marshal
	}
	h := c.Response().Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(data)+1)) // so that a flush sends a complete reply
	c.Response().WriteHeader(status)
	_, err = c.Response().Write(append(data, '\n'))
	return err
}

// mark sets the header that tells the resource's mark.
func mark(c echo.Context, number int64) {
	c.Response().Header().Set(wire.HeaderMark, strconv.FormatInt(number, 10))
}

// fail is the one place where errors become replies.
func (g *Gateway) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return // the reply is under way, and whoever should have read it has gone
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		err = fromEcho(e)
	}
	p := wire.FromError(err)
	if p.Status >= http.StatusInternalServerError && !shed(p.Slug()) {
		if p.Instance == "" {
			p.Instance = newInstance()
		}
		level, ctx := slog.LevelError, c.Request().Context()
		if hungUp(ctx) {
			level = slog.LevelInfo // most likely it failed for that, and nobody is there to see it
		}
		g.o.Logger.Log(ctx, level, p.Title, append(g.about(c), "status", p.Status, "outcome", p.Outcome,
			"instance", p.Instance, "error", redactErr(err))...)
	}
	if x, ok := c.(*exchange); ok {
		x.problem = p.Slug()
	}
	if p.Highest != nil {
		mark(c, int64(*p.Highest))
	}
	if e, ok := errors.AsType[*releaseError](err); ok && e.freed {
		p.Released = &e.freed
	}
	if seconds := p.RetryAfter(); seconds > 0 {
		c.Response().Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	_ = write(c, p.Status, wire.TypeProblem, p)
}

// shed reports whether a problem is the gateway's way to bear its load. It is no fault, and there are
// many of it at a time when nothing should cost more than it must: the request's line tells of it.
func shed(slug string) bool {
	return slug == wire.SlugOverloaded || slug == wire.SlugDraining || slug == wire.SlugTooManyWaiters
}

// fromEcho translates the router's errors.
func fromEcho(e *echo.HTTPError) error {
	switch e.Code {
	case http.StatusNotFound:
		return wire.NewError(wire.SlugNotFound, "")
	case http.StatusMethodNotAllowed:
		return wire.NewError(wire.SlugMethodNotAllowed, "")
	}
	return e
}

// about is what a log line says of a request: the route, and the resource once its name is
// known to be one.
func (g *Gateway) about(c echo.Context) []any {
	out := []any{"id", c.Response().Header().Get(wire.HeaderRequest), "method", method(c.Request().Method), "route", c.Path()}
	if name, err := resource(c); err == nil {
		out = append(out, "resource", wire.Redact(name))
	}
	return out
}

func redactErr(err error) string { return wire.Redact(err.Error()) }

// newInstance names one occurrence of a problem. It is shorter than a grant id, and of
// other letters.
func newInstance() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return "urn:fencegate:" + hex.EncodeToString(b[:])
}

func (g *Gateway) problemList(c echo.Context) error {
	var b strings.Builder
	b.WriteString("The types of problems that this gateway answers with:\n\n")
	for _, p := range wire.Pages() {
		b.WriteString(wire.Base + p.Slug + "\n    " + strconv.Itoa(p.Status) + " " + p.Title + "\n")
	}
	return c.String(http.StatusOK, b.String())
}

func (g *Gateway) problemPage(c echo.Context) error {
	for _, p := range wire.Pages() {
		if p.Slug == c.Param("slug") {
			return c.String(http.StatusOK, p.Title+" ("+strconv.Itoa(p.Status)+")\n\n"+p.Text+"\n")
		}
	}
	return wire.NewError(wire.SlugNotFound, "")
}
