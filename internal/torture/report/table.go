package report

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind of fault as the tables show it.
type Kind struct {
	Name, What, Expect string
	Rigs               []string // where it fits, by PairName
	Command            string   // that makes it, on the first of them
}

// KindsTable is the list of the faults, in Markdown.
func KindsTable(kinds []Kind) string {
	var b strings.Builder
	b.WriteString("| fault | what happens | what must happen then | the command |\n|---|---|---|---|\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` |\n", code(k.Name), markdown(k.What), markdown(k.Expect), strings.ReplaceAll(k.Command, "|", `\|`))
	}
	return b.String()
}

// CellsTable is every kind of fault on every rig with its last result, in Markdown: a row for each kind
// that is known or was ever run, a column for each of the rigs, and one for any other that was run.
func CellsTable(kinds []Kind, rigs []string, runs []Run) string {
	cells := standing(runs)
	names := make([]string, 0, len(kinds))
	fits := map[cellKey]bool{}
	for _, k := range kinds {
		names = append(names, k.Name)
		for _, rig := range k.Rigs {
			fits[cellKey{k.Name, rig}] = true
		}
	}
	rigs = slices.Clone(rigs)
	var moreNames, moreRigs []string
	for key, c := range cells {
		if !c.single() {
			continue
		}
		if !slices.Contains(names, key.faults) {
			moreNames = append(moreNames, key.faults)
		}
		if !slices.Contains(rigs, key.rig) {
			moreRigs = append(moreRigs, key.rig)
		}
	}
	slices.Sort(moreNames)
	slices.Sort(moreRigs)
	names = append(names, slices.Compact(moreNames)...)
	rigs = append(rigs, slices.Compact(moreRigs)...)

	var b strings.Builder
	fmt.Fprintf(&b, "| fault | %s |\n|---|%s\n", strings.Join(rigs, " | "), strings.Repeat("---|", len(rigs)))
	for _, name := range names {
		fmt.Fprintf(&b, "| %s |", code(name))
		for _, rig := range rigs {
			key := cellKey{name, rig}
			text := "not run"
			if c, ok := cells[key]; ok {
				text = result(c.Last)
			} else if len(kinds) > 0 && !fits[key] {
				text = "–"
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// result is a cell's text.
func result(r Run) string {
	switch r.Verdict {
	case Held:
		return fmt.Sprintf("held: %s refused, %s taken over, %s unknown", count(r.StaleRefused), count(r.Takeovers), count(r.Unknown))
	case Violated:
		text := r.Why
		if len(r.Violations) > 0 {
			text = strings.TrimSpace(r.Violations[0].Invariant + " " + r.Violations[0].Check)
		}
		return strings.TrimSuffix(fmt.Sprintf("**violated: %s (seed %d)**", markdown(text), r.Seed), ": ")
	}
	return "void: " + markdown(r.Why)
}

// SumsText is what all runs amount to, and each goal, in Markdown.
func SumsText(runs []Run) string {
	s := Sum(runs)
	var b strings.Builder
	if s.Runs == 0 {
		return "No run is recorded yet.\n"
	}
	first, last := runs[0].Time, runs[0].Time
	var machines []string
	for _, r := range runs {
		if r.Time.Before(first) {
			first = r.Time
		}
		if r.Time.After(last) {
			last = r.Time
		}
		if !slices.Contains(machines, r.Machine) && r.Machine != "" {
			machines = append(machines, r.Machine)
		}
	}
	fmt.Fprintf(&b, "%s from %s to %s: %s held, %s violated, %s void. The runs that held made %s calls, of which %s were applied, %s refused, %s failed, and of %s the outcome stayed unknown to the caller; %s grants, %s of them takeovers; %s forged or replayed tokens refused; %s of %s ambiguous commits resolved under their key.\n",
		plural(s.Runs, "recorded run"), first.UTC().Format("2006-01-02"), last.UTC().Format("2006-01-02"),
		count(s.Held), count(s.Violated), count(s.Void), count(s.Ops), count(s.Applied), count(s.Refused), count(s.Failed), count(s.Unknown),
		count(s.Grants), count(s.Takeovers), count(s.ForgedRefused), count(s.Resolved), count(s.Ambiguous))
	if len(machines) > 0 {
		slices.Sort(machines)
		for i := range machines {
			machines[i] = markdown(machines[i])
		}
		fmt.Fprintf(&b, "\nMachines: %s.\n", strings.Join(machines, "; "))
	}
	b.WriteString("\n| goal | wanted | reached | |\n|---|---|---|---|\n")
	for _, g := range s.Goals() {
		word := "**missed**"
		if g.Met {
			word = "met"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", g.Name, g.Want, g.Got, word)
	}
	b.WriteString("\nThat the checkers find planted bugs is shown by `make proof` and `make sabotage`, which fail unless every one is caught; those are no runs of this record.\n")
	if s.VoidCells > 0 {
		fmt.Fprintf(&b, "\n%s void on the machines above, and count for nothing.\n", areCells(s.VoidCells))
	}
	for _, c := range s.Unmended {
		fmt.Fprintf(&b, "\n**Not mended**: %s on %s, %s.\n", code(orNone(c.Fault)), c.Rig, result(c.Last))
	}
	if s.Mended > 0 {
		fmt.Fprintf(&b, "\n%s earlier found a violation in what has been mended since: see the track record.\n", plural(s.Mended, "run"))
	}
	return b.String()
}

func areCells(n int) string {
	if n == 1 {
		return "1 cell was"
	}
	return plural(n, "cell") + " were"
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// code is a text as code in a table.
func code(s string) string {
	return "`" + strings.NewReplacer("`", "'", "|", `\|`, "\n", " ").Replace(s) + "`"
}

// markdown escapes a text for a cell of a table.
func markdown(s string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", "[", `\[`).Replace(oneLine(s))
}
