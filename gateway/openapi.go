package gateway

import (
	_ "embed"
	"net/http"

	"github.com/labstack/echo/v4"
)

//go:embed openapi.yaml
var openAPI []byte

// openapi is GET /openapi.yaml: the description of this API.
func (g *Gateway) openapi(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", openAPI)
}
