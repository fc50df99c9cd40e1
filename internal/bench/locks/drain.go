package locks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
)

const (
	waiters = 64
	patient = 10 * time.Second // a burst that takes longer has hung: somebody was not told
	mayHang = 4                // so many bursts of one crowd, before it is given up
)

// crowd is a lock as waiters have it: of one process, or each of a process of its own.
type crowd struct {
	name string
	lock func(waiter int) locker
}

// The names of the crowds that goals are about. A process here is a client and an issuer of
// its own: nothing is shared but the server.
const (
	limit        = "sync.Mutex (the limit)"
	oursOne      = "fencegate, one process"
	oursMany     = "fencegate, 64 processes"
	redsyncOne   = "redsync"
	rueidisOne   = "rueidislock, one process"
	rueidisMany  = "rueidislock, 64 processes"
	redsyncQuick = "redsync, looking every 1 ms"
	bsmQuick     = "bsm/redislock, looking every 1 ms"
)

func drainGoals() []report.Goal {
	var goals []report.Goal
	for _, ours := range []string{oursOne, oursMany} {
		where := ours[len("fencegate, "):]
		goals = append(goals,
			report.Goal{Name: "drain 64, 1 ms, " + where + " / in-process limit", Unit: "x", Target: 0.95, Better: report.Higher},
			report.Goal{Name: "drain 64, 1 ms, " + where + " / redsync", Unit: "x", Target: 6.5, Better: report.Higher},
			report.Goal{Name: "drain 64, 1 ms, " + where + " / rueidislock", Unit: "x", Target: 1, Better: report.Higher},
			report.Goal{Name: "drain 64, 1 ms, " + where + ", Jain index", Unit: "", Target: 0.99, Better: report.Higher},
			report.Goal{Name: "drain 64, empty, " + where + " / redsync", Unit: "x", Target: 150, Better: report.Higher},
			report.Goal{Name: "drain 64, empty, " + where + " / rueidislock", Unit: "x", Target: 2, Better: report.Higher},
		)
	}
	return goals
}

// drain lets 64 waiters have a lock one after the other, each once.
func drain(ctx context.Context, h *rig.Host, r *report.Report) error {
	addr := testenv.StartRedis(h, &testenv.RedisOptions{Args: []string{"--maxclients", "4000"}}).Addr()
	crowds, err := redisCrowds(h, addr)
	if err != nil {
		return err
	}
	slow, err := drainAll(ctx, r, "locks-drain-1ms", crowds, "1 ms", time.Millisecond)
	if err != nil {
		return err
	}
	fast, err := drainAll(ctx, r, "locks-drain-empty", crowds, "empty", 0)
	if err != nil {
		return err
	}
	goals := drainGoals()
	for _, side := range []struct{ ours, rueidis string }{{oursOne, rueidisOne}, {oursMany, rueidisMany}} {
		for _, runs := range [][]float64{
			measure.Ratios(slow.rates[side.ours], slow.rates[limit]),
			measure.Ratios(slow.rates[side.ours], slow.rates[redsyncOne]),
			measure.Ratios(slow.rates[side.ours], slow.rates[side.rueidis]),
			slow.jain[side.ours],
			measure.Ratios(fast.rates[side.ours], fast.rates[redsyncOne]),
			measure.Ratios(fast.rates[side.ours], fast.rates[side.rueidis]),
		} {
			r.Reached(goals[0], runs...)
			goals = goals[1:]
		}
	}
	return nil
}

