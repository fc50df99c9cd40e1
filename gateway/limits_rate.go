package gateway

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/fencegate/fencegate/gateway/wire"
)

const (
	// maxRated is how many callers have a limiter of their own at once.
	maxRated = 50_000
	// wrongKeys is how many requests a second without a valid key an address may make at most.
	wrongKeys = 100
)

// rates are the limiters of callers, by key or by address.
type rates struct {
	mu    sync.Mutex // guards the rest
	m     map[string]*rate.Limiter
	swept time.Time
}

// of returns a caller's limiter. One that is full has forgotten nothing if it is dropped, so the
// full ones make room. Where there is none, newcomers share a limiter: memory stays bounded, and
// nobody gets more by coming from many addresses.
func (r *rates) of(who string, limit rate.Limit, burst int, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = map[string]*rate.Limiter{}
	}
	if len(r.m) >= maxRated && r.m[who] == nil {
		if now.Sub(r.swept) >= time.Second {
			r.swept = now
			for who, l := range r.m {
				if l.TokensAt(now) >= float64(l.Burst()) {
					delete(r.m, who)
				}
			}
		}
		if len(r.m) >= maxRated {
			who = "" // no key, no address
		}
	}
	l := r.m[who]
	if l == nil {
		l = rate.NewLimiter(limit, burst)
		r.m[who] = l
	}
	if l.Limit() != limit { // the key's rate was changed
		l.SetLimitAt(now, limit)
		l.SetBurstAt(now, burst)
	}
	return l
}

// rated counts a request of a known caller.
func (g *Gateway) rated(c echo.Context, p *pass) error {
	return g.limit(c, &g.callers, p.who, cmp.Or(p.key.Rate, g.o.Rate))
}

// strangersRate is the limit of requests without a valid key, for an address.
func (g *Gateway) strangersRate() float64 {
	if g.o.Rate == 0 {
		return wrongKeys
	}
	return min(g.o.Rate, wrongKeys)
}

// limit takes one request from a caller's quota and tells of it in the headers of the IETF's draft
// (draft-ietf-httpapi-ratelimit-headers): q requests in w seconds at most, r of them left, t
// seconds until all are there again. A rate of 0 is no limit.
func (g *Gateway) limit(c echo.Context, r *rates, who string, perSecond float64) error {
	if perSecond == 0 {
		return nil
	}
	burst := int(math.Ceil(2 * perSecond))
	now := time.Now()
	l := r.of(who, rate.Limit(perSecond), burst, now)
	ok := l.AllowN(now, 1)
	left := max(0, l.TokensAt(now))
	seconds := func(tokens float64) int { return int(math.Ceil(tokens / perSecond)) }
	h := c.Response().Header()
	h.Set("RateLimit-Policy", fmt.Sprintf(`"requests";q=%d;w=%d`, burst, seconds(float64(burst))))
	h.Set("RateLimit", fmt.Sprintf(`"requests";r=%d;t=%d`, int(left), seconds(float64(burst)-left)))
	if ok {
		return nil
	}
	e := wire.NewError(wire.SlugRateLimited, fmt.Sprintf("at most %g requests a second", perSecond))
	e.Problem.Remaining = wire.Span(time.Duration(float64(time.Second) * (1 - left) / perSecond))
	return e
}
