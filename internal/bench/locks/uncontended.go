package locks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
)

var uncontendedGoals = []report.Goal{
	{Name: "acquire + release, 16 clients / redsync", Unit: "x", Target: 3, Better: report.Higher},
	{Name: "acquire + release, 16 clients / bsm/redislock", Unit: "x", Target: 2, Better: report.Higher},
	{Name: "acquire + release, 16 clients / rueidislock", Unit: "x", Target: 1.5, Better: report.Higher},
}

// uncontended lets 16 goroutines of one process take and free locks of their own.
func uncontended(ctx context.Context, h *rig.Host, r *report.Report) error {
	addr := testenv.StartRedis(h, nil).Addr()
	ours, err := fencegate(h, addr, clients)
	if err != nil {
		return err
	}
	rueidis, err := rueidisOn(h, addr)
	if err != nil {
		return err
	}
	contenders := []measure.Contender{
		take("fencegate", ours),
		take("redsync", redsyncOn(h, clients, 0, addr)),
		take("bsm/redislock", bsmOn(h, addr, clients)),
		take("rueidislock", rueidis),
	}
	if _, err := measure.Rates(ctx, 1, clients, 50*time.Millisecond, contenders); err != nil { // connect
		return err
	}
	rates, err := measure.Rates(ctx, runs, clients, 400*time.Millisecond, contenders)
	if err != nil {
		return err
	}
	chart := report.Bars{File: "locks-uncontended", Title: "Acquire + release, uncontended, 16 clients of one Redis", Unit: "pairs a second"}
	for i, c := range contenders {
		r.Noted(c.Name+", acquire + release, 16 clients", "pairs/s", rates[i]...)
		chart.Bars = append(chart.Bars, bar(c.Name, rates[i]))
		if i > 0 {
			g := uncontendedGoals[i-1]
			r.Reached(g, measure.Ratios(rates[0], rates[i])...)
			chart.Target = max(chart.Target, g.Target*measure.Median(rates[i]))
		}
	}
	chart.Goal = "what meets the goals against all three"
	r.Chart(chart)

	for _, n := range []int{1, 64} {
		rates, err := measure.Rates(ctx, 2, n, 200*time.Millisecond, contenders[:2])
		if err != nil {
			return err
		}
		r.Noted(fmt.Sprintf("acquire + release, %d clients / redsync", n), "x", measure.Ratios(rates[0], rates[1])...)
	}
	return nil
}

// take makes a contender of a lock: each worker has a resource of its own.
func take(name string, lock locker) measure.Contender {
	base := fresh()
	return measure.Contender{Name: name, Op: func(ctx context.Context, worker int) error {
		unlock, err := lock(ctx, fmt.Sprintf("%s:%d", base, worker), false)
		if err != nil {
			return err
		}
		return unlock()
	}}
}

func bar(name string, runs []float64) report.Bar {
	kind := report.Peer
	switch {
	case name == limit:
		kind = report.Limit
	case strings.HasPrefix(name, "fencegate"):
		kind = report.Ours
	}
	return report.Bar{Label: name, Value: measure.Median(runs), Kind: kind}
}