// redisCrowds returns all locks on Redis, and the limit: what a mutex of one process does.
func redisCrowds(h *rig.Host, addr string) ([]crowd, error) {
	var mutexes sync.Map
	mutex := func(_ context.Context, resource string, _ bool) (func() error, error) {
		m, _ := mutexes.LoadOrStore(resource, &sync.Mutex{})
		mu := m.(*sync.Mutex) //nolint:errcheck,forcetypeassert // stored two lines above
		mu.Lock()
		return func() error { mu.Unlock(); return nil }, nil
	}
	ours, err := fencegate(h, addr, waiters+1)
	if err != nil {
		return nil, err
	}
	rueidis, err := rueidisOn(h, addr)
	if err != nil {
		return nil, err
	}
	var manyOurs, manyRueidis []locker
	for range waiters + 1 {
		o, err := fencegate(h, addr, 4)
		if err != nil {
			return nil, err
		}
		u, err := rueidisOn(h, addr)
		if err != nil {
			return nil, err
		}
		manyOurs, manyRueidis = append(manyOurs, o), append(manyRueidis, u)
	}
	one := func(l locker) func(int) locker { return func(int) locker { return l } }
	return []crowd{
		{limit, one(mutex)},
		{oursOne, one(ours)},
		{oursMany, func(waiter int) locker { return manyOurs[waiter] }},
		{redsyncOne, one(redsyncOn(h, waiters+1, 0, addr))},
		{redsyncQuick, one(redsyncOn(h, waiters+1, time.Millisecond, addr))},
		{bsmQuick, one(bsmOn(h, addr, waiters+1))},
		{rueidisOne, one(rueidis)},
		{rueidisMany, func(waiter int) locker { return manyRueidis[waiter] }},
	}, nil
}

// drained are the figures of crowds, by name, run by run.
type drained struct{ rates, jain map[string][]float64 }

func drainAll(ctx context.Context, r *report.Report, file string, crowds []crowd, label string, section time.Duration) (drained, error) {
	d := drained{map[string][]float64{}, map[string][]float64{}}
	hung := map[string]int{}
	for _, c := range crowds { // connect: each waiter takes a lock of its own
		if err := warm(ctx, c); err != nil {
			return d, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	for run := range runs {
		r.Progress("drain, %s: run %d of %d", label, run+1, runs)
		err := measure.ThereAndBack(len(crowds), func(i int, back bool) error {
			c := crowds[i]
			got, err := burst(c, section).Drain(ctx)
			for errors.Is(err, measure.ErrHung) && hung[c.name] < mayHang {
				hung[c.name]++
				r.Progress("%s: a burst hung, another one", c.name)
				got, err = burst(c, section).Drain(ctx)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if !back {
				d.rates[c.name] = append(d.rates[c.name], got.Rate)
				d.jain[c.name] = append(d.jain[c.name], got.Jain)
				return nil
			}
			d.rates[c.name][run] = (d.rates[c.name][run] + got.Rate) / 2
			d.jain[c.name][run] = (d.jain[c.name][run] + got.Jain) / 2
			return nil
		})
		if err != nil {
			return d, err
		}
	}
	chart := report.Bars{File: file, Title: "64 waiters drained, critical section " + label, Unit: "hand-overs a second"}
	for _, c := range crowds {
		r.Noted(fmt.Sprintf("drain 64, %s: %s", label, c.name), "hand-overs/s", d.rates[c.name]...)
		chart.Bars = append(chart.Bars, bar(c.name, d.rates[c.name]))
	}
	for _, c := range crowds {
		r.Noted(fmt.Sprintf("drain 64, %s: %s, Jain index", label, c.name), "", d.jain[c.name]...)
	}
	for _, c := range crowds {
		if n := hung[c.name]; n > 0 {
			r.Noted(fmt.Sprintf("drain 64, %s: %s, bursts that hung", label, c.name), "bursts", float64(n))
		}
	}
	if most := d.rates[limit]; len(most) > 0 && section > 0 {
		chart.Target, chart.Goal = 0.95*measure.Median(most), "0.95 of the limit"
	}
	r.Chart(chart)
	return d, nil
}

// burst is the burst of waiters of a crowd on a fresh resource.
func burst(c crowd, section time.Duration) measure.Burst {
	resource := fresh()
	return measure.Burst{
		Waiters: waiters, Spacing: 2 * time.Millisecond, Settle: 20 * time.Millisecond, Section: section, Limit: patient,
		Lock: func(ctx context.Context, waiter int) (func() error, error) {
			return c.lock(waiter)(ctx, resource, true)
		},
	}
}

func warm(ctx context.Context, c crowd) error {
	errs := make([]error, waiters+1)
	var wg sync.WaitGroup
	for waiter := range errs {
		wg.Go(func() {
			unlock, err := c.lock(waiter)(ctx, fresh(), false)
			if err == nil {
				err = unlock()
			}
			errs[waiter] = err
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
