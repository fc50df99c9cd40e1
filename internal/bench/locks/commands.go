package locks

import (
	"context"
	"errors"

	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
)

var commandGoals = []report.Goal{
	{Name: "commands per hand-over, one process", Unit: "commands", Target: 1.05, Better: report.Lower},
	{Name: "commands per hand-over, 64 processes", Unit: "commands", Target: 2, Better: report.Lower},
}

// commands counts what all clients send from the first release to the last grant of a burst,
// by each hand-over in between.
func commands(ctx context.Context, h *rig.Host, r *report.Report) error {
	server := testenv.StartRedis(h, &testenv.RedisOptions{Args: []string{"--maxclients", "4000"}})
	p := rig.StartProxy(h, server.Addr(), 0)
	crowds, err := redisCrowds(h, p.Addr())
	if err != nil {
		return err
	}
	goals := map[string]report.Goal{oursOne: commandGoals[0], oursMany: commandGoals[1]}
	chart := report.Bars{File: "locks-commands", Title: "Commands per hand-over, 64 waiters, empty critical section", Unit: "commands"}
	for _, c := range crowds[1:] { // the mutex sends none
		if err := warm(ctx, c); err != nil {
			return err
		}
		var counts []float64
		for range 2 {
			b := burst(c, 0)
			var before, after int64
			b.Begun = func() { before = p.Commands() }
			b.Granted = func() { after = p.Commands() }
			if _, err := b.Drain(ctx); errors.Is(err, measure.ErrHung) {
				continue // the figure is of the other one
			} else if err != nil {
				return err
			}
			counts = append(counts, float64(after-before)/waiters)
		}
		if g, ok := goals[c.name]; ok {
			r.Reached(g, counts...)
		} else {
			r.Noted("commands per hand-over: "+c.name, "commands", counts...)
		}
		chart.Bars = append(chart.Bars, bar(c.name, []float64{measure.Median(counts)}))
	}
	r.Chart(chart)
	return nil
}
