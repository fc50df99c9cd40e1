package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/report"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// Pairs are the locks and stores that a proof goes through.
func Pairs() []rig.Spec {
	return []rig.Spec{
		{Lock: "redis", Store: "postgres"},
		{Lock: "postgres", Store: "postgres"},
		{Lock: "redis", Store: "redis"},
		{Lock: "postgres", Store: "redis"},
		{Lock: "redlock", Store: "postgres"},
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
	// Progress is told of a cell's progress, by several at once. Default: nobody.
	Progress func(c Cell, p Progress)
}

// Proof runs every cell once, a few at a time, each with servers of its own. It ends early only with ctx.
func Proof(ctx context.Context, c ProofConfig) error {
	if c.Cells == nil {
		c.Cells = Cells()
	}
	if c.PerFault > 0 {
		c.Cells = draw(c.Cells, c.PerFault, rand.New(rand.NewPCG(c.Seed, 2)))
	}
	if c.Duration == 0 {
		c.Duration = 3 * time.Second
	}
	if c.Parallel == 0 {
		c.Parallel = 2
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next, done := 0, 0
	for range c.Parallel {
		wg.Go(func() {
			for {
				mu.Lock()
				if next == len(c.Cells) || ctx.Err() != nil {
					mu.Unlock()
					return
				}
				cell, seed := c.Cells[next], c.Seed+uint64(next) //nolint:gosec // an index is not negative
				next++
				mu.Unlock()
				out, err := c.cell(ctx, cell, seed)
				if err != nil && ctx.Err() == nil {
					// A server that did not come up in time says nothing of the product.
					out, err = c.cell(ctx, cell, seed)
				}
				mu.Lock()
				done++
				if ctx.Err() == nil || out != nil {
					c.Done(done, len(c.Cells), cell, out, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// draw leaves so many cells of each fault, in their order.
func draw(cells []Cell, perFault int, rnd *rand.Rand) (kept []Cell) {
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

func (c ProofConfig) cell(ctx context.Context, cell Cell, seed uint64) (*Outcome, error) {
	spec := cell.Rig
	spec.Server, spec.OldServer = c.Server, c.OldServer
	spec.Client.Late = DefaultLate
	args := append(slices.Clone(c.Args),
		"--lock", spec.Lock, "--store", spec.Store, "--faults", cell.Fault, "--seed", fmt.Sprint(seed), "--duration", c.Duration.String())
	if spec.Gateways > 0 {
		args = append(args, "--gateways", fmt.Sprint(spec.Gateways))
	}
	var progress func(Progress)
	if c.Progress != nil {
		progress = func(p Progress) { c.Progress(cell, p) }
	}
	return Run(ctx, Config{Rig: spec, Faults: []string{cell.Fault}, Duration: c.Duration, Seed: seed, Args: args}, progress)
}
