package gateway

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/gateway/wire"
)

// Check is what was found of one thing that the gateway needs.
type Check struct {
	Name     string   // lock, store, ...
	Err      error    // why it cannot serve; nil if it can
	Warnings []string // what it may lose as it is set up now
	Details  []string // what was found, such as the schema's version
}

func (g *Gateway) livez(c echo.Context) error {
	return c.String(http.StatusOK, "ok\n")
}

func (g *Gateway) readyz(c echo.Context) error {
	return c.String(http.StatusOK, "ok\n")
}

func (g *Gateway) metrics(echo.Context) error {
	return wire.NewError(wire.SlugNotFound, "")
}
