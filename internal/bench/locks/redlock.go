package locks

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/locking/redlock"
)

const nodes = 5

var redlockGoals = []report.Goal{
	{Name: "redlock, 5 nodes, 16 clients / redsync on 5 nodes", Unit: "x", Target: 4, Better: report.Higher},
	{Name: "redlock, 5 nodes / 1 node, 1 ms each way, p50", Unit: "x", Target: 1.1, Better: report.Lower},
}

// quorum measures redlock: throughput without a network, and time with one.
func quorum(ctx context.Context, h *rig.Host, r *report.Report) error {
	var servers, far []string
	for range nodes {
		s := testenv.StartRedis(h, nil)
		servers = append(servers, s.Addr())
		far = append(far, rig.StartProxy(h, s.Addr(), time.Millisecond).Addr())
	}
	if err := quorumRate(ctx, h, r, servers); err != nil {
		return err
	}
	return quorumTime(ctx, h, r, far)
}

func quorumRate(ctx context.Context, h *rig.Host, r *report.Report, servers []string) error {
	b, err := redlockOn(ctx, h, "rate", servers...)
	if err != nil {
		return err
	}
	desk, err := issuer(b)
	if err != nil {
		return err
	}
	contenders := []measure.Contender{take("fencegate redlock", byIssuer(desk)), take("redsync on 5 nodes", redsyncOn(h, clients, 0, servers...))}
	if _, err := measure.Rates(ctx, 1, clients, 100*time.Millisecond, contenders); err != nil {
		return err
	}
	rates, err := measure.Rates(ctx, runs, clients, 500*time.Millisecond, contenders)
	if err != nil {
		return err
	}
	chart := report.Bars{File: "locks-redlock", Title: "Acquire + release on 5 Redis masters, 16 clients", Unit: "pairs a second"}
	for i, c := range contenders {
		r.Noted(c.Name+", 16 clients", "pairs/s", rates[i]...)
		chart.Bars = append(chart.Bars, bar(c.Name, rates[i]))
	}
	chart.Target, chart.Goal = redlockGoals[0].Target*measure.Median(rates[1]), "4 times redsync"
	r.Chart(chart)
	r.Reached(redlockGoals[0], measure.Ratios(rates[0], rates[1])...)
	return nil
}

// quorumTime compares how long a grant takes: five nodes to one by the same protocol, and,
// without a goal, to the lock of a single server.
func quorumTime(ctx context.Context, h *rig.Host, r *report.Report, far []string) error {
	five, err := redlockOn(ctx, h, "five", far...)
	if err != nil {
		return err
	}
	one, err := redlockOn(ctx, h, "one", far[0])
	if err != nil {
		return err
	}
	single, err := redislock.New(rig.Client(h, far[0], 4), &redislock.Options{Prefix: "single"})
	if err != nil {
		return err
	}
	const farPairs = 150
	var toOne, toSingle []float64
	for range runs {
		ratio, err := measure.Paired(ctx, farPairs, 0.5, grantBy(one), grantBy(five))
		if err != nil {
			return err
		}
		toOne = append(toOne, ratio)
		if ratio, err = measure.Paired(ctx, farPairs, 0.5, grantBy(single), grantBy(five)); err != nil {
			return err
		}
		toSingle = append(toSingle, ratio)
	}
	r.Reached(redlockGoals[1], toOne...)
	r.Noted("redlock, 5 nodes / redislock, 1 ms each way, p50", "x", toSingle...)
	return nil
}

func grantBy(b locking.Backend) measure.Step {
	var held fencing.Token
	return measure.Step{
		Do: func(ctx context.Context, _ int) error {
			hold, err := b.TryAcquire(ctx, locking.Request{Resource: fresh(), Grant: fencing.NewGrant(), TTL: ttl})
			held = hold.Token
			return err
		},
		Undo: func(ctx context.Context, _ int) error {
			_, err := b.Release(ctx, held)
			return err
		},
	}
}

// redlockOn returns an initialised redlock under a prefix of its own. Its timeout is long:
// a busy machine is not a dead node.
func redlockOn(ctx context.Context, tb testing.TB, prefix string, addrs ...string) (*redlock.Backend, error) {
	var all []redis.UniversalClient
	for _, addr := range addrs {
		all = append(all, rig.Client(tb, addr, clients))
	}
	b, err := redlock.New(all, &redlock.Options{Prefix: prefix, NodeTimeout: 5 * time.Second, FewNodes: true})
	if err != nil {
		return nil, err
	}
	return b, b.Init(ctx, nil)
}
