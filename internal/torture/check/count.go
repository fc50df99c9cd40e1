package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// count fills the figures in.
func (r *run) count() {
	f := &r.result.Figures
	for i := range r.Ops {
		op := &r.Ops[i]
		f.call(op)
	}
	for _, g := range r.groups {
		for _, c := range g.commits {
			c.count(f)
		}
	}
	f.Grants = len(r.grants)
	taken := make(map[[2]*history.Op]bool)
	for _, resource := range r.holds {
		all := r.byHold[resource]
		for i, b := range all[1:] {
			a := all[i]
			pair := [2]*history.Op{a.op, b.op}
			if taken[pair] || a.release != nil && a.release.Call <= b.op.Return {
				continue
			}
			taken[pair] = true
			f.Takeovers++
			if !a.op.Left && r.stopped(a.op.Process, b.op.Return) {
				f.PausedTakeovers++
			}
		}
	}
	f.Leaks = len(r.Leaks)
}

// call counts one call.
func (f *Figures) call(op *history.Op) {
	f.Ops++
	switch {
	case op.Return == 0, op.Outcome == unknown, op.Outcome == "":
		f.Unknown++
	case op.Outcome == applied:
		f.Applied++
	case op.Outcome == refused:
		f.Refused++
	default:
		f.Failed++
	}
	switch {
	case op.Outcome != refused:
	case op.Forged:
		f.ForgedRefused++
	case op.Kind != history.Commit:
	case op.Reason == "superseded", op.Reason == "duplicate":
		f.SupersededRefused++
		f.StaleRefused++
	case op.Reason == "retired":
		f.StaleRefused++
	}
}

// count counts a commit with a key, of which an attempt's outcome was unknown before it was known.
func (c *commit) count(f *Figures) {
	open := func(op *history.Op) bool { return !definite(op) && op.Call < c.ret }
	if c.attempts[0].Key == "" || c.forged || !slices.ContainsFunc(c.attempts, open) {
		return
	}
	f.Ambiguous++
	if c.outcome != unknown {
		f.Resolved++
	}
}

// stopped reports whether a process stood still at a time.
func (r *run) stopped(process int, at int64) bool {
	return slices.ContainsFunc(r.Faults, func(f history.Fault) bool {
		return f.Void == "" && slices.Contains(f.Paused, process) && f.Injected <= at && at <= f.Heal
	})
}

// patience is how much of the run there must be after a fault, for everybody to be served again.
const patience = int64(15 * time.Second)

// slowest is how long it may take until everybody is served again. The goal is the TTL and 10 s, which is
// looked at over all runs: on a machine that others keep busy, servers alone may take that long to begin.
const slowest = int64(30 * time.Second)

// recovery checks that everybody was served again after each fault. Where the run was ended before, nobody knows.
func (r *run) recovery() {
	for _, f := range r.Faults {
		switch {
		case f.Void != "", f.Recovered == 0 && f.Cut:
		case f.Recovered != 0:
			r.result.Recoveries = append(r.result.Recoveries, time.Duration(f.Recovered-f.To))
			if f.Recovered-f.To > slowest {
				r.violate(Violation{
					Invariant: "INV13", Check: "recovery",
					Text: fmt.Sprintf("only %v after %s had healed every group was served again", time.Duration(f.Recovered-f.To).Round(time.Millisecond), f.Name),
				})
			}
		case f.To != 0 && r.Ended-f.To > patience:
			r.violate(Violation{
				Invariant: "INV13", Check: "recovery",
				Text: fmt.Sprintf("%v after %s had healed not every group was served again", time.Duration(r.Ended-f.To).Round(time.Millisecond), f.Name),
			})
		}
	}
}

// leaks reports what was left over.
func (r *run) leaks() {
	for _, l := range r.Leaks {
		r.result.Violations = append(r.result.Violations, Violation{
			Invariant: "INV13", Check: "leaks", Group: l.Where,
			Text: fmt.Sprintf("%d %s left over at %s: %s", l.Count, l.What, l.Where, l.Text),
		})
	}
}
