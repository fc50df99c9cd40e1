// Package storage measures the stores: against their goals, and against what a program
// without a fence would send to the same server or file. A part of it is a file.
package storage

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/storage"
)

// Sizes say how much is measured.
type Sizes struct {
	Runs      int           // each figure is the median of so many
	Pairs     int           // of calls that are timed against each other, a run
	Slice     time.Duration // of a throughput, before it is another's turn
	Resources int           // of which one is picked at random, where many write to many
	Marks     int           // in memory
	Count     int           // operations, where something is counted by the operation
	Shared    bool          // on the PostgreSQL server of this process, which does not sync
}

// Full is what the figures in results/ are measured with.
var Full = Sizes{Runs: 4, Pairs: 3000, Slice: 500 * time.Millisecond, Resources: 1000, Marks: 1_000_000, Count: 1000}

// part is one or more figures that are measured together.
type part struct {
	name  string
	goals []report.Goal
	run   func(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error
}

var parts = []part{
	{"postgres/single", singleGoals, single},
	{"postgres/batch", batchGoals, batch},
	{"postgres/guarded", guardedGoals, guarded},
	{"postgres/concurrent", concurrentGoals, concurrent},
	{"sqlite", sqliteGoals, sqlite},
	{"redis", redisGoals, onRedis},
	{"coupon", couponGoals, coupon},
	{"memstore", memstoreGoals, inMemory},
	{"counts", nil, counts},
}

// Run measures all parts, or those whose name is only or begins with it and a slash, and adds
// what it finds to r. Each has servers of its own. When ctx ends it returns soon.
func Run(ctx context.Context, r *report.Report, only string) { RunSized(ctx, r, only, Full) }

// RunSized is Run in another size.
func RunSized(ctx context.Context, r *report.Report, only string, s Sizes) {
	found := false
	for _, p := range parts {
		if ctx.Err() != nil || only != "" && only != p.name && !strings.HasPrefix(p.name, only+"/") {
			continue
		}
		found = true
		r.Progress("-- %s", p.name)
		if err := rig.Run(func(h *rig.Host) error { return p.run(ctx, h, r, s) }); err != nil {
			r.Failed(fmt.Errorf("%s: %w", p.name, err), p.goals...)
		}
	}
	if !found && ctx.Err() == nil {
		r.Failed(fmt.Errorf("no part %q", only))
	}
}

// Goals returns the goals of all parts.
func Goals() []report.Goal {
	var goals []report.Goal
	for _, p := range parts {
		goals = append(goals, p.goals...)
	}
	return goals
}

const (
	resource = "bench:1" // where one is enough
	key      = "value"
)

// value is what is written; a new one each time, so that nobody finds that it is there already.
func value() []byte {
	v := make([]byte, 100)
	_, _ = rand.Read(v) // it never fails
	return v
}

// holder is whoever has the token of a resource, and goes on having it.
type holder struct {
	store *storage.Store
	token fencing.Token
}

// granted raises a new token in a store.
func granted(ctx context.Context, b storage.Backend, resource string) (holder, error) {
	s, err := storage.New(b, nil)
	if err != nil {
		return holder{}, err
	}
	t := fencing.Token{Resource: resource, Number: 1, Grant: fencing.NewGrant()}
	return holder{s, t}, s.Raise(ctx, t)
}

func (h holder) put(ctx context.Context) error {
	_, err := h.store.Put(ctx, h.token, key, value())
	return err
}

// timed compares the time of a call with and without the fence.
func timed(ctx context.Context, s Sizes, q float64, plain, fenced func(context.Context) error) ([]float64, error) {
	step := func(do func(context.Context) error) measure.Step {
		return measure.Step{Do: func(ctx context.Context, _ int) error { return do(ctx) }}
	}
	if _, err := measure.Paired(ctx, s.Pairs/10+1, q, step(plain), step(fenced)); err != nil { // prepare, fill caches
		return nil, err
	}
	var ratios []float64
	for range s.Runs {
		ratio, err := measure.Paired(ctx, s.Pairs, q, step(plain), step(fenced))
		if err != nil {
			return nil, err
		}
		ratios = append(ratios, ratio)
	}
	return ratios, nil
}

// race compares how much so many workers do with and without the fence, shows the rates, and
// returns the ratio of each run.
func race(ctx context.Context, r *report.Report, s Sizes, workers int, contenders []measure.Contender) (ratios []float64, bars []report.Bar, err error) {
	if _, err := measure.Rates(ctx, 1, workers, s.Slice/2, contenders); err != nil { // connect, fill caches
		return nil, nil, err
	}
	rates, err := measure.Rates(ctx, s.Runs, workers, s.Slice, contenders)
	if err != nil {
		return nil, nil, err
	}
	for i, c := range contenders {
		r.Noted(c.Name, "ops/s", rates[i]...)
		kind := report.Peer
		if i == 1 {
			kind = report.Ours
		}
		bars = append(bars, report.Bar{Label: c.Name, Value: measure.Median(rates[i]), Kind: kind})
	}
	return measure.Ratios(rates[1], rates[0]), bars, nil
}

// perOperation returns by how much a count grew, on average over n calls of op.
func perOperation[N int64 | float64](n int, count func() (N, error), op func() error) (float64, error) {
	before, err := count()
	if err != nil {
		return 0, err
	}
	for range n {
		if err := op(); err != nil {
			return 0, err
		}
	}
	after, err := count()
	return float64(after-before) / float64(n), err
}

// trips returns how many round trips one call of op takes, once all statements are prepared.
func trips(p *rig.Proxy, n int, op func() error) (float64, error) {
	if err := op(); err != nil {
		return 0, err
	}
	return perOperation(n, func() (int64, error) { return p.Trips(), nil }, op)
}
