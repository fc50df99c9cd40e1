package storage

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
)

const clients = 16

var couponGoals = []report.Goal{
	{Name: "coupon, 16 clients: lock, read, write, release / redsync's way, each once", Unit: "x", Target: 3, Better: report.Higher},
	{Name: "coupon, 16 clients: one commit at a time / plain UPDATE", Unit: "x", Target: 0.90, Better: report.Higher},
	{Name: "coupon, 16 clients: combined commits / plain UPDATE", Unit: "x", Target: 8, Better: report.Higher},
}

// coupon lets 16 clients take from one coupon, each way in its turn: again and again, and where
// there is a lock, also once each.
func coupon(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	d, err := openDatabase(ctx, h, s, clients)
	if err != nil {
		return err
	}
	addr := testenv.StartRedis(h, nil).Addr()
	var ways []way
	for _, prepare := range []func() (way, error){
		func() (way, error) { return plainWay(ctx, d) },
		func() (way, error) { return redsyncWay(ctx, h, d, addr, 0) },
		func() (way, error) { return lockWay(ctx, h, d, addr, 1) },
		func() (way, error) { return singleWay(ctx, d) },
		func() (way, error) { return combinedWay(ctx, d) },
		func() (way, error) { return lockWay(ctx, h, d, addr, clients) },
		func() (way, error) { return redsyncWay(ctx, h, d, addr, time.Millisecond) },
	} {
		w, err := prepare()
		if err != nil {
			return err
		}
		ways = append(ways, w)
	}

	for i := range ways {
		ways[i] = counted(ways[i])
	}
	rates, err := loop(ctx, s, ways)
	if err != nil {
		return err
	}
	bursts, err := rushes(ctx, s, ways)
	if err != nil {
		return err
	}
	chart := report.Bars{File: "storage-coupon", Title: "One hot coupon, 16 clients, PostgreSQL, fsync on", Unit: "taken a second, each client again and again"}
	rush := report.Bars{File: "storage-coupon-rush", Title: "One hot coupon, 16 clients who wait and take one each, PostgreSQL, fsync on", Unit: "taken a second"}
	for i, w := range ways {
		left, err := w.left(ctx)
		if err != nil {
			return err
		}
		if got, want := stock-left, w.took.Load(); got != want {
			return fmt.Errorf("%s: %d were acknowledged, the stock is less by %d", w.name, want, got)
		}
		r.Noted("coupon, "+w.name, "1/s", rates[i]...)
		chart.Bars = append(chart.Bars, report.Bar{Label: w.name, Value: measure.Median(rates[i]), Kind: w.kind})
		if bursts[i] != nil {
			r.Noted("coupon, each client once: "+w.name, "1/s", bursts[i]...)
			rush.Bars = append(rush.Bars, report.Bar{Label: w.name, Value: measure.Median(bursts[i]), Kind: w.kind})
		}
	}
	chart.Target, chart.Goal = couponGoals[2].Target*measure.Median(rates[plainUpdate]), "8 times plain UPDATE"
	rush.Target, rush.Goal = couponGoals[0].Target*measure.Median(bursts[byRedsync]), "3 times redsync's way"
	r.Chart(chart)
	r.Chart(rush)
	r.Reached(couponGoals[0], measure.Ratios(bursts[locked], bursts[byRedsync])...)
	r.Reached(couponGoals[1], measure.Ratios(rates[oneByOne], rates[plainUpdate])...)
	r.Reached(couponGoals[2], measure.Ratios(rates[combined], rates[plainUpdate])...)
	for _, of := range []int{byRedsync, locked} {
		r.Noted("coupon, "+ways[of].name+" / plain UPDATE", "x", measure.Ratios(rates[of], rates[plainUpdate])...)
	}
	r.Noted("coupon, again and again: lock, read, write, release / redsync's way", "x", measure.Ratios(rates[locked], rates[byRedsync])...)
	return nil
}

// counted counts what was acknowledged.
func counted(w way) way {
	w.took = &atomic.Int64{}
	count := func(err error) error {
		if err == nil {
			w.took.Add(1)
		}
		return err
	}
	take, lock := w.take, w.lock
	w.take = func(ctx context.Context, client int) error { return count(take(ctx, client)) }
	if lock != nil {
		w.lock = func(ctx context.Context, client int) (func() error, error) {
			finish, err := lock(ctx, client)
			return func() error { return count(finish()) }, err
		}
	}
	return w
}

// loop lets all clients take again and again. A lock whose releaser takes it again at once
// looks good here, while the others wait.
func loop(ctx context.Context, s Sizes, ways []way) ([][]float64, error) {
	var contenders []measure.Contender
	for _, w := range ways {
		contenders = append(contenders, measure.Contender{Name: w.name, Op: w.take})
	}
	if _, err := measure.Rates(ctx, 1, clients, s.Slice/2, contenders); err != nil { // connect, fill caches
		return nil, err
	}
	// redsync waits up to a quarter of a second at a time, so a turn is not short.
	return measure.Rates(ctx, s.Runs, clients, 2*s.Slice, contenders)
}

// rushes lets all clients wait for the lock and take once each, a few times a run. It returns
// the rates of each way that has a lock.
func rushes(ctx context.Context, s Sizes, ways []way) ([][]float64, error) {
	const times = 3 // there, and as many back
	rates := make([][]float64, len(ways))
	for range s.Runs {
		seconds := make([]float64, len(ways))
		err := measure.ThereAndBack(len(ways), func(i int, _ bool) error {
			for range times {
				if ways[i].lock == nil {
					return nil
				}
				drained, err := measure.Burst{
					Waiters: clients, Spacing: time.Millisecond, Settle: 10 * time.Millisecond, Limit: 20 * time.Second, Lock: ways[i].lock,
				}.Drain(ctx)
				if err != nil {
					return fmt.Errorf("%s: %w", ways[i].name, err)
				}
				seconds[i] += clients / drained.Rate
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for i, sum := range seconds {
			if sum > 0 {
				rates[i] = append(rates[i], 2*times*clients/sum)
			}
		}
	}
	return rates, nil
}

// The places of the ways that goals are about.
const (
	plainUpdate = iota
	byRedsync
	locked
	oneByOne
	combined
)
