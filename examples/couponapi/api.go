package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

const (
	maxInFlight = 512              // requests at a time; others are told to come again
	workTime    = 30 * time.Second // for one request, locks and payment included
)

//go:embed page
var pageFiles embed.FS

// api is a shop over HTTP.
type api struct {
	shop     *shop
	log      *slog.Logger
	inFlight chan struct{}
}

// newAPI returns the API and its page, for so many requests at a time.
func newAPI(s *shop, log *slog.Logger, inFlight int) http.Handler {
	a := &api{shop: s, log: log, inFlight: make(chan struct{}, inFlight)}
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.HTTPErrorHandler = a.fail
	e.Use(headers, middleware.Recover(), a.limit, middleware.BodyLimit(fmt.Sprintf("%dB", maxBody)))

	e.POST("/coupons", a.create)
	e.GET("/coupons/:id", a.stock)
	e.POST("/coupons/:id/claim", a.sell(s.claim))
	e.POST("/coupons/:id/claim-now", a.sell(s.claimNow))
	e.GET("/coupons/:id/claims/:key", a.claimState)
	e.GET("/coupons/:id/receipts", a.receipts)
	e.GET("/coupons/:id/receipts/:receipt", a.receipt)
	e.POST("/coupons/:id/receipts/:receipt/return", a.giveReturn)
	e.GET("/coupons/:id/audit", a.audit)
	e.GET("/counts", a.counts)
	e.GET("/problems", problems)

	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	e.FileFS("/", "index.html", files)
	e.FileFS("/app.js", "app.js", files)
	e.FileFS("/style.css", "style.css", files)
	e.FileFS("/icon.svg", "icon.svg", files)

	// A page of another site must not make the browser of somebody here buy or return.
	own := http.NewCrossOriginProtection()
	deny := headers(func(echo.Context) error {
		return crossOrigin.because("this server goes by localhost or its address, and serves its own page")
	})
	denied := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := e.NewContext(r, w)
		a.fail(deny(c), c)
	})
	own.SetDenyHandler(denied)
	guarded := own.Handler(e)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if named(r.Host) {
			denied(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// named reports whether a request calls this server by a name that is not localhost. The name of
// another site can be made to lead here (DNS rebinding), and its page is of one origin with us then.
func named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err != nil && host != "" && !strings.EqualFold(host, "localhost")
}

// headers are on every reply: the page runs its own script and style, and talks to this server only.
func headers(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		return next(c)
	}
}

func (a *api) limit(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		select {
		case a.inFlight <- struct{}{}:
			defer func() { <-a.inFlight }()
			return next(c)
		default:
			return busy.because("%d requests are in work", cap(a.inFlight))
		}
	}
}

// fail is the one place where errors become replies.
func (a *api) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	p := toProblem(err)
	if p.retryable() {
		c.Response().Header().Set("Retry-After", "1")
		a.log.Warn(p.Title, "path", c.Request().URL.Path, "error", fmt.Sprint(errors.Unwrap(p)))
	}
	_ = c.Blob(p.Status, "application/problem+json", append(encode(p), '\n'))
}

// work is a context for what must not stop in the middle because the client has gone: once the
// payment is made, the sale had better be finished.
func work(c echo.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.Request().Context()), workTime)
}

func send(c echo.Context, status int, v any) error {
	return c.Blob(status, "application/json", append(encode(v), '\n'))
}

func (a *api) create(c echo.Context) error {
	in, err := newCoupon(c)
	if err != nil {
		return err
	}
	ctx, cancel := work(c)
	defer cancel()
	if err := startOver(ctx, func() error { return a.shop.create(ctx, in) }); err != nil {
		return err
	}
	c.Response().Header().Set("Location", "/coupons/"+in.ID)
	return send(c, http.StatusCreated, in)
}

// coupon finds the coupon in the path.
func (a *api) coupon(c echo.Context) (coupon, error) {
	id, err := param(c, "id")
	if err != nil {
		return coupon{}, err
	}
	if err := validName("id", id); err != nil {
		return coupon{}, err
	}
	return a.shop.coupon(c.Request().Context(), id)
}

// stockReply is a coupon with what is left of it.
type stockReply struct {
	coupon
	Left    int64   `json:"left"`
	Each    []int64 `json:"each"`    // left in each bucket
	Initial []int64 `json:"initial"` // what each bucket began with
}

func (a *api) stock(c echo.Context) error {
	cp, err := a.coupon(c)
	if err != nil {
		return err
	}
	out := stockReply{coupon: cp}
	if out.Each, err = a.shop.stock(c.Request().Context(), cp); err != nil {
		return err
	}
	for i, n := range out.Each {
		out.Left += n
		out.Initial = append(out.Initial, cp.share(i))
	}
	return send(c, http.StatusOK, out)
}

// sell answers 201 with the receipt of a new sale, and 200 with the one that the key has already.
func (a *api) sell(claim func(context.Context, coupon, string) (receipt, bool, error)) echo.HandlerFunc {
	return func(c echo.Context) error {
		key, err := idempotencyKey(c)
		if err != nil {
			return err
		}
		cp, err := a.coupon(c)
		if err != nil {
			return err
		}
		ctx, cancel := work(c)
		defer cancel()
		r, replayed, err := claim(ctx, cp, key)
		if err != nil {
			return err
		}
		c.Response().Header().Set("Location", "/coupons/"+cp.ID+"/receipts/"+r.ID)
		if replayed {
			return send(c, http.StatusOK, r)
		}
		return send(c, http.StatusCreated, r)
	}
}

func (a *api) claimState(c echo.Context) error {
	cp, err := a.coupon(c)
	if err != nil {
		return err
	}
	key, err := param(c, "key")
	if err != nil {
		return err
	}
	if err := validName("key", key); err != nil {
		return err
	}
	v, err := a.shop.state(c.Request().Context(), cp, key)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, v)
}

func (a *api) receipts(c echo.Context) error {
	cp, err := a.coupon(c)
	if err != nil {
		return err
	}
	after, limit, err := page(c)
	if err != nil {
		return err
	}
	list, err := a.shop.receipts(c.Request().Context(), cp, after, limit)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, list)
}

func (a *api) receipt(c echo.Context) error {
	return a.withReceipt(c, a.shop.receipt)
}

func (a *api) giveReturn(c echo.Context) error {
	return a.withReceipt(c, a.shop.giveReturn)
}

func (a *api) withReceipt(c echo.Context, do func(context.Context, coupon, string) (receipt, error)) error {
	cp, err := a.coupon(c)
	if err != nil {
		return err
	}
	id, err := param(c, "receipt")
	if err != nil {
		return err
	}
	ctx, cancel := work(c)
	defer cancel()
	r, err := do(ctx, cp, id)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, r)
}

func (a *api) audit(c echo.Context) error {
	cp, err := a.coupon(c)
	if err != nil {
		return err
	}
	out, err := a.shop.audit(c.Request().Context(), cp)
	if err != nil {
		return err
	}
	return send(c, http.StatusOK, out)
}

// countsReply counts since the start of this process.
type countsReply struct {
	Stale int64 `json:"stale"` // commits and reads that the fence refused
}

func (a *api) counts(c echo.Context) error {
	return send(c, http.StatusOK, countsReply{Stale: a.shop.stale.Load()})
}

// problems is what the types of problems lead to.
func problems(c echo.Context) error {
	out := "status  outcome  slug, meaning\n"
	for _, k := range kinds() {
		out += fmt.Sprintf("%d     %-8s %s: %s\n", k.status, k.outcome, k.slug, k.title)
	}
	return c.String(http.StatusOK, out)
}
