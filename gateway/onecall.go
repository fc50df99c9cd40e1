package gateway

import (
	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/gateway/wire"
)

// commitAlone is POST /v1/commits with lock in place of tokens: the gateway takes the locks,
// commits, and frees them.
func (g *Gateway) commitAlone(echo.Context, wire.Commit) error {
	return wire.NewError(wire.SlugNotFound, "")
}
