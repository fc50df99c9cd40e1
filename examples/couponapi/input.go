package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"
)

// What may come in.
const (
	maxBody     = 4 << 10   // bytes of a request's body
	maxStock    = 1_000_000 // of a coupon
	maxBuckets  = 64        // of a coupon
	maxPrice    = 1_000_000 // in cents
	maxReceipts = 500       // in one list
	maxName     = 64        // characters of an id and of a key
)

// validName checks an id or a key: it becomes a part of a resource's name.
func validName(what, name string) error {
	ok := name != "" && len(name) <= maxName
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		ok = ok && (letter || i > 0 && (c == '-' || c == '_'))
	}
	if !ok {
		return invalid.field(what, "%q: want 1 to %d of A-Z a-z 0-9 - _, beginning with a letter or digit", shorten(name), maxName)
	}
	return nil
}

func shorten(s string) string {
	if len(s) > maxName {
		return s[:maxName] + "…"
	}
	return s
}

// param returns a part of the path, which echo hands over escaped.
func param(c echo.Context, name string) (string, error) {
	s, err := url.PathUnescape(c.Param(name))
	if err != nil {
		return "", badRequest.field(name, "the path has a bad escape")
	}
	return s, nil
}

// idempotencyKey returns the header that makes a request safe to send again.
func idempotencyKey(c echo.Context) (string, error) {
	key := c.Request().Header.Get("Idempotency-Key")
	if key == "" {
		return "", noKey.field("Idempotency-Key", "send a new one for every purchase, and the same one again where no answer came")
	}
	return key, validName("Idempotency-Key", key)
}

// newCoupon reads a coupon to create.
func newCoupon(c echo.Context) (coupon, error) {
	in := struct {
		ID      string `json:"id"`
		Stock   int64  `json:"stock"`
		Buckets int    `json:"buckets"`
		Price   int64  `json:"price"`
	}{Buckets: 1, Price: 500}
	if err := readJSON(c.Request(), &in); err != nil {
		return coupon{}, err
	}
	if err := validName("id", in.ID); err != nil {
		return coupon{}, err
	}
	for _, v := range []struct {
		name           string
		got, low, high int64
	}{
		{"stock", in.Stock, 1, maxStock},
		{"buckets", int64(in.Buckets), 1, min(maxBuckets, in.Stock)},
		{"price", in.Price, 1, maxPrice},
	} {
		if v.got < v.low || v.got > v.high {
			return coupon{}, invalid.field(v.name, "%d: want %d to %d", v.got, v.low, v.high)
		}
	}
	return coupon(in), nil
}

// readJSON reads one JSON object, and nothing that is not known.
func readJSON(r *http.Request, into any) error {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return echo.NewHTTPError(http.StatusUnsupportedMediaType)
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is something after the object")
		}
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		return e // too large
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return badRequest.field(e.Field, "a %s where %s is wanted", e.Value, e.Type)
	}
	if err != nil {
		return badRequest.because("%s", readable(err))
	}
	return nil
}

func readable(err error) string {
	if errors.Is(err, io.EOF) {
		return "the body is empty: want a JSON object"
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return "want one JSON object, not a JSON " + e.Value
	}
	return fmt.Sprintf("want one JSON object: %v", err)
}

// page reads where a list begins and how long it may be.
func page(c echo.Context) (after string, limit int, err error) {
	limit = 100
	if s := c.QueryParam("limit"); s != "" {
		limit, err = strconv.Atoi(s)
		if err != nil || limit < 1 || limit > maxReceipts {
			return "", 0, invalid.field("limit", "%q: want 1 to %d", shorten(s), maxReceipts)
		}
	}
	return c.QueryParam("after"), limit, nil
}
