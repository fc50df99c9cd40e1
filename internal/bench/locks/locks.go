// Package locks measures the locks: against their goals, against plain Redis commands and
// against what others use. A part of it is a file.
package locks

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/locking"
)

const (
	runs    = 4  // each figure is the median of so many
	clients = 16 // of a throughput
	ttl     = 30 * time.Second
)

// part is one or more figures that are measured together.
type part struct {
	name  string
	goals []report.Goal
	run   func(ctx context.Context, h *rig.Host, r *report.Report) error
}

var parts = []part{
	{"acquire", acquireGoals, acquire},
	{"uncontended", uncontendedGoals, uncontended},
	{"commands", commandGoals, commands},
	{"drain", drainGoals(), drain},
	{"redlock", redlockGoals, quorum},
	{"memory", memoryGoals, memory},
	{"leases", leaseGoals, leases},
	{"postgres", nil, postgres},
}

// Run measures all parts, or the one with this name, and adds what it finds to r. Each has
// servers of its own. When ctx ends it returns soon.
func Run(ctx context.Context, r *report.Report, only string) {
	found := false
	for _, p := range parts {
		if ctx.Err() != nil || only != "" && only != p.name {
			continue
		}
		found = true
		r.Progress("-- %s", p.name)
		if err := rig.Run(func(h *rig.Host) error { return p.run(ctx, h, r) }); err != nil {
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

var lastResource atomic.Int64

// fresh returns the name of a resource that nobody has used.
func fresh() string { return fmt.Sprintf("bench:%d", lastResource.Add(1)) }

// issuer returns an issuer without fences: what it costs here is the lock.
func issuer(b locking.Backend) (*locking.LocalIssuer, error) { return locking.NewIssuer(b, nil, nil) }

// cycle takes a free lock and gives it back.
func cycle(ctx context.Context, i locking.Issuer, resource string) error {
	g, err := i.Grant(ctx, locking.Request{Resource: resource, TTL: ttl})
	if err != nil {
		return err
	}
	_, err = i.Release(ctx, g.Token)
	return err
}
