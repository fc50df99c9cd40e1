package check

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// placed is an applied commit at its place in the order that the data itself shows.
type placed struct {
	place  int64
	op     string
	number int64
	grant  string // "" where it is not known
	commit *commit
}

// epochs checks that the applied commits of a group, in the order that the data itself shows, are a
// sequence of epochs of one grant each: the numbers never go back, a number has one grant, and a
// grant that has ended does not come back. What overlaps a loss of data is passed over, and across
// it nothing is compared.
func (r *run) epochs(g *group) {
	var all []placed
	switch g.workload {
	case "log":
		all = g.entries()
	case "table":
		all = g.audits()
	case "register":
		all = g.steps()
	default:
		return
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.place, b.place) })
	era := -1
	var last placed
	ended := make(map[string]placed)
	owner := make(map[int64]placed)
	for _, p := range all {
		if p.commit == nil {
			continue // outcomes says so
		}
		now, ok := r.era(p.commit.call, p.commit.ret)
		if p.commit.ret == never { // an answer that never came says nothing of when
			now, ok = r.era(p.commit.call, p.commit.call)
			ok = ok && (len(r.eras) == 0 || now == len(r.eras))
		}
		if !ok {
			continue
		}
		if now != era {
			era, last = now, placed{}
			clear(ended)
			clear(owner)
		}
		bad := func(other placed, text string) {
			r.violate(Violation{Invariant: "INV3", Check: "epochs", Group: g.name, Ops: []string{other.op, p.op}, Text: text})
		}
		switch other, known := owner[p.number]; {
		case p.number < last.number:
			bad(last, fmt.Sprintf("%s was applied under number %d after %s under %d", p.op, p.number, last.op, last.number))
		case p.grant == "":
		case known && other.grant != p.grant:
			bad(other, fmt.Sprintf("%s and %s were applied under number %d, of grants %s and %s", other.op, p.op, p.number, other.grant, p.grant))
		case ended[p.grant].op != "" && last.grant != p.grant:
			bad(ended[p.grant], fmt.Sprintf("%s was applied under grant %s, which had ended before %s was", p.op, p.grant, last.op))
		}
		if p.grant != "" {
			if last.grant != "" && last.grant != p.grant {
				ended[last.grant] = last
			}
			owner[p.number] = p
		}
		last = p
	}
}

// entries reads a log, of which every entry tells its number and grant.
func (g *group) entries() []placed {
	var all []placed
	for _, c := range g.final {
		at, ok := strings.CutPrefix(c.Key, "entry.")
		place, err := strconv.ParseInt(at, 10, 64)
		words := strings.Fields(c.Value)
		if !ok || err != nil || len(words) != 3 {
			continue
		}
		number, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			continue
		}
		p := placed{place: place, op: words[2], number: number, grant: words[1]}
		if could := g.writers[cellID{idOf(c), c.Value}]; len(could) > 0 {
			p.commit = could[0]
		}
		all = append(all, p)
	}
	return all
}

// audits reads a table's audit, of which every row tells its number, and the history its grant.
func (g *group) audits() []placed {
	byOp := g.byOp()
	var all []placed
	for _, c := range g.final {
		at, ok := strings.CutPrefix(c.Key, "audit.")
		place, err := strconv.ParseInt(at, 10, 64)
		words := strings.Fields(c.Value)
		if !ok || err != nil || len(words) != 2 {
			continue
		}
		number, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			continue
		}
		p := placed{place: place, op: words[1], number: number, commit: byOp[words[1]]}
		if p.commit != nil {
			if t, ok := p.commit.token(c.Resource); ok && t.Number == number {
				p.grant = t.Grant
			}
		}
		all = append(all, p)
	}
	return all
}

// steps reads a register's history: every applied commit tells by its value which it was.
func (g *group) steps() []placed {
	var all []placed
	for _, c := range g.commits {
		t, ok := c.token(g.name)
		if !c.is() || !ok {
			continue
		}
		for _, w := range c.writes {
			n, _, _ := strings.Cut(w.Value, " ")
			if place, err := strconv.ParseInt(n, 10, 64); err == nil && w.Kind == "put" {
				all = append(all, placed{place, c.id(), t.Number, t.Grant, c})
			}
		}
	}
	return all
}

// byOp returns the commits by the op that they name as the last word of what they put.
func (g *group) byOp() map[string]*commit {
	all := make(map[string]*commit)
	for _, c := range g.commits {
		for _, w := range c.writes {
			if w.Kind == "put" {
				all[lastWord(w.Value)] = c
			}
		}
	}
	return all
}

func lastWord(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }

// cellText names a cell in a violation.
func cellText(c history.Cell) string { return fmt.Sprintf("%s/%s = %q", c.Resource, c.Key, c.Value) }
