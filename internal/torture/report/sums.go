package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fencegate/fencegate/internal/torture/check"
)

// Cell is what the runs of one fault on one rig have come to.
type Cell struct {
	Fault, Rig string
	Last       Run // the one that counts
	Runs       int
}

// cellKey tells cells apart. A run with several kinds of faults, or with none, is a cell too, but
// none of the table.
type cellKey struct{ faults, rig string }

// standing returns what counts of each cell: its last run, but a violation stands until a run of
// another version comes after it. The same code does not get better by being run again. (Of a
// version that names no commit it is not known whether the code is the same.)
func standing(runs []Run) map[cellKey]Cell {
	cells := map[cellKey]Cell{}
	for _, r := range runs {
		faults := slices.Clone(r.Faults)
		slices.Sort(faults)
		key := cellKey{strings.Join(slices.Compact(faults), "+"), r.Rig()}
		c := cells[key]
		same := c.Last.Version == r.Version && named(r.Version)
		if c.Runs == 0 || c.Last.Verdict != Violated || !same || r.Verdict == Violated {
			c = Cell{Fault: key.faults, Rig: key.rig, Last: r, Runs: c.Runs}
		}
		c.Runs++
		cells[key] = c
	}
	return cells
}

// named says whether a version names one state of the code: a commit without changes, or a release.
func named(version string) bool {
	return version != "" && version != "unknown" && version != "(devel)" && !strings.Contains(version, "+")
}

// single says whether a cell is one of the table: of one kind of fault.
func (c Cell) single() bool { return c.Fault != "" && !strings.Contains(c.Fault, "+") }

// Sums is what all runs amount to.
type Sums struct {
	Runs, Held, Violated, Void int

	// Of the table's cells, by the run that counts.
	Kinds      int // kinds of faults with a cell that held
	Cells      int // cells that held
	VoidCells  int
	Unmended   []Cell // of whatever cell, those that stand violated
	Lost       int    // violations among them that are of a lost write, or a stale one that was accepted
	Doubled    int    // violations among them that are of a commit applied twice, or told wrong
	LeftOver   int    // leaks in the runs that count
	UndecidedN int    // histories in the runs that count that could not be decided

	check.Figures // of all runs; Recoveries are in order of length
}

// Sum adds up a record.
func Sum(runs []Run) Sums {
	var s Sums
	for _, r := range runs {
		s.Runs++
		switch r.Verdict {
		case Held:
			s.Held++
		case Violated:
			s.Violated++
		default:
			s.Void++
		}
		s.add(r.Figures)
	}
	slices.Sort(s.Recoveries)
	kinds := map[string]bool{}
	for _, c := range standing(runs) {
		s.LeftOver += c.Last.Leaks
		s.UndecidedN += c.Last.Undecided
		switch {
		case c.Last.Verdict == Violated:
			s.Unmended = append(s.Unmended, c)
			for _, v := range c.Last.Violations {
				switch v.Invariant {
				case "INV6", "INV7":
					s.Doubled++
				default:
					s.Lost++
				}
			}
			if len(c.Last.Violations) == 0 {
				s.Lost++
			}
		case !c.single():
		case c.Last.Verdict == Held:
			s.Cells++
			kinds[c.Fault] = true
		default:
			s.VoidCells++
		}
	}
	s.Kinds = len(kinds)
	slices.SortFunc(s.Unmended, func(a, b Cell) int {
		return strings.Compare(a.Fault+" "+a.Rig, b.Fault+" "+b.Rig)
	})
	return s
}

func (s *Sums) add(f check.Figures) {
	for _, p := range []struct {
		sum *int
		n   int
	}{
		{&s.Ops, f.Ops},
		{&s.Applied, f.Applied},
		{&s.Refused, f.Refused},
		{&s.Failed, f.Failed},
		{&s.Unknown, f.Unknown},
		{&s.Grants, f.Grants},
		{&s.Takeovers, f.Takeovers},
		{&s.PausedTakeovers, f.PausedTakeovers},
		{&s.StaleRefused, f.StaleRefused},
		{&s.ForgedRefused, f.ForgedRefused},
		{&s.Ambiguous, f.Ambiguous},
		{&s.Resolved, f.Resolved},
		{&s.Histories, f.Histories},
		{&s.Undecided, f.Undecided},
		{&s.Leaks, f.Leaks},
	} {
		*p.sum += p.n
	}
	s.Recoveries = append(s.Recoveries, f.Recoveries...)
}

// Goal is a number to reach, and whether it was.
type Goal struct {
	Name, Want, Got string
	Met             bool
}

// Goals are the numbers that the record is to reach.
func (s Sums) Goals() []Goal {
	atLeast := func(name string, want, got int) Goal {
		return Goal{name, "at least " + count(want), count(got), got >= want}
	}
	none := func(name string, got int) Goal { return Goal{name, "0", count(got), got == 0 && s.Runs > 0} }
	p99 := Goal{"recovery after healing, 99th percentile", "at most 10 s", "nothing recovered yet", false}
	if n := len(s.Recoveries); n > 0 {
		q := quantile(s.Recoveries, 0.99)
		p99.Got, p99.Met = fmt.Sprintf("%s (of %s; the slowest %s)", span(q), count(n), span(s.Recoveries[n-1])), q <= 10*time.Second
	}
	return []Goal{
		atLeast("kinds of faults that held", 30, s.Kinds),
		atLeast("cells that held", 100, s.Cells),
		none("lost or stale accepted, or another promise broken", s.Lost),
		none("commits applied twice, or told wrong", s.Doubled),
		atLeast("stale writes refused", 100_000, s.StaleRefused),
		atLeast("takeovers of stopped processes", 20_000, s.PausedTakeovers),
		atLeast("histories checked", 10_000, s.Histories),
		none("histories undecided", s.UndecidedN),
		atLeast("ambiguous commits", 10_000, s.Ambiguous),
		p99,
		none("left over: goroutines, connections, waiters, locks", s.LeftOver),
	}
}

// Text writes the goals for a terminal.
func (s Sums) Text(w io.Writer) error {
	fmt.Fprintf(w, "%s: %d held, %d violated, %d void\n\n", plural(s.Runs, "run"), s.Held, s.Violated, s.Void)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, g := range s.Goals() {
		word := "missed"
		if g.Met {
			word = "met"
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\n", word, g.Name, g.Got, "want "+g.Want)
	}
	return tw.Flush()
}
