package main

import (
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/internal/torture"
	"github.com/fencegate/fencegate/internal/torture/report"
)

type reliabilityCmd struct {
	Record string `default:"docs/reliability.jsonl" placeholder:"FILE" env:"FENCEGATE_TORTURE_RECORD" help:"The record of all runs (default: ${default})."`
	Page   string `default:"docs/reliability.md" placeholder:"FILE" env:"FENCEGATE_TORTURE_PAGE" help:"The page that has the tables, between markers (default: ${default})."`
	Check  bool   `env:"FENCEGATE_TORTURE_CHECK" help:"Change nothing; fail if the page is not up to date."`
	Goals  bool   `env:"FENCEGATE_TORTURE_GOALS" help:"Fail if a goal is missed."`
}

// Help implements kong.HelpProvider.
func (reliabilityCmd) Help() string {
	return `The last run of each fault on each lock and store counts; a violation stands until a run of another version held. ` +
		`Exit status: 0 done, 1 not up to date or a goal is missed, 3 the record or the page cannot be read or written.`
}

// Run implements the command.
func (c *reliabilityCmd) Run(std stdio) error {
	runs, warnings, err := report.Load(c.Record)
	for _, w := range warnings {
		fmt.Fprintln(std.err, "fencegate-torture:", w)
	}
	if err != nil {
		return err
	}
	var rigs []string
	for _, s := range torture.Pairs() {
		rigs = append(rigs, report.PairName(s.Lock, s.Store, s.Gateways))
	}
	list := kinds()
	changed, err := report.Update(c.Page, map[string]string{
		"faults": report.KindsTable(list), "table": report.CellsTable(list, rigs, runs), "sums": report.SumsText(runs),
	}, c.Check)
	if err != nil {
		return err
	}
	sums := report.Sum(runs)
	if err := sums.Text(std.out); err != nil {
		return err
	}
	var errs []error
	if changed && c.Check {
		errs = append(errs, fmt.Errorf("%s is not up to date: run \"fencegate-torture reliability\"", c.Page))
	}
	if c.Goals {
		for _, g := range sums.Goals() {
			if !g.Met {
				errs = append(errs, fmt.Errorf("missed: %s: want %s, got %s", g.Name, g.Want, g.Got))
			}
		}
	}
	if len(errs) > 0 {
		return statusError{exitViolated, errors.Join(errs...)}
	}
	if changed {
		fmt.Fprintln(std.err, "fencegate-torture:", c.Page, "is rewritten")
	}
	return nil
}
