// Package http measures the gateway over TCP on the loopback: against echo's hello, against what
// programs would send to PostgreSQL themselves, and under crowds of waiters and locks. A part of
// it is a file.
package http

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
)

// Sizes say how much is measured.
type Sizes struct {
	Runs      int           // each figure is the median of so many
	Pairs     int           // of calls that are timed against each other, a run
	Slice     time.Duration // of a throughput, before it is another's turn
	Resources int           // of which one is picked at random, where many write to many
	Waiters   int           // in a line of each resource
	Lines     int           // resources that are waited for
	Known     int           // resources that were locked once
	Held      int           // of which so many still are
	Shared    bool          // on the servers of this process, of which PostgreSQL does not sync
}

// Full is what the figures in results/ are measured with.
var Full = Sizes{
	Runs: 4, Pairs: 3000, Slice: 500 * time.Millisecond, Resources: 1000,
	Waiters: 10, Lines: 1000, Known: 1_000_000, Held: 100_000,
}

const connections = 64 // of a load, and of a server to what it stands on

// part is one or more figures that are measured together.
type part struct {
	name  string
	goals []report.Goal
	run   func(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error
}

var parts = []part{
	{"write/memory", memoryGoals, writeMemory},
	{"write/redis", redisGoals, writeRedis},
	{"write/postgres", postgresGoals, writePostgres},
	{"onecall/memory", oneCallMemoryGoals, oneCallMemory},
	{"onecall/postgres", oneCallPostgresGoals, oneCallPostgres},
	{"waiters", waiterGoals, waiters},
	{"million", millionGoals, million},
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

// database returns the URL of a new database with this project's schema, on a server that keeps
// what it acknowledges. Nothing runs in it on its own account in the time that a part takes: it
// would be counted against whose turn it is.
func database(ctx context.Context, h *rig.Host, s Sizes) string {
	if s.Shared {
		return rig.Migrated(ctx, h, testenv.SharedPostgres(h))
	}
	return rig.Migrated(ctx, h, testenv.StartPostgres(h, &testenv.PostgresOptions{Settings: []string{
		"checkpoint_timeout = 1h", "max_wal_size = 8GB", "autovacuum = off",
	}}))
}

// race compares how much so many workers do in the one way and in the other, shows the rates, and
// returns the ratio of each run.
func race(ctx context.Context, r *report.Report, s Sizes, workers int, a, b measure.Contender) (ratios []float64, bars []report.Bar, err error) {
	contenders := []measure.Contender{a, b}
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
