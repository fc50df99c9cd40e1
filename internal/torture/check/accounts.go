package check

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// accounts checks the workloads of which two records belong together, which every commit writes
// both: the balances of a bank always come to the same sum, left and right of a task are always
// equal. It looks at what is there in the end, and at the reads of one turn: their token was the
// mark at each, so nobody else wrote between them.
func (r *run) accounts(g *group) {
	whole := wholeOf(g, len(windowsOf(r.Faults, history.LosesData)) > 0)
	if whole == nil {
		return
	}
	report := func(cells []history.Cell, where string, ops ...string) {
		if text := whole(cells); text != "" {
			r.violate(Violation{Invariant: "INV8", Check: "accounts", Group: g.name, Text: text + " " + where, Ops: ops})
		}
	}
	report(g.final, "in the end")
	seats := make(map[[2]int]*turn)
	for _, op := range g.ops {
		id := [2]int{op.Process, op.Seat}
		t := seats[id]
		if t == nil || op.Kind == history.Acquire {
			t = new(turn)
			seats[id] = t
		}
		switch {
		case op.Forged || op.Once:
		case op.Kind == history.Commit:
			t.cells, t.ops, t.own = nil, nil, t.own || !definite(op)
		case op.Kind == history.Read && op.Outcome == applied && !t.own:
			if len(t.cells) == 0 {
				t.from = op.Call
			}
			t.see(op)
			if !touches(r.eras, t.from, op.Return) {
				report(t.cells, "read in one turn", t.ops...)
			}
		}
	}
}

// turn is what a seat has read since it acquired the lock, or committed last.
type turn struct {
	cells []history.Cell
	ops   []string
	from  int64
	own   bool // a commit of its own may yet be applied
}

func (t *turn) see(op *history.Op) {
	for _, c := range op.Cells {
		if i := slices.IndexFunc(t.cells, func(o history.Cell) bool { return idOf(o) == idOf(c) }); i >= 0 {
			t.cells[i], t.ops[i] = c, op.ID
			continue
		}
		t.cells, t.ops = append(t.cells, c), append(t.ops, op.ID)
	}
}

// wholeOf returns what says what is wrong with the records of a group, if all are there; nil where
// its records need not fit each other. In a store that was emptied balances begin at nothing, once more.
func wholeOf(g *group, emptied bool) func([]history.Cell) string {
	switch g.workload {
	case "bank":
		want, n := sum(g.initial)
		if n == 0 {
			return nil
		}
		return func(cells []history.Cell) string {
			if got, k := sum(cells); k == n && got != want && (got != 0 || !emptied) {
				return fmt.Sprintf("the balances come to %d instead of %d,", got, want)
			}
			return ""
		}
	case "task":
		return func(cells []history.Cell) string {
			var left, right *history.Cell
			for i := range cells {
				switch cells[i].Key {
				case "left":
					left = &cells[i]
				case "right":
					right = &cells[i]
				}
			}
			if left != nil && right != nil && left.Value != right.Value {
				return fmt.Sprintf("left is %q and right is %q,", left.Value, right.Value)
			}
			return ""
		}
	}
	return nil
}

// sum adds the balances up, and counts them.
func sum(cells []history.Cell) (total int64, n int) {
	for _, c := range cells {
		if c.Key == "balance" {
			v, err := strconv.ParseInt(c.Value, 10, 64)
			if err == nil {
				total, n = total+v, n+1
			}
		}
	}
	return total, n
}
