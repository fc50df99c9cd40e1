package storage

import (
	"context"

	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
)

var singleGoals = []report.Goal{
	{Name: "Postgres, fenced Put / raw UPDATE, time", Unit: "x", Target: 1.05, Better: report.Lower},
	{Name: "Postgres, fenced Put / raw UPDATE, WAL", Unit: "x", Target: 1.35, Better: report.Lower},
	{Name: "Postgres, fenced Put, round trips", Unit: "trips", Target: 1, Better: report.Lower},
}

// single compares a Put under a token that stays the same to one UPDATE.
func single(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	d, err := openDatabase(ctx, h, s, 4)
	if err != nil {
		return err
	}
	raw, err := d.plain(ctx, resource)
	if err != nil {
		return err
	}
	fenced, err := d.holder(ctx, d.pool, resource)
	if err != nil {
		return err
	}
	ratios, err := timed(ctx, s, 0.25, raw, fenced.put)
	if err != nil {
		return err
	}
	r.Reached(singleGoals[0], ratios...)

	var bytes [2]float64
	for i, op := range []func(context.Context) error{raw, fenced.put} {
		if bytes[i], err = d.wal(ctx, s.Count, op); err != nil {
			return err
		}
	}
	r.Reached(singleGoals[1], bytes[1]/bytes[0])
	r.Noted("Postgres, raw UPDATE, WAL", "bytes", bytes[0])
	r.Noted("Postgres, fenced Put, WAL", "bytes", bytes[1])

	pool, proxy, err := d.through(ctx, h)
	if err != nil {
		return err
	}
	far, err := d.holder(ctx, pool, "bench:far")
	if err != nil {
		return err
	}
	n, err := trips(proxy, s.Count/10, func() error { return far.put(ctx) })
	if err != nil {
		return err
	}
	r.Reached(singleGoals[2], n)
	return nil
}
