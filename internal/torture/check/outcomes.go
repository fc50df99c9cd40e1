package check

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// outcomes checks the answers against what was seen: what was applied is there in the end, what was
// refused or failed never was, nothing is there that nobody wrote, and nothing twice. What was
// acknowledged before data was lost need not be there.
func (r *run) outcomes(g *group) {
	r.invented(g)
	r.answers(g)
	r.twice(g)
	r.ghosts(g)
	r.again(g)
	if !r.FinalRead {
		return
	}
	r.missing(g)
	switch g.workload {
	case "log":
		r.entriesOf(g)
	case "table":
		r.auditOf(g)
	}
}

// invented looks for sights of what nobody wrote, or what a refused or failed commit wrote.
func (r *run) invented(g *group) {
	seeded := make(map[cellID]bool, len(g.initial))
	for _, c := range g.initial {
		seeded[cellID{idOf(c), c.Value}] = true
	}
	look := func(c history.Cell, by string) {
		id := cellID{idOf(c), c.Value}
		if c.Value == "" || seeded[id] || g.added[id.recordID] || strings.HasPrefix(c.Key, "audit.") {
			return
		}
		could := g.writers[id]
		for _, w := range could {
			if w.mayBe() {
				return
			}
		}
		v := Violation{Invariant: "INV6", Check: "outcomes", Group: g.name, Ops: []string{by}}
		if len(could) == 0 {
			v.Text = fmt.Sprintf("%s saw %s, which nobody wrote", by, cellText(c))
		} else {
			last := could[0].attempts[len(could[0].attempts)-1]
			v.Ops = append(v.Ops, could[0].id())
			v.Text = fmt.Sprintf("%s saw %s, which %s wrote, and that was answered as %s (%s)", by, cellText(c), could[0].id(), could[0].outcome, last.Reason+last.Error)
			if could[0].forged {
				v.Text = fmt.Sprintf("%s saw %s, which %s wrote with a forged token", by, cellText(c), could[0].id())
			}
		}
		r.violate(v)
	}
	for _, op := range g.reads {
		for _, c := range op.Cells {
			look(c, op.ID)
		}
	}
	for _, c := range g.commits {
		if c.outcome == applied {
			for _, cell := range c.cells {
				look(cell, c.id())
			}
		}
	}
	for _, c := range g.final {
		look(c, "end")
	}
}

// missing looks for what was applied, in records that are written once, and is not there.
func (r *run) missing(g *group) {
	there := make(map[recordID]string, len(g.final))
	for _, c := range g.final {
		there[idOf(c)] = c.Value
	}
	for _, c := range g.commits {
		if c.outcome != applied || !r.lastEra(c.call) {
			continue
		}
		for _, w := range c.writes {
			if w.Kind != "put" || !once(w.Key) || strings.HasPrefix(w.Key, "audit.") {
				continue
			}
			if got := there[recordID{w.Resource, w.Key}]; got != w.Value {
				text := "there is none"
				if got != "" {
					text = fmt.Sprintf("it is %q", got)
				}
				r.violate(Violation{
					Invariant: "INV6", Check: "outcomes", Group: g.name, Ops: []string{c.id()},
					Text: fmt.Sprintf("%s was acknowledged and put %s/%s = %q: in the end %s", c.id(), w.Resource, w.Key, w.Value, text),
				})
			}
		}
	}
}

// entriesOf checks a log: an op has one place, and the places are as many as its length.
func (r *run) entriesOf(g *group) {
	report := func(invariant, text string, ops ...string) {
		r.violate(Violation{Invariant: invariant, Check: "outcomes", Group: g.name, Text: text, Ops: ops})
	}
	at := make(map[string]string)
	length, lowest, highest, n := int64(0), int64(never), int64(0), int64(0)
	for _, c := range g.final {
		if c.Key == "length" {
			length, _ = strconv.ParseInt(c.Value, 10, 64)
			continue
		}
		place, ok := strings.CutPrefix(c.Key, "entry.")
		k, err := strconv.ParseInt(place, 10, 64)
		if !ok || err != nil {
			continue
		}
		n, lowest, highest = n+1, min(lowest, k), max(highest, k)
		op := lastWord(c.Value)
		if other := at[op]; other != "" {
			report("INV7", fmt.Sprintf("%s is at two places of the log, %s and %s", op, other, c.Key), op)
		}
		at[op] = c.Key
	}
	if n != length || n > 0 && highest-lowest+1 != n {
		report("INV8", fmt.Sprintf("the log has %d entries, from %d to %d, and its length is %d", n, lowest, highest, length))
	}
}

// auditOf checks a table: each applied op has one row in its audit, and the row counts them.
func (r *run) auditOf(g *group) {
	report := func(invariant, text string, ops ...string) {
		r.violate(Violation{Invariant: invariant, Check: "outcomes", Group: g.name, Text: text, Ops: ops})
	}
	byOp := g.byOp()
	rows := make(map[*commit]string)
	n, last, begun := int64(0), int64(0), int64(0)
	for _, c := range g.initial {
		if c.Key == "row" {
			begun = leading(c.Value)
		}
	}
	for _, c := range g.final {
		if c.Key == "row" {
			last = leading(c.Value)
		}
		if !strings.HasPrefix(c.Key, "audit.") {
			continue
		}
		op := lastWord(c.Value)
		commit := byOp[op]
		n++
		switch {
		case commit == nil:
			report("INV6", fmt.Sprintf("the audit has %s, which nobody wrote", cellText(c)), op)
			continue
		case !commit.mayBe():
			report("INV6", fmt.Sprintf("the audit has %s, and that was answered as %s", cellText(c), commit.outcome), op)
		case rows[commit] != "":
			report("INV7", fmt.Sprintf("%s is in the audit twice, %s and %s", op, rows[commit], c.Key), op)
		}
		rows[commit] = c.Key
	}
	for _, c := range g.commits {
		if c.outcome == applied && r.lastEra(c.call) && rows[c] == "" {
			report("INV6", fmt.Sprintf("%s was acknowledged, and is not in the audit", c.id()), c.id())
		}
	}
	if n != last-begun {
		report("INV8", fmt.Sprintf("the audit has %d rows, and the row was changed %d times", n, last-begun))
	}
}

// leading reads the number that a value begins with; 0 if there is none.
func leading(value string) int64 {
	n, _, _ := strings.Cut(value, " ")
	v, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		return 0
	}
	return v
}
