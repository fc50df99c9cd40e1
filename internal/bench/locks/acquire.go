package locks

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redislock"
)

const pairs = 3000

var acquireGoals = []report.Goal{
	{Name: "acquire + token / plain SET NX PX, time", Unit: "x", Target: 1.06, Better: report.Lower},
	{Name: "acquire + token, round trips", Unit: "trips", Target: 1, Better: report.Lower},
}

// acquire compares taking a free lock, with its token, to one SET NX PX with a random value:
// what a lock without a token costs.
func acquire(ctx context.Context, h *rig.Host, r *report.Report) error {
	server := testenv.StartRedis(h, nil)
	client := rig.Client(h, server.Addr(), 4)
	backend, err := redislock.New(client, nil)
	if err != nil {
		return err
	}
	desk, err := issuer(backend)
	if err != nil {
		return err
	}

	plain := func() measure.Step {
		key := ""
		return measure.Step{
			Do: func(ctx context.Context, _ int) error {
				key = fresh()
				return client.SetArgs(ctx, key, fencing.NewGrant(), redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
			},
			Undo: func(ctx context.Context, _ int) error { return client.Del(ctx, key).Err() },
		}
	}
	var held fencing.Token
	free := func(ctx context.Context, _ int) error {
		_, err := backend.Release(ctx, held)
		return err
	}
	byBackend := measure.Step{Undo: free, Do: func(ctx context.Context, _ int) error {
		hold, err := backend.TryAcquire(ctx, locking.Request{Resource: fresh(), Grant: fencing.NewGrant(), TTL: ttl})
		held = hold.Token
		return err
	}}
	byIssuer := measure.Step{Undo: free, Do: func(ctx context.Context, _ int) error {
		g, err := desk.Grant(ctx, locking.Request{Resource: fresh(), TTL: ttl})
		held = g.Token
		return err
	}}

	var ratios [2][]float64
	for range runs {
		for i, step := range []measure.Step{byBackend, byIssuer} {
			ratio, err := measure.Paired(ctx, pairs, 0.25, plain(), step)
			if err != nil {
				return err
			}
			ratios[i] = append(ratios[i], ratio)
		}
	}
	r.Reached(acquireGoals[0], ratios[0]...)
	r.Noted("the same through an Issuer", "x", ratios[1]...)
	return trips(ctx, h, r, server)
}

// trips counts what one acquisition sends, once the script is known to the server.
func trips(ctx context.Context, h *rig.Host, r *report.Report, server *testenv.Redis) error {
	const acquisitions = 100
	p := rig.StartProxy(h, server.Addr(), 0)
	backend, err := redislock.New(rig.Client(h, p.Addr(), 1), nil)
	if err != nil {
		return err
	}
	desk, err := issuer(backend)
	if err != nil {
		return err
	}
	if err := cycle(ctx, desk, fresh()); err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond) // what a client says when it connects
	before := p.Trips()
	for range acquisitions {
		if _, err := desk.Grant(ctx, locking.Request{Resource: fresh(), TTL: ttl}); err != nil {
			return err
		}
	}
	r.Reached(acquireGoals[1], float64(p.Trips()-before)/acquisitions)
	return nil
}
