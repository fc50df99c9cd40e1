package gateway_test

import (
	"net/http"
	"testing"

	"github.com/fencegate/fencegate/gateway/openapitest"
)

// checked returns a handler around a gateway's that holds every exchange against openapi.yaml.
func checked(tb testing.TB, g http.Handler) http.Handler {
	return openapitest.Check(tb, "openapi.yaml", g)
}
