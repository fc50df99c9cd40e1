package storage

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage/redisstore"
)

var redisGoals = []report.Goal{
	{Name: "Redis, fenced Put / SET, time", Unit: "x", Target: 1.06, Better: report.Lower},
	{Name: "Redis, 64 fenced Puts at once / pooled SET", Unit: "x", Target: 3.5, Better: report.Higher},
}

// onRedis compares Puts to SETs of the same values by the same client.
func onRedis(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	client := rig.Client(h, testenv.StartRedis(h, nil).Addr(), writers)
	b, err := redisstore.New(ctx, client, nil)
	if err != nil {
		return err
	}
	var fenced []holder
	for worker := range writers {
		one, err := granted(ctx, b, fmt.Sprintf("worker:%d", worker))
		if err != nil {
			return err
		}
		fenced = append(fenced, one)
	}
	set := func(ctx context.Context, worker int) error {
		return client.Set(ctx, fmt.Sprintf("plain:{worker:%d}:value", worker), value(), 0).Err()
	}
	alone := func(ctx context.Context) error { return set(ctx, 0) }

	ratios, err := timed(ctx, s, 0.25, alone, fenced[0].put)
	if err != nil {
		return err
	}
	r.Reached(redisGoals[0], ratios...)
	// What no script is faster than.
	nothing := redis.NewScript("return {'ok'}")
	ratios, err = timed(ctx, s, 0.25, alone, func(ctx context.Context) error {
		return nothing.Run(ctx, client, []string{"plain:{worker:0}:value"}, value()).Err()
	})
	if err != nil {
		return err
	}
	r.Noted("Redis, a script that does nothing / SET, time", "x", ratios...)

	ratios, bars, err := race(ctx, r, s, writers, []measure.Contender{
		{Name: "Redis, SET, 64 goroutines", Op: set},
		{Name: "Redis, fenced Put, 64 goroutines", Op: func(ctx context.Context, worker int) error { return fenced[worker].put(ctx) }},
	})
	if err != nil {
		return err
	}
	r.Reached(redisGoals[1], ratios...)
	r.Chart(report.Bars{
		File: "storage-redis", Title: "64 goroutines of one process, Redis", Unit: "writes a second",
		Bars: bars, Target: redisGoals[1].Target * bars[0].Value, Goal: "3.5 times pooled SET",
	})
	return nil
}
