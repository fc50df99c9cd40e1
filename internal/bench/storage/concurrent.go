package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/storage/pgstore"
)

const writers = 64 // goroutines, and connections of a pool

var concurrentGoals = []report.Goal{
	{Name: "Postgres, 64 fenced commits at once, 1,000 resources / raw UPDATEs", Unit: "x", Target: 4, Better: report.Higher},
	{Name: "Postgres, 64 fenced commits at once, one hot resource / raw UPDATEs", Unit: "x", Target: 25, Better: report.Higher},
}

// concurrent lets 64 goroutines commit through one backend, and update through a pool.
func concurrent(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	d, err := openDatabase(ctx, h, s, writers)
	if err != nil {
		return err
	}
	own, err := rig.Pool(ctx, h, d.url, writers)
	if err != nil {
		return err
	}
	b, err := pgstore.New(ctx, own, nil)
	if err != nil {
		return err
	}
	raw := make([]func(context.Context) error, s.Resources)
	fenced := make([]holder, s.Resources)
	var g errgroup.Group
	g.SetLimit(16)
	for i := range s.Resources {
		g.Go(func() (err error) {
			name := fmt.Sprintf("bench:%d", i)
			if raw[i], err = d.plain(ctx, name); err != nil {
				return err
			}
			if fenced[i], err = granted(ctx, b, name); err != nil {
				return err
			}
			return fenced[i].put(ctx)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}

	chart := report.Bars{File: "storage-postgres", Title: "64 goroutines of one process, PostgreSQL, fsync on", Unit: "commits a second"}
	for i, crowd := range []struct {
		name string
		pick func() int
	}{
		{"1,000 resources", func() int { return rand.IntN(s.Resources) }},
		{"one hot resource", func() int { return 0 }},
	} {
		var commits atomic.Int64
		ours := func(ctx context.Context, _ int) error {
			commits.Add(1)
			return fenced[crowd.pick()].put(ctx)
		}
		ratios, bars, err := race(ctx, r, s, writers, []measure.Contender{
			{Name: "Postgres, raw UPDATE, " + crowd.name, Op: func(ctx context.Context, _ int) error { return raw[crowd.pick()](ctx) }},
			{Name: "Postgres, fenced commit, " + crowd.name, Op: ours},
		})
		if err != nil {
			return err
		}
		r.Reached(concurrentGoals[i], ratios...)
		chart.Bars = append(chart.Bars, bars...)

		before, err := d.number(ctx, xidsSQL)
		if err != nil {
			return err
		}
		commits.Store(0)
		if _, err := measure.Rate(ctx, writers, s.Slice, ours); err != nil {
			return err
		}
		after, err := d.number(ctx, xidsSQL)
		if err != nil {
			return err
		}
		r.Noted("Postgres, fenced commits in one transaction, "+crowd.name, "commits", float64(commits.Load())/(after-before))
	}
	r.Chart(chart)
	return nil
}
