package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
)

// maxURI bounds path and query together, in bytes.
const maxURI = 4096

// entrance is around every request, also those that no route has: what all replies carry, and how
// long an address may be.
func (g *Gateway) entrance(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if c.IsTLS() {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		g.closeWhileDraining(c)
		if u := c.Request().URL; max(len(u.Path), len(u.RawPath))+len(u.RawQuery) > maxURI {
			return wire.NewError(wire.SlugURITooLong, "want at most 4096 bytes of path and query")
		}
		return next(c)
	}
}

// cors lets the scripts of Options.Origins in, never with a browser's credentials: a key is sent by
// the script, or not at all.
func cors(origins []string) echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOriginFunc: func(origin string) (bool, error) { return slices.Contains(origins, origin), nil },
		AllowMethods: []string{
			http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		},
		AllowHeaders: []string{
			"Authorization", "Content-Type", "If-Match", "If-None-Match", "Last-Event-ID",
			wire.HeaderToken, wire.HeaderKey, wire.HeaderRequest,
		},
		ExposeHeaders: []string{
			"ETag", "Retry-After", "RateLimit", "RateLimit-Policy", wire.HeaderMark, wire.HeaderReplayed, wire.HeaderRequest,
		},
		MaxAge: 600,
	})
}

// validateOrigin wants an origin in the one form in which browsers send it.
func validateOrigin(origin string) error {
	u, err := url.Parse(origin)
	ok := err == nil && (u.Scheme == "https" && u.Port() != "443" || u.Scheme == "http" && u.Port() != "80") &&
		u.Hostname() != "" && u.Scheme+"://"+u.Host == origin && strings.ToLower(origin) == origin &&
		!strings.ContainsAny(u.Host, "*?, ") && !strings.HasSuffix(u.Host, ":")
	if ok {
		return nil
	}
	return &fencing.InvalidError{
		What: "Origins", Got: origin,
		Allowed: "origins as browsers send them, in lower case, without the usual port, path or wildcard: https://example.org",
	}
}
