package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
)

var waiterGoals = []report.Goal{
	{Name: "HTTP, 10,000 long-polling waiters on 1,000 resources, served in their order", Unit: "of all", Target: 1, Better: report.Higher},
	{Name: "HTTP, 10,000 long-polling waiters, memory of the server's process", Unit: "MiB", Target: 200, Better: report.Lower},
	{Name: "HTTP, 10,000 long-polling waiters, goroutines left over", Unit: "goroutines", Target: 0, Better: report.Lower},
}

// waiters lets lines of waiters form, a connection each, and serves them.
func waiters(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	var inOrder, memory, empty, left, rates []float64
	for range 2 {
		ours, key, err := startGateway(ctx, h, setup{Lock: inMemory, Store: inMemory})
		if err != nil {
			return err
		}
		c, err := newCrowd(ctx, h, ours, key, s)
		if err != nil {
			return err
		}
		h.Cleanup(c.leave)
		alone, err := ours.counts(ctx)
		if err != nil {
			return err
		}
		before, err := rig.Resident(ours.pid)
		if err != nil {
			return err
		}
		if err := c.form(ctx); err != nil {
			return err
		}
		during, err := rig.Resident(ours.pid)
		if err != nil {
			return err
		}
		start := time.Now()
		served, err := c.serve(ctx)
		if err != nil {
			return err
		}
		rates = append(rates, float64(s.Waiters*s.Lines)/time.Since(start).Seconds())
		inOrder = append(inOrder, served)
		memory = append(memory, mib(during))
		empty = append(empty, mib(before))
		c.leave()
		more, err := ours.settle(ctx, alone.Goroutines)
		if err != nil {
			return err
		}
		left = append(left, float64(more))
	}
	r.Reached(waiterGoals[0], inOrder...)
	r.Reached(waiterGoals[1], memory...)
	r.Reached(waiterGoals[2], left...)
	r.Noted("HTTP, 10,000 long-polling waiters, memory of the server's process before they come", "MiB", empty...)
	r.Noted("HTTP, 10,000 long-polling waiters, hand-overs", "1/s", rates...)
	least, err := idlers(ctx, h, s)
	if err != nil {
		return err
	}
	r.Noted("HTTP, 10,000 requests that wait in bare echo, memory of the server's process", "MiB", least)
	return nil
}

// idlers returns what as many requests take in a server where nothing but their end is waited for.
func idlers(ctx context.Context, h *rig.Host, s Sizes) (float64, error) {
	echo, err := start(ctx, h, setup{Echo: true})
	if err != nil {
		return 0, err
	}
	alone, err := echo.counts(ctx)
	if err != nil {
		return 0, err
	}
	n := s.Waiters * s.Lines
	wait := request("GET", "/wait", "")
	for range n {
		c, err := dial(ctx, echo.Addr)
		if err != nil {
			return 0, err
		}
		h.Cleanup(c.close)
		if _, err := c.net.Write(wait); err != nil {
			return 0, err
		}
	}
	for {
		now, err := echo.counts(ctx)
		if err != nil {
			return 0, err
		}
		if now.Goroutines >= alone.Goroutines+2*n { // the handler's, and the one that sees the client hang up
			break
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
	size, err := rig.Resident(echo.pid)
	return mib(size), err
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// crowd is a line of waiters for each of many resources.
type crowd struct {
	addr    string
	key     string
	desk    *conn // for all that is not waiting
	waiters int   // a line
	lines   []line
}

type line struct {
	resource string
	token    string // of who holds the lock while the line forms
	number   int64  // of that token
	waiting  []*conn
}

// newCrowd takes the lock of each line.
func newCrowd(ctx context.Context, h *rig.Host, of child, key string, s Sizes) (*crowd, error) {
	desk, err := dial(ctx, of.Addr)
	if err != nil {
		return nil, err
	}
	h.Cleanup(desk.close)
	c := &crowd{addr: of.Addr, key: key, desk: desk, waiters: s.Waiters, lines: make([]line, s.Lines)}
	for i := range c.lines {
		l := &c.lines[i]
		l.resource = fmt.Sprintf("line:%d", i)
		if l.token, err = desk.token(key, l.resource); err != nil {
			return nil, err
		}
		if l.number, err = desk.number(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// number returns the number in a grant's reply.
func (c *conn) number() (int64, error) {
	text, err := c.member("number")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// form lets one waiter join each line at a time: so the order in which they came is known.
func (c *crowd) form(ctx context.Context) error {
	for place := range c.waiters {
		for i := range c.lines {
			l := &c.lines[i]
			w, err := dial(ctx, c.addr)
			if err != nil {
				return err
			}
			l.waiting = append(l.waiting, w)
			ask := request("POST", path(l.resource, "/lock"), fmt.Sprintf(`{"ttl":"60s","wait":%q}`, patient), authorization+c.key, jsonBody)
			if _, err := w.net.Write(ask); err != nil {
				return err
			}
		}
		if err := c.await(ctx, place+1); err != nil {
			return err
		}
	}
	return nil
}

// await returns when each line is so long.
func (c *crowd) await(ctx context.Context, length int) error {
	for {
		if err := c.desk.roundTrip(request("GET", "/v1/locks?prefix=line:&limit=1000", "", authorization+c.key)); err != nil {
			return err
		}
		var list wire.LockList
		if err := json.Unmarshal(c.desk.body, &list); err != nil {
			return err
		}
		if len(list.Locks) != len(c.lines) {
			return fmt.Errorf("%d locks are held, want %d", len(list.Locks), len(c.lines))
		}
		long := 0
		for _, l := range list.Locks {
			if l.Waiters == length {
				long++
			}
		}
		if long == len(c.lines) {
			return nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// serve releases the locks. Each waiter that is granted one releases it at once. It returns the
// share of waiters that were served in the place in which they came.
func (c *crowd) serve(ctx context.Context) (float64, error) {
	numbers := make([][]int64, len(c.lines))
	g, _ := errgroup.WithContext(ctx)
	for i, l := range c.lines {
		numbers[i] = make([]int64, len(l.waiting))
		for place, w := range l.waiting {
			g.Go(func() error {
				err := w.reply()
				if err != nil {
					return fmt.Errorf("waiter %d of %s: %w", place, l.resource, err)
				}
				if numbers[i][place], err = w.number(); err != nil {
					return err
				}
				token, err := w.member("token")
				if err != nil {
					return err
				}
				return w.release(c.key, l.resource, token)
			})
		}
	}
	for _, l := range c.lines {
		if err := c.desk.release(c.key, l.resource, l.token); err != nil {
			return 0, err
		}
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	served := 0
	for i, l := range c.lines {
		for place, number := range numbers[i] {
			if number == l.number+1+int64(place) {
				served++
			}
		}
	}
	return float64(served) / float64(c.waiters*len(c.lines)), nil
}

// leave hangs up.
func (c *crowd) leave() {
	for _, l := range c.lines {
		for _, w := range l.waiting {
			w.close()
		}
	}
}

// settle waits until the server has no more goroutines than it had, and returns by how many it
// has more after ten seconds.
func (c child) settle(ctx context.Context, had int) (int, error) {
	for end := time.Now().Add(10 * time.Second); ; {
		now, err := c.counts(ctx)
		if more := now.Goroutines - had; err != nil || more <= 0 || time.Now().After(end) {
			return max(more, 0), err
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

var errEnded = errors.New("interrupted")

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return errEnded
	case <-time.After(d):
		return nil
	}
}
