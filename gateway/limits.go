package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/gateway/wire"
)

func overloaded(detail string) error { return wire.NewError(wire.SlugOverloaded, detail) }

// slots bounds how many do something at once.
type slots struct {
	most int64
	n    atomic.Int64
}

func (s *slots) take() bool {
	if s.n.Add(1) <= s.most {
		return true
	}
	s.n.Add(-1)
	return false
}

// retake goes above the bound, if it must.
func (s *slots) retake() { s.n.Add(1) }

func (s *slots) give() { s.n.Add(-1) }

// waiting counts the requests that wait for locks.
type waiting struct {
	most, mostEach int

	mu   sync.Mutex // guards the rest
	n    int
	each map[string]int // by key or client address; no zeros
}

// enter counts one in, unless there are too many.
func (w *waiting) enter(who string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.n >= w.most:
		return overloaded("as many requests wait for locks as may")
	case w.each[who] >= w.mostEach:
		return overloaded("as many requests of this key or client wait for locks as may")
	}
	if w.each == nil {
		w.each = map[string]int{}
	}
	w.n++
	w.each[who]++
	return nil
}

func (w *waiting) leave(who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	if w.each[who]--; w.each[who] == 0 {
		delete(w.each, who)
	}
}

// waitSlot counts a request that may wait for a lock, in place of those in work. Above the limits,
// and while the gateway drains, it is refused: 503 overloaded or draining. After the waiting,
// release must be called once.
func (g *Gateway) waitSlot(c echo.Context) (release func(), err error) {
	if g.draining() {
		return nil, errDraining
	}
	p := passOf(c)
	if err := g.waiting.enter(p.who); err != nil {
		return nil, err
	}
	if p.inFlight {
		g.inFlight.give()
	}
	return func() {
		g.waiting.leave(p.who)
		if p.inFlight {
			g.inFlight.retake()
		}
	}, nil
}

// takeBody takes n bytes of the budget of bodies until the request ends.
func (g *Gateway) takeBody(p *pass, n int64) error {
	if g.bodies.Add(n) > g.o.MaxBodies {
		g.bodies.Add(-n)
		return overloaded("as many bytes of bodies are in memory as may")
	}
	p.body += n
	return nil
}

func (g *Gateway) giveBody(p *pass) {
	g.bodies.Add(-p.body)
	p.body = 0
}

// body reads the raw body, within the budget of all bodies: its declared length is taken before
// the first byte is read, of one that declares none each part as it arrives.
func (g *Gateway) body(c echo.Context, limit int) ([]byte, error) {
	r := c.Request()
	if enc := r.Header.Values("Content-Encoding"); len(enc) > 0 {
		return nil, wire.NewError(wire.SlugUnsupportedMedia, "a Content-Encoding is not supported")
	}
	if r.ContentLength > int64(limit) {
		return nil, tooLarge(limit)
	}
	p := passOf(c)
	if r.ContentLength < 0 {
		return g.chunks(c, p, limit)
	}
	if err := g.takeBody(p, r.ContentLength); err != nil {
		return nil, err
	}
	// Like io.ReadAll it makes room as it reads: a length that is only declared costs nothing but
	// its part of the budget.
	data := bytes.NewBuffer(make([]byte, 0, min(r.ContentLength, 64<<10)+bytes.MinRead))
	if n, err := data.ReadFrom(r.Body); err != nil || n != r.ContentLength {
		return nil, wire.Malformed("the body ended early")
	}
	return data.Bytes(), nil
}

// chunks reads a body that does not say how long it is.
func (g *Gateway) chunks(c echo.Context, p *pass, limit int) ([]byte, error) {
	data, err := io.ReadAll(&metered{http.MaxBytesReader(c.Response().Writer, c.Request().Body, int64(limit)), g, p})
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(limit)
	}
	if shed, ok := errors.AsType[*wire.Error](err); ok {
		return nil, shed
	}
	if err != nil {
		return nil, wire.Malformed("the body ended early")
	}
	return data, nil
}

func tooLarge(limit int) error { return wire.TooLarge(fmt.Sprintf("at most %d bytes", limit)) }

// metered takes what is read from the budget of bodies.
type metered struct {
	io.Reader
	g *Gateway
	p *pass
}

func (m *metered) Read(b []byte) (int, error) {
	n, err := m.Reader.Read(b)
	if over := m.g.takeBody(m.p, int64(n)); over != nil {
		return 0, over
	}
	return n, err
}
