package gateway

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
)

const (
	readyTimeout = 5 * time.Second // for Options.Ready
	readyFor     = time.Second     // how long its answer is given to everybody who asks
)

// Check is what was found of one thing that the gateway needs.
type Check struct {
	Name     string   // lock, store, ...
	Err      error    // why it cannot serve; nil if it can
	Warnings []string // what it may lose as it is set up now
	Details  []string // what was found, such as the schema's version
}

// The words of /readyz.
const (
	wordReady    = "ok"
	wordUnready  = "unready"
	wordDraining = "draining"
)

// health is the last answer of Options.Ready.
type health struct {
	turn chan struct{} // of one: who has it may ask, and touch the rest

	checks []Check
	asked  time.Time // when the asking ended
}

func newHealth() health { return health{turn: make(chan struct{}, 1)} }

// ready asks what the gateway needs whether it can serve. Probes that come together, or one after
// the other within readyFor, share one answer: they must not become a load. The error is ctx's.
func (g *Gateway) ready(ctx context.Context) ([]Check, error) {
	if g.o.Ready == nil {
		return nil, nil
	}
	h := &g.health
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.turn }()
	if h.asked.IsZero() || time.Since(h.asked) >= readyFor {
		// A probe that hangs up does not end what others wait for.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
		defer cancel()
		h.checks = g.o.Ready(ctx)
		h.asked = time.Now()
	}
	return h.checks, nil
}

// livez is GET /livez: the process runs, and answers.
func (g *Gateway) livez(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	return c.String(http.StatusOK, "ok\n")
}

// readyz is GET /readyz: one word, and with ?verbose what it is drawn from.
func (g *Gateway) readyz(c echo.Context) error {
	q, err := query(c, "verbose")
	if err != nil {
		return err
	}
	if q.Has("verbose") && !g.privileged(c) {
		if g.o.AdminApart && c.Echo() != g.admin {
			return forbidden("the details are shown elsewhere", "listener", "the admin listener (fencegate serve --admin-listen)")
		}
		return forbidden("the details are not for everybody", "scope", apikey.Admin.String())
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
	defer cancel()
	var checks []Check
	word := wordDraining
	if !g.draining() || q.Has("verbose") {
		checks, err = g.ready(ctx)
		word = g.word(checks, err)
	}
	status := http.StatusOK
	if word != wordReady {
		status = http.StatusServiceUnavailable
	}
	switch {
	case !q.Has("verbose"):
		return c.String(status, word+"\n")
	case strings.Contains(c.Request().Header.Get("Accept"), wire.TypeJSON):
		return reply(c, status, fromChecks(word, checks))
	}
	return c.String(status, checksText(fromChecks(word, checks)))
}

func (g *Gateway) word(checks []Check, err error) string {
	if g.draining() {
		return wordDraining
	}
	if err != nil {
		return wordUnready
	}
	for _, k := range checks {
		if k.Err != nil {
			return wordUnready
		}
	}
	return wordReady
}

func fromChecks(word string, checks []Check) wire.Ready {
	out := wire.Ready{Status: word, Checks: make([]wire.Check, len(checks))}
	for i, k := range checks {
		out.Checks[i] = wire.Check{Name: k.Name, OK: k.Err == nil, Warnings: redactAll(k.Warnings), Details: redactAll(k.Details)}
		if k.Err != nil {
			out.Checks[i].Error = redactErr(k.Err)
		}
	}
	return out
}

func redactAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = wire.Redact(s)
	}
	return out
}

// checksText is one line for each thing that was found, and the word.
func checksText(r wire.Ready) string {
	var b strings.Builder
	for _, k := range r.Checks {
		if k.OK {
			b.WriteString("[+] " + k.Name + " ok\n")
		} else {
			b.WriteString("[-] " + k.Name + " failed: " + oneLine(k.Error) + "\n")
		}
		for _, s := range k.Details {
			b.WriteString("    " + oneLine(s) + "\n")
		}
		for _, s := range k.Warnings {
			b.WriteString("    warning: " + oneLine(s) + "\n")
		}
	}
	return b.String() + r.Status + "\n"
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// metrics is GET /metrics.
func (g *Gateway) metrics(c echo.Context) error {
	if g.o.Metrics == nil {
		return wire.NewError(wire.SlugNotFound, "")
	}
	g.o.Metrics.ServeHTTP(c.Response(), c.Request())
	return nil
}
