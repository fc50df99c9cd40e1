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
	Last       Run   // the one that counts
	Open       []Run // those that found a violation and were not followed by one that mends it; Last is the last of them
	Runs       int
}

// cellKey tells cells apart. A run with several kinds of faults, or with none, is a cell too, but
// none of the table.
type cellKey struct{ faults, rig string }

// standing returns what counts of each cell: its last run, but a violation stands until a run that
// mends it. Runs are taken in the order of their times: two branches of a record may be merged in any order.
func standing(runs []Run) map[cellKey]Cell {
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b Run) int { return a.Time.Compare(b.Time) })
	cells := map[cellKey]Cell{}
	for _, r := range runs {
		faults := slices.Clone(r.Faults)
		slices.Sort(faults)
		key := cellKey{strings.Join(slices.Compact(faults), "+"), r.Rig()}
		c := cells[key]
		c.Fault, c.Rig = key.faults, key.rig
		c.Runs++
		switch {
		case r.Verdict == Violated:
			c.Open = append(c.Open, r)
		case mends(r, c.Open):
			c.Open = nil
		}
		if r.Verdict == Violated || len(c.Open) == 0 {
			c.Last = r
		}
		cells[key] = c
	}
	return cells
}

// mends says whether a run shows that violations are gone: it held, with a known state of the code that
// is none of theirs. The same code does not get better by being run again, nothing is known of code
// that has no name, and a void run shows nothing. (A commit with changes may still be that commit.)
func mends(r Run, violated []Run) bool {
	return r.Verdict == Held && named(r.Version) &&
		!slices.ContainsFunc(violated, func(v Run) bool { return strings.TrimSuffix(v.Version, "+") == r.Version })
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
	Lost       int    // violations in them that are of a lost write, or a stale one that was accepted
	Doubled    int    // violations in them that are of a commit applied twice, or told wrong
	Mended     int    // runs that found a violation that stands no more
	LeftOver   int    // leaks in the runs that count
	UndecidedN int    // histories in the runs that count that could not be decided

	check.Figures // of the runs that held; Recoveries are in order of length
}

// Sum adds up a record.
func Sum(runs []Run) Sums {
	var s Sums
	for _, r := range runs {
		s.Runs++
		switch r.Verdict {
		case Held:
			s.Held++
			s.add(r.Figures) // what else was counted was counted by runs that show nothing, or the wrong thing
		case Violated:
			s.Violated++
		default:
			s.Void++
		}
	}
	s.Mended = s.Violated
	slices.Sort(s.Recoveries)
	kinds := map[string]bool{}
	for _, c := range standing(runs) {
		counts := c.Open
		if len(counts) == 0 {
			counts = []Run{c.Last}
		}
		for _, r := range counts {
			s.LeftOver += r.Leaks
			s.UndecidedN += r.Undecided
		}
		switch {
		case len(c.Open) > 0:
			s.Unmended = append(s.Unmended, c)
			s.Mended -= len(c.Open)
			for _, r := range c.Open {
				s.violated(r)
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

// violated counts the violations of a run that stands violated.
func (s *Sums) violated(r Run) {
	for _, v := range r.Violations {
		switch v.Invariant {
		case "INV6", "INV7":
			s.Doubled++
		default:
			s.Lost++
		}
	}
	if len(r.Violations) == 0 {
		s.Lost++
	}
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
		{&s.SupersededRefused, f.SupersededRefused},
		{&s.ForgedRefused, f.ForgedRefused},
		{&s.Ambiguous, f.Ambiguous},
		{&s.Resolved, f.Resolved},
		{&s.Histories, f.Histories},
		{&s.Searched, f.Searched},
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
	none := func(name string, got int) Goal { return Goal{name, "0", count(got), got == 0 && s.Held > 0} }
	p99 := Goal{"recovery after healing, 99th percentile", "at most 10 s", "nothing recovered yet", false}
	if n := len(s.Recoveries); n > 0 {
		q := quantile(s.Recoveries, 0.99)
		p99.Got, p99.Met = fmt.Sprintf("%s (of %s; the slowest %s)", span(q), count(n), span(s.Recoveries[n-1])), q <= 10*time.Second
	}
	resolved := atLeast("ambiguous commits resolved under their key", 10_000, s.Resolved)
	resolved.Got += " (of " + count(s.Ambiguous) + ")"
	stale := atLeast("stale writes really refused", 100_000, s.StaleRefused)
	stale.Got += " (" + staleKinds(s.Figures) + ")"
	histories := atLeast("histories checked", 10_000, s.Histories)
	histories.Got += " (" + count(s.Searched) + " by a search)"
	return []Goal{
		atLeast("kinds of faults that held", 30, s.Kinds),
		atLeast("cells that held", 100, s.Cells),
		none("lost or stale accepted, or another promise broken", s.Lost),
		none("commits applied twice, or told wrong", s.Doubled),
		stale,
		atLeast("takeovers of stopped processes", 20_000, s.PausedTakeovers),
		histories,
		none("histories undecided", s.UndecidedN),
		resolved,
		p99,
		none("left over: goroutines, connections, waiters, locks", s.LeftOver),
	}
}

// staleKinds says why stale writes were refused.
func staleKinds(f check.Figures) string {
	return count(f.SupersededRefused) + " superseded or duplicate, " + count(f.StaleRefused-f.SupersededRefused) + " retired"
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
