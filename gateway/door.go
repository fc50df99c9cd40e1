package gateway

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
)

// pass is what the door knows of a request.
type pass struct {
	key      apikey.Key // zero until the request has shown who it is: it may do nothing
	who      string     // whom its limits count for: the key's ID, or the client's address
	inFlight bool       // it is counted in g.inFlight
	body     int64      // bytes that it has of g.bodies
}

func passOf(c echo.Context) *pass {
	if x, ok := c.(*exchange); ok {
		return &x.pass
	}
	return &pass{}
}

// door is what a request passes before its route's handler: the limits, and who may do what, in
// an order in which strangers cost and learn the least. Open routes have no door: probes must be
// answered under any load, and the rest of them is text.
func (g *Gateway) door(r route) echo.HandlerFunc {
	if r.scope == 0 {
		return r.handle
	}
	return func(c echo.Context) error {
		p := passOf(c)
		if err := g.authenticate(c, p); err != nil { // first, so that it is known whose share it takes
			return err
		}
		leave, err := g.count(r, p)
		if err != nil {
			return err
		}
		defer leave()
		if err := g.admit(c, r, p); err != nil {
			return err
		}
		if r.slow {
			c.Response().Before(func() { g.closeWhileDraining(c) }) // it may have come long before Drain
		}
		return r.handle(c)
	}
}

// count takes the request's place among those of its kind.
func (g *Gateway) count(r route, p *pass) (leave func(), err error) {
	switch {
	case r.admin: // whoever runs the gateway must get in when it is overloaded
		return func() { g.giveBody(p) }, nil
	case r.stream:
		if g.draining() {
			return nil, errDraining
		}
		if err := g.streams.take(p.who, 1); err != nil {
			return nil, err
		}
		return func() { g.streams.give(p.who, 1) }, nil
	}
	if err := g.inFlight.take(p.who, 1); err != nil {
		return nil, err
	}
	p.inFlight = true
	return func() {
		g.giveBody(p)
		g.inFlight.give(p.who, 1)
	}, nil
}

// admit finds out whether who sends the request may.
func (g *Gateway) admit(c echo.Context, r route, p *pass) error {
	if err := g.rated(c, p); err != nil {
		return err
	}
	if err := g.allowScope(c, r.scope); err != nil {
		return err
	}
	if !strings.Contains(r.path, "/:resource") {
		return nil
	}
	name, err := resource(c)
	if err != nil {
		return err
	}
	return g.allow(c, name)
}

// authenticate finds the request's key. Good keys are never limited by what wrong ones from the
// same address do: behind a proxy they share it.
func (g *Gateway) authenticate(c echo.Context, p *pass) error {
	if g.o.Keys == nil {
		p.key, p.who = apikey.Key{Scopes: apikey.All}, address(c)
		return nil
	}
	value, sent, err := header(c, echo.HeaderAuthorization)
	if err != nil {
		return err
	}
	if scheme, text, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Bearer") {
		if key, found := g.o.Keys.Find(text); found {
			p.key, p.who = key, key.ID
			return nil
		}
	}
	if err := g.limit(c, &g.strangers, address(c), g.strangersRate()); err != nil {
		return err
	}
	c.Response().Header().Set("WWW-Authenticate", "Bearer")
	if !sent {
		return wire.NewError(wire.SlugUnauthorized, "want Authorization: Bearer and a key")
	}
	return wire.NewError(wire.SlugUnauthorized, "the key is not known here, or has expired")
}

// admitLate asks again who sends a request that has waited for a lock: its key may have been taken
// away, or limited, meanwhile.
func (g *Gateway) admitLate(c echo.Context, name string) error {
	p := passOf(c)
	now := &pass{}
	if err := g.authenticate(c, now); err != nil {
		return err
	}
	p.key = now.key // not who: what is counted for it must be given back
	if err := g.allowScope(c, apikey.Lock); err != nil {
		return err
	}
	return g.allow(c, name)
}

// caller returns the key of a request that has passed the door; one that may do everything where
// the gateway has no keys, and one that may do nothing where the door was not passed.
func (g *Gateway) caller(c echo.Context) apikey.Key { return passOf(c).key }

// allow refuses a request that names a resource which its key does not cover: 403 forbidden. The
// door has asked it for the path's resource; a handler asks it for every other that the request
// names, before it does anything.
func (g *Gateway) allow(c echo.Context, resource string) error {
	k := g.caller(c)
	if k.Scopes != 0 && k.Covers(resource) {
		return nil
	}
	e := uncovered(k, "resource", "a resource that begins with ")
	if fencing.ValidateResource(resource) == nil {
		e.Problem.Resource = resource
	}
	return e
}

// allowPrefix is allow for a list of all the resources that begin with prefix.
func (g *Gateway) allowPrefix(c echo.Context, prefix string) error {
	k := g.caller(c)
	if k.Scopes != 0 && k.Covers(prefix) {
		return nil
	}
	return uncovered(k, "prefix", "the query parameter prefix with what begins with ")
}

func uncovered(k apikey.Key, what, want string) *wire.Error {
	return forbidden("the key does not cover it", what, want+strings.Join(k.Prefixes, " or "))
}

// allowScope refuses a request whose key lacks a right: 403 forbidden. The door has asked it for
// the route's.
func (g *Gateway) allowScope(c echo.Context, s apikey.Scope) error {
	if g.caller(c).Scopes.Has(s) {
		return nil
	}
	return forbidden("the key lacks the scope", "scope", s.String())
}

func forbidden(why, what, allowed string) *wire.Error {
	e := wire.NewError(wire.SlugForbidden, why+": want "+allowed)
	e.Problem.What, e.Problem.Allowed = what, allowed
	return e
}

// privileged reports whether a request, also of an open route, may see what is for those who run
// the gateway: it came to the admin handler, or there is no other, and where there are keys its key
// has the scope admin.
func (g *Gateway) privileged(c echo.Context) bool {
	if g.o.AdminApart && c.Echo() != g.admin {
		return false
	}
	if g.o.Keys == nil {
		return true
	}
	value, _, err := header(c, echo.HeaderAuthorization)
	scheme, text, _ := strings.Cut(value, " ")
	if err != nil || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	key, found := g.o.Keys.Find(text)
	if !found {
		_ = g.limit(c, &g.strangers, address(c), g.strangersRate()) // it counts, whatever the answer
	}
	return found && key.Scopes.Has(apikey.Admin)
}

// address is what stands for a client without a key: its address, of IPv6 the first 64 bits, which
// is what one subscriber has of them.
func address(c echo.Context) string {
	ip, err := netip.ParseAddr(c.RealIP())
	if err != nil {
		return ""
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	p, _ := ip.Prefix(64)
	return p.String()
}

// Admin returns the handler of the routes of the scope admin and of the open ones, such as
// /readyz, for a listener of their own. Where the gateway has keys, its routes want them too.
func (g *Gateway) Admin() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(g.admin, w, r) })
}
