package gateway

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
)

// getFence is GET /v1/resources/{r}/fence: the mark, without its grant, and whether the
// token that was sent is it. The answer is advice: it may be old when it arrives.
func (g *Gateway) getFence(c echo.Context) error {
	name, err := resource(c)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	t, sent, err := token(c, name)
	if err != nil {
		return err
	}
	ctx, cancel := g.context(c, 0)
	defer cancel()
	m, err := g.o.Store.Mark(ctx, name)
	if err != nil {
		return err
	}
	out := wire.Fence{Number: wire.Int(m.Number), Retired: m.Retired}
	if sent {
		current := m.Current(t) == nil
		out.Current = &current
	}
	mark(c, m.Number)
	return reply(c, http.StatusOK, out)
}

// raise is POST /v1/resources/{r}/fence. Only a classic store's mark is anybody's to
// raise: on a strict one, who may raise may brick.
func (g *Gateway) raise(c echo.Context) error {
	name, err := resource(c)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	if g.o.Store.Mode() != fencing.Classic {
		return wire.NewError(wire.SlugRaiseForbidden, "")
	}
	var m wire.RaiseRequest
	if err := g.message(c, &m); err != nil {
		return err
	}
	t, err := fencing.ParseToken(name, m.Raise)
	if err != nil {
		return err
	}
	ctx, cancel := g.context(c, 0)
	defer cancel()
	if err := g.o.Store.Raise(ctx, t); err != nil {
		return err
	}
	mark(c, t.Number)
	return c.NoContent(http.StatusNoContent)
}

func validateID(resource, key string) error {
	return errors.Join(fencing.ValidateResource(resource), fencing.ValidateKey(key))
}
