package gateway

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
)

// resource returns the path's resource; it fits the grammar.
func resource(c echo.Context) (string, error) {
	name, err := param(c, "resource")
	if err != nil {
		return "", err
	}
	return name, fencing.ValidateResource(name)
}

// record returns the path's resource and key.
func record(c echo.Context) (string, string, error) {
	name, err := resource(c)
	if err != nil {
		return "", "", err
	}
	key, err := param(c, "key")
	if err != nil {
		return "", "", err
	}
	return name, key, fencing.ValidateKey(key)
}

// param unescapes a path parameter, once.
func param(c echo.Context, name string) (string, error) {
	s, err := url.PathUnescape(c.Param(name))
	if err != nil {
		return "", &fencing.InvalidError{What: name, Allowed: "a path segment that is escaped once"}
	}
	return s, nil
}

// query returns the query's parameters. A parameter that the route does not know, or that
// comes twice, is refused: a misspelt one must not be taken for its default.
func query(c echo.Context, known ...string) (url.Values, error) {
	if c.Request().URL.RawQuery == "" {
		return nil, nil
	}
	q, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return nil, wire.Malformed("the query is not readable")
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return nil, wire.Malformed("unknown query parameter; known here: %s", cmp.Or(strings.Join(known, ", "), "none"))
		}
		if len(values) > 1 {
			return nil, wire.Malformed("the query parameter %s comes twice", name)
		}
	}
	return q, nil
}

const defaultLimit, maxLimit = 100, 1000

// limit reads the query's limit.
func limit(q url.Values) (int, error) {
	if !q.Has("limit") {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(q.Get("limit"))
	if err != nil || n < 1 || n > maxLimit || strconv.Itoa(n) != q.Get("limit") {
		return 0, &fencing.InvalidError{What: "limit", Allowed: fmt.Sprintf("1 to %d", maxLimit)}
	}
	return n, nil
}

// header returns a request header that may come once.
func header(c echo.Context, name string) (value string, sent bool, err error) {
	values := c.Request().Header.Values(name)
	if len(values) > 1 {
		return "", true, wire.Malformed("the header %s comes twice", name)
	}
	if len(values) == 0 {
		return "", false, nil
	}
	return values[0], true, nil
}

// token reads the request's token for a resource.
func token(c echo.Context, resource string) (t fencing.Token, sent bool, err error) {
	text, sent, err := header(c, wire.HeaderToken)
	if err != nil || !sent {
		return fencing.Token{}, sent, err
	}
	t, err = fencing.ParseToken(resource, text)
	return t, true, err
}

// mustToken is token where there is nothing to do without one.
func mustToken(c echo.Context, resource string) (fencing.Token, error) {
	t, sent, err := token(c, resource)
	if err == nil && !sent {
		return t, wire.TokenRequired(resource, -1)
	}
	return t, err
}

// hidden is a label or a reason as it is kept and told of: what could be a secret is hidden in it. It
// has been found valid, so it is ASCII.
func hidden(s string, most int) string {
	s = wire.Redact(s)
	return s[:min(len(s), most)]
}

// beyond lengthens the server's time limits for a request that has been read and waits: WriteTimeout
// counts from the request's head and would cut the wait, ReadTimeout would be taken for a client
// that hangs up. net/http sets both anew after the reply.
func beyond(c echo.Context, until time.Time) {
	rc := http.NewResponseController(c.Response().Writer)
	_ = rc.SetWriteDeadline(until)
	_ = rc.SetReadDeadline(time.Time{})
}

// ttl returns a request's TTL, or its default.
func ttl(d *wire.Duration) (time.Duration, error) {
	if d == nil {
		return locking.DefaultTTL, nil
	}
	return time.Duration(*d), locking.ValidateTTL(time.Duration(*d))
}

// smallBody bounds the JSON of requests that have one lock or none to tell of, in bytes.
const smallBody = 64 << 10

// message reads a small JSON body. It is no more in memory then.
func (g *Gateway) message(c echo.Context, v any) error {
	defer g.giveBody(passOf(c))
	return g.messageUpTo(c, min(smallBody, g.o.MaxBody), v)
}

// messageUpTo reads a JSON body of up to limit bytes.
func (g *Gateway) messageUpTo(c echo.Context, limit int, v any) error {
	kind, params, err := mime.ParseMediaType(c.Request().Header.Get("Content-Type"))
	charset := params["charset"]
	if err != nil || kind != wire.TypeJSON || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return wire.NewError(wire.SlugUnsupportedMedia, "want Content-Type: application/json")
	}
	data, err := g.body(c, limit)
	if err != nil {
		return err
	}
	return wire.Decode(data, v)
}
