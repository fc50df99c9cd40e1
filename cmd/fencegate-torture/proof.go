package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/torture"
	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/report"
)

type proofCmd struct {
	Faults   []string      `default:"all" placeholder:"NAME,..." env:"FENCEGATE_TORTURE_FAULTS" help:"Only these faults (default: ${default})."`
	Duration time.Duration `default:"3s" env:"FENCEGATE_TORTURE_PROOF_DURATION" help:"How long clients work in each cell (default: ${default})."`
	Parallel int           `default:"2" env:"FENCEGATE_TORTURE_PARALLEL" help:"So many cells at once, 1 to 16 (default: ${default})."`
	PerFault int           `name:"per-fault" placeholder:"N" env:"FENCEGATE_TORTURE_PER_FAULT" help:"Make each fault on N locks and stores only, drawn by the seed. Default: on all."`
	Seed     *uint64       `placeholder:"N" env:"FENCEGATE_TORTURE_SEED" help:"Of the first cell; each has the next one. Default: a new one, printed."`
	serverFlags
	Reports string `placeholder:"DIR" env:"FENCEGATE_TORTURE_REPORTS" help:"Write the page of each cell that did not hold into this directory."`
	Record  string `placeholder:"FILE" env:"FENCEGATE_TORTURE_RECORD" help:"Add each run to a record, one line of JSON."`
	outputFlags
}

// Help implements kong.HelpProvider.
func (proofCmd) Help() string {
	return `Each cell, a fault on a lock and a store, has servers of its own. It goes on after a violation. ` +
		`Exit status: 1 if a cell is violated; 3 if one could not be run or is void (those are listed at the end), or none held; else 0. ` +
		`Cells whose fault this machine cannot make are counted, and are no failure.`
}

// Run implements the command.
func (c *proofCmd) Run(ctx context.Context, std stdio) error {
	cells, err := c.cells()
	if err != nil {
		return err
	}
	old, err := program("--old-server", c.OldServer)
	if err != nil {
		return err
	}
	if err := c.canKeep(); err != nil {
		return err
	}
	config := torture.ProofConfig{
		Cells: cells, Duration: c.Duration, Parallel: c.Parallel, OldServer: old, Args: []string{"fencegate-torture", "run"},
	}
	if c.Seed != nil {
		config.Seed = *c.Seed
	} else {
		config.Seed = rand.Uint64N(1_000_000_000)
	}
	if c.PerFault > 0 {
		cells = torture.Draw(cells, c.PerFault, config.Seed)
		config.Cells = cells
	}
	if slices.ContainsFunc(cells, func(cell torture.Cell) bool { return cell.Rig.Gateways > 0 }) {
		server, remove, err := findServer(ctx, c.Server, std.err)
		if err != nil {
			return err
		}
		defer remove()
		config.Server = server
	}
	if !c.Quiet {
		fmt.Fprintf(std.err, "%d cells, %d at a time, seed %d\n", len(cells), c.Parallel, config.Seed)
	}
	sum := tally{of: len(cells)}
	config.Done = func(n, of int, cell torture.Cell, out *torture.Outcome, err error) {
		if err != nil {
			sum.failed(cell, err)
			fmt.Fprintf(std.err, "%4d/%d  could not be run  %s: %s\n", n, of, cell.Name(), oneLine(err.Error()))
			return
		}
		sum.ended(cell, out.Run)
		sum.keep(c.keep(std, n, of, cell, out))
	}
	config.Again = func(cell torture.Cell, why string) {
		fmt.Fprintf(std.err, "          later      %s: %s\n", cell.Name(), oneLine(why))
	}
	err = torture.Proof(ctx, config)
	sum.tell(std.err)
	if c.Output == "text" {
		fmt.Fprintln(std.out, sum.line())
	}
	return sum.status(err, ctx.Err() != nil)
}

// canKeep says whether pages and the record can be written, before anything is started.
func (c *proofCmd) canKeep() error {
	if c.Reports != "" {
		err := os.MkdirAll(c.Reports, 0o755) //nolint:gosec // pages for everybody to read
		if err == nil {
			err = canMake(c.Reports, "page")
		}
		if err != nil {
			return usagef("--reports %s: it cannot be written: %w", c.Reports, err)
		}
	}
	return canAppend("--record", c.Record)
}

// cells are those of the faults that were asked for.
func (c *proofCmd) cells() (list []torture.Cell, err error) {
	if c.Parallel < 1 || c.Parallel > 16 {
		return nil, usagef("--parallel %d: want 1 to 16", c.Parallel)
	}
	if c.PerFault < 0 {
		return nil, usagef("--per-fault %d: want 1 or more, or 0 for all", c.PerFault)
	}
	if c.Duration < time.Second || c.Duration > time.Hour {
		return nil, usagef("--duration %v: want 1s to 1h", c.Duration)
	}
	all := len(c.Faults) == 1 && c.Faults[0] == "all"
	if len(c.Faults) == 0 {
		c.Faults = []string{""} // which is none of them
	}
	for _, name := range c.Faults {
		if _, ok := fault.Named(name); !ok && !all {
			return nil, usagef("--faults %q: want all, or some of those that \"fencegate-torture faults\" lists%s", name, near(name))
		}
	}
	for _, cell := range torture.Cells() {
		if all || slices.Contains(c.Faults, cell.Fault) {
			list = append(list, cell)
		}
	}
	return list, nil
}

// keep tells of a cell that has ended, and writes down what is to be kept of it.
func (c *proofCmd) keep(std stdio, n, of int, cell torture.Cell, out *torture.Outcome) error {
	var errs []error
	if c.Record != "" {
		errs = append(errs, report.Append(c.Record, out.Run))
	}
	page := ""
	if c.Reports != "" && out.Run.Verdict != report.Held {
		page = filepath.Join(c.Reports, strings.NewReplacer(" ", "-", ",", "", "+", "-").Replace(cell.Name())+".html")
		errs = append(errs, writePage(page, out))
	}
	if c.Output == "json" {
		errs = append(errs, report.JSON(std.out, out.Run, &report.TextOptions{Report: page}))
	}
	if !c.Quiet || out.Run.Verdict == report.Violated {
		line := fmt.Sprintf("%4d/%d  %-8s  %s", n, of, out.Run.Verdict, cell.Name())
		if out.Run.Why != "" {
			line += ": " + out.Run.Why
		}
		fmt.Fprintln(std.err, oneLine(line))
	}
	return errors.Join(errs...)
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }
