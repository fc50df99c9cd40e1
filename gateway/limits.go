package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/gateway/wire"
)

func overloaded(detail string) error { return wire.NewError(wire.SlugOverloaded, detail) }

// shares bounds what requests have at once of something that runs out, such as places or bytes: all
// together, and those of each caller. It is safe for concurrent use.
type shares struct {
	what           string // what there is too much of, for who is refused
	most, mostEach int64

	mu   sync.Mutex // guards the rest; nothing blocks under it
	n    int64
	each map[string]int64 // by key or client address; no zeros
}

// newShares leaves each caller three quarters of all, but no less than least.
func newShares(what string, most, least int64) shares {
	return shares{what: what, most: most, mostEach: max(most-most/4, least)}
}

// take takes n for a caller, or nothing: 503 overloaded.
func (s *shares) take(who string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case n > s.most-s.n:
		return overloaded("too many " + s.what)
	case n > s.mostEach-s.each[who]:
		return overloaded("too many " + s.what + " for this key or client")
	}
	s.add(who, n)
	return nil
}

// retake takes n, above the bounds if it must.
func (s *shares) retake(who string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(who, n)
}

func (s *shares) give(who string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(who, -n)
}

// add changes the counts; s.mu is held.
func (s *shares) add(who string, n int64) {
	s.n += n
	left := s.each[who] + n
	if left == 0 {
		delete(s.each, who)
		return
	}
	if s.each == nil {
		s.each = map[string]int64{}
	}
	s.each[who] = left
}

// taken returns how much is taken.
func (s *shares) taken() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// waitSlot counts a request that may wait for a lock, in place of those in work. Above the limits,
// and while the gateway drains, it is refused: 503 overloaded or draining. After the waiting,
// release must be called once.
func (g *Gateway) waitSlot(c echo.Context) (release func(), err error) {
	if g.draining() {
		return nil, errDraining
	}
	p := passOf(c)
	if err := g.waiting.take(p.who, 1); err != nil {
		return nil, err
	}
	if p.inFlight {
		g.inFlight.give(p.who, 1)
	}
	return func() {
		g.waiting.give(p.who, 1)
		if p.inFlight {
			g.inFlight.retake(p.who, 1)
		}
	}, nil
}

// takeBody takes n bytes of the budget of bodies until the request ends.
func (g *Gateway) takeBody(p *pass, n int64) error {
	if err := g.bodies.take(p.who, n); err != nil {
		return err
	}
	p.body += n
	return nil
}

// giveBody gives back what the request has of the budget of bodies.
func (g *Gateway) giveBody(p *pass) {
	g.bodies.give(p.who, p.body)
	p.body = 0
}

// takeFirst takes the bytes of a reply's first value. One that is more than a caller's share is
// served as well, to who has nothing else.
func (g *Gateway) takeFirst(p *pass, n int64) error {
	return g.takeBody(p, min(n, g.bodies.mostEach))
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
