package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/client"
	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/report"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/internal/torture/workload"
)

// Pairs are the locks and stores that a proof goes through.
func Pairs() []rig.Spec {
	return []rig.Spec{
		{Lock: "redis", Store: "postgres"},
		{Lock: "postgres", Store: "postgres"},
		{Lock: "redis", Store: "redis"},
		{Lock: "postgres", Store: "redis"},
		// Each process has one connection to a node, for all of its seats, and a busy machine answers late.
		{Lock: "redlock", Store: "postgres", Client: client.Config{Seats: 6, Groups: 6, Options: workload.Options{TTL: 1200 * time.Millisecond}}},
		{Lock: "rowlock", Store: "postgres"},
		{Lock: "memory", Store: "sqlite", Gateways: 1},
		{Lock: "redis", Store: "postgres", Gateways: 2},
		{Lock: "postgres", Store: "postgres", Gateways: 2},
	}
}

// Cell is a kind of fault on a lock and a store.
type Cell struct {
	Fault string
	Rig   rig.Spec
}

// Name is such as "redis-kill on redis+postgres".
func (c Cell) Name() string {
	return c.Fault + " on " + report.PairName(c.Rig.Lock, c.Rig.Store, c.Rig.Gateways)
}

// Cells are all that make sense, fault by fault.
func Cells() (list []Cell) {
	for _, f := range fault.All() {
		for _, pair := range Pairs() {
			if f.Fits(pair) {
				list = append(list, Cell{f.Name, pair})
			}
		}
	}
	return list
}

// ProofConfig is a run of many cells.
type ProofConfig struct {
	Cells             []Cell        // default: all
	Duration          time.Duration // of each, once its clients work; a fault is made once at least. Default: 3 s
	Parallel          int           // how many at once. Default: 2
	Seed              uint64
	PerFault          int    // on how many locks and stores each fault is made, drawn by the seed. Default: all
	Server, OldServer string // the binaries for gateways, see rig.Spec
	// Args are the beginning of a command that repeats a cell.
	Args []string
	// Done is told of each cell that has ended, by one at a time: out is nil where err says that the run could not be made.
	Done func(n, of int, c Cell, out *Outcome, err error)
	// Again is told of each cell that is to be run once more, by one at a time, and why.
	Again func(c Cell, why string)
	// Progress is told of a cell's progress, by several at once. Default: nobody.
	Progress func(c Cell, p Progress)
}

// Proof runs every cell, a few at a time, each with servers of its own. A cell that showed nothing, although the machine can
// make its fault, or that took too long to recover and nothing else, is run once more when the others are through, by
// itself: several at once may be more than a small machine can serve in time. Proof ends early only with ctx.
func Proof(ctx context.Context, c ProofConfig) error {
	if c.Cells == nil {
		c.Cells = Cells()
	}
	if c.PerFault > 0 {
		c.Cells = Draw(c.Cells, c.PerFault, c.Seed)
	}
	if c.Duration == 0 {
		c.Duration = 3 * time.Second
	}
	if c.Parallel == 0 {
		c.Parallel = 2
	}
	p := &proof{ProofConfig: c}
	var wg sync.WaitGroup
	for range c.Parallel {
		wg.Go(func() { p.work(ctx) })
	}
	wg.Wait()
	for _, i := range p.again {
		if ctx.Err() == nil {
			out, err := p.run(ctx, i)
			p.end(i, out, err)
		}
	}
	return context.Cause(ctx)
}

// proof is a proof under way.
type proof struct {
	ProofConfig

	mu    sync.Mutex // guards what follows, and is held for Done and Again
	next  int
	done  int
	again []int // cells that are to be run once more
}

// work runs cells until none is left.
func (p *proof) work(ctx context.Context) {
	for {
		p.mu.Lock()
		i := p.next
		p.next++
		p.mu.Unlock()
		if i >= len(p.Cells) || ctx.Err() != nil {
			return
		}
		out, err := p.run(ctx, i)
		why := ""
		switch {
		case ctx.Err() != nil:
			if out == nil {
				return
			}
		case err != nil:
			why = err.Error()
		case out.Run.Verdict == report.Void && !out.Run.CannotBeMade, onlySlow(out.Run):
			why = out.Run.Why
		}
		if why == "" {
			p.end(i, out, err)
			continue
		}
		p.mu.Lock()
		p.again = append(p.again, i)
		p.Again(p.Cells[i], why)
		p.mu.Unlock()
	}
}

// onlySlow reports whether a run was violated by nothing but the time that it took to serve everybody again.
func onlySlow(r report.Run) bool {
	return r.Verdict == report.Violated && !slices.ContainsFunc(r.Violations, func(v check.Violation) bool { return v.Check != "recovery" })
}

func (p *proof) end(i int, out *Outcome, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.Done(p.done, len(p.Cells), p.Cells[i], out, err)
}

// Draw leaves so many cells of each fault, in their order; cells has those of a fault beside each other.
func Draw(cells []Cell, perFault int, seed uint64) (kept []Cell) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && cells[n].Fault == cells[0].Fault {
			n++
		}
		chosen := rnd.Perm(n)[:min(n, perFault)]
		slices.Sort(chosen)
		for _, i := range chosen {
			kept = append(kept, cells[i])
		}
		cells = cells[n:]
	}
	return kept
}

// run makes the run of a cell.
func (p *proof) run(ctx context.Context, i int) (*Outcome, error) {
	cell, seed := p.Cells[i], p.Seed+uint64(i) //nolint:gosec // an index is not negative
	spec := cell.Rig
	spec.Server, spec.OldServer = p.Server, p.OldServer
	spec.Client.Late = DefaultLate
	args := append(slices.Clone(p.Args),
		"--lock", spec.Lock, "--store", spec.Store, "--faults", cell.Fault, "--seed", fmt.Sprint(seed), "--duration", p.Duration.String())
	if spec.Gateways > 0 {
		args = append(args, "--gateways", fmt.Sprint(spec.Gateways))
	}
	if c := spec.Client; c.TTL > 0 {
		args = append(args, "--seats", fmt.Sprint(c.Seats), "--groups", fmt.Sprint(c.Groups), "--ttl", c.TTL.String())
	}
	var progress func(Progress)
	if p.Progress != nil {
		progress = func(now Progress) { p.Progress(cell, now) }
	}
	return Run(ctx, Config{Rig: spec, Faults: []string{cell.Fault}, Duration: p.Duration, Seed: seed, Args: args}, progress)
}
