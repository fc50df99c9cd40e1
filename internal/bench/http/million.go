package http

import (
	"context"

	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
)

var millionGoals = []report.Goal{
	{Name: "HTTP, embedded, 1 M resources known, 100,000 locks held, memory of the server's process", Unit: "MiB", Target: 400, Better: report.Lower},
	{Name: "HTTP, embedded, p99 of an acquire, 1 M resources known and 100,000 locks held / none", Unit: "x", Target: 3, Better: report.Lower},
}

// million compares a gateway that has seen much with one that has seen nothing.
func million(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	var servers [2]child
	var keys [2]string
	for i, on := range []setup{
		{Lock: inMemory, Store: onSQLite},
		{Lock: inMemory, Store: onSQLite, Known: s.Known, Held: s.Held},
	} {
		var err error
		if servers[i], keys[i], err = startGateway(ctx, h, on); err != nil {
			return err
		}
	}
	size, err := rig.Resident(servers[1].pid)
	if err != nil {
		return err
	}
	r.Reached(millionGoals[0], mib(size))
	var steps [2]measure.Step
	for i, of := range servers {
		c, err := dial(ctx, of.Addr)
		if err != nil {
			return err
		}
		h.Cleanup(c.close)
		// Both lock the same names: the one knows them, the other does not.
		steps[i] = c.acquires(keys[i], func(pair int) string { return known(s.Held + pair%(s.Known-s.Held)) })
	}
	if _, err := measure.Paired(ctx, s.Pairs/10+1, 0.99, steps[0], steps[1]); err != nil { // prepare, fill caches
		return err
	}
	var p99s, p50s []float64
	for range s.Runs {
		for _, of := range []struct {
			q      float64
			ratios *[]float64
		}{{0.99, &p99s}, {0.5, &p50s}} {
			ratio, err := measure.Paired(ctx, s.Pairs, of.q, steps[0], steps[1])
			if err != nil {
				return err
			}
			*of.ratios = append(*of.ratios, ratio)
		}
	}
	r.Reached(millionGoals[1], p99s...)
	r.Noted("HTTP, embedded, p50 of an acquire, the same", "x", p50s...)
	return nil
}

// acquires takes locks, and gives each back when its time was taken.
func (c *conn) acquires(key string, name func(pair int) string) measure.Step {
	var token string
	return measure.Step{
		Do: func(_ context.Context, pair int) (err error) {
			token, err = c.token(key, name(pair))
			return err
		},
		Undo: func(_ context.Context, pair int) error { return c.release(key, name(pair), token) },
	}
}
