package check

import (
	"fmt"
	"math"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// elements is linearizable for a set. Each of its records is put once, by one commit, so each is on
// its own: a read sees it if the commit was answered before, does not if it was called after, and
// who has seen it sees it from then on.
func (r *run) elements(g *group) {
	type sight struct {
		op  *history.Op
		ret int64 // of the first that saw it
	}
	first := make(map[recordID]sight)
	note := func(op *history.Op, c history.Cell) {
		if c.Value == "" {
			return
		}
		if s, ok := first[idOf(c)]; !ok || op.Return < s.ret {
			first[idOf(c)] = sight{op: op, ret: op.Return}
		}
	}
	each := func(do func(*history.Op, history.Cell)) {
		for _, op := range g.reads {
			for _, c := range op.Cells {
				do(op, c)
			}
		}
	}
	each(note)
	writer := make(map[recordID]*commit)
	for _, c := range g.commits {
		if !c.mayBe() {
			continue
		}
		for _, w := range c.writes {
			writer[recordID{w.Resource, w.Key}] = c
		}
	}
	each(func(op *history.Op, cell history.Cell) {
		c := writer[idOf(cell)]
		v := Violation{Invariant: "INV6", Check: "linearizable", Group: g.name, Ops: []string{op.ID}}
		switch {
		case cell.Value != "" && c != nil && c.call > op.Return:
			v.Text = fmt.Sprintf("%s saw element %s, which %s wrote later", op.ID, cell.Key, c.id())
			v.Ops = append(v.Ops, c.id())
		case cell.Value != "" || touches(r.eras, math.MinInt64, op.Return):
			return
		case c != nil && c.outcome == applied && c.ret < op.Call:
			v.Text = fmt.Sprintf("%s did not see element %s, which %s had written", op.ID, cell.Key, c.id())
			v.Ops = append(v.Ops, c.id())
		case first[idOf(cell)].op != nil && first[idOf(cell)].ret < op.Call:
			v.Text = fmt.Sprintf("%s did not see element %s, which %s had seen", op.ID, cell.Key, first[idOf(cell)].op.ID)
			v.Ops = append(v.Ops, first[idOf(cell)].op.ID)
		default:
			return
		}
		r.violate(v)
	})
}
