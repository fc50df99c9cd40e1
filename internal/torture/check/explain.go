package check

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// drawable is how many calls a picture may have: it grows with the square of them.
const drawable = 300

// explain says why there is no order: two commits that were computed from one value, if there are;
// else where the longest order ends.
func (r *run) explain(g *group, p *problem) Violation {
	v := Violation{Invariant: "INV5", Check: "linearizable", Group: g.name}
	around := int64(never)
	if a, b := p.lost(); a != nil {
		v.Ops = []string{a.op.ID, b.op.ID}
		v.Text = fmt.Sprintf("two commits were applied that were computed from the same value, so one of them is lost: %s; and %s", a, b)
		around = max(a.op.Call, b.op.Call)
	} else {
		_, info := porcupine.CheckOperationsVerbose(p.model(), p.ops, r.explaining())
		stuck, n := p.longest(info)
		v.Text = fmt.Sprintf("no order of the group's %d calls explains what they saw: %d of them at most", len(p.ops), n)
		if stuck != nil {
			v.Ops = []string{stuck.op.ID}
			v.Text += ", and then not " + stuck.String()
			if !stuck.final {
				around = stuck.op.Call
			}
		}
	}
	if r.pictures > 0 {
		if v.Picture = r.draw(p, around); v.Picture != "" {
			r.pictures--
		}
	}
	return v
}

// explaining is how long the search for a reason may last.
func (r *run) explaining() time.Duration { return min(r.undecided, 10*time.Second) }

// lost finds two commits that were both applied to the same value of a record.
func (p *problem) lost() (a, b *step) {
	from := make(map[seen]*step)
	for _, o := range p.ops {
		s := stepOf(o)
		if s.unknown || !s.commit {
			continue
		}
		for _, c := range s.sees {
			if c.version == 0 && s.op.Workload == "bank" {
				continue // a balance may come again
			}
			if !slices.ContainsFunc(s.puts, func(w put) bool { return w.place == c.place }) {
				continue
			}
			if other := from[c]; other != nil {
				return other, s
			}
			from[c] = s
		}
	}
	return nil, nil
}

// longest returns the first call that is not in the longest order that was found, and its length.
func (p *problem) longest(info porcupine.LinearizationInfo) (stuck *step, n int) {
	var best []int
	for _, orders := range info.PartialLinearizations() {
		for _, order := range orders {
			if len(order) > len(best) {
				best = order
			}
		}
	}
	in := make(map[int]bool, len(best))
	for _, i := range best {
		in[i] = true
	}
	ret := int64(never)
	for i, o := range p.ops {
		if !in[i] && o.Return < ret {
			stuck, ret = stepOf(o), o.Return
		}
	}
	return stuck, len(best)
}

// draw draws the calls around a time: as few as show the violation alone. Empty if that would be
// too many.
func (r *run) draw(p *problem, around int64) string {
	ops := slices.Clone(p.ops)
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	at, _ := slices.BinarySearchFunc(ops, around, func(o porcupine.Operation, t int64) int { return cmp.Compare(o.Call, t) })
	for n := 25; ; n *= 3 {
		n = min(n, drawable)
		from, to := max(at-n, 0), min(at+n/5+1, len(ops))
		part := &problem{table: p.table, init: p.init, ops: ops[from:to]}
		if to < len(ops) { // what was not applied by then need not be
			part.ops = append(slices.Clone(part.ops), p.closing())
		}
		if from > 0 {
			part.init = state{}
			for i := range part.init.value {
				part.init.value[i] = anything
			}
		}
		result, info := porcupine.CheckOperationsVerbose(part.model(), part.ops, r.explaining())
		if result == porcupine.Illegal {
			var page bytes.Buffer
			if porcupine.Visualize(part.model(), info, &page) == nil {
				return page.String()
			}
		}
		if n == drawable || from == 0 && to == len(ops) {
			return ""
		}
	}
}

func stepOf(o porcupine.Operation) *step {
	s, _ := o.Input.(*step)
	return s
}
