package http

import (
	"context"

	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
)

// cost shows what a request takes of its server: of the processors' time, and allocations.
func cost(ctx context.Context, r *report.Report, s Sizes, of child, c measure.Contender) error {
	var micros, allocations []float64
	for range s.Runs {
		before, err := of.taken(ctx)
		if err != nil {
			return err
		}
		rate, err := measure.Rate(ctx, connections, s.Slice, c.Op)
		if err != nil {
			return err
		}
		after, err := of.taken(ctx)
		if err != nil {
			return err
		}
		requests := rate * s.Slice.Seconds()
		micros = append(micros, (after.micros-before.micros)/requests)
		allocations = append(allocations, (after.allocations-before.allocations)/requests)
	}
	r.Noted(c.Name+", CPU of the server a request", "us", micros...)
	r.Noted(c.Name+", allocations of the server a request", "", allocations...)
	return nil
}

// taken is what a server has taken so far.
type taken struct{ micros, allocations float64 }

func (c child) taken(ctx context.Context) (taken, error) {
	cpu, err := rig.CPU(c.pid)
	if err != nil {
		return taken{}, err
	}
	n, err := c.counts(ctx)
	return taken{float64(cpu.Microseconds()), float64(n.Allocations)}, err
}
