package check

import "github.com/anishathalye/porcupine"

// linearizable looks for an order of a group's calls, within the times at which they were made and
// answered, that explains what they saw: a commit is applied in one moment, in which its records
// hold what it was computed from (so that no acknowledged read-modify-write is lost), and a read
// sees what the commits before it wrote. Records that are written once (elements, receipts, entries)
// need no such search: see outcomes and coupon.
func (r *run) linearizable(g *group) {
	if len(g.reads)+len(g.commits) == 0 {
		return
	}
	switch g.workload {
	case "set":
		r.result.Histories++
		r.elements(g)
		return
	case "coupon": // see there
		r.result.Histories++
		return
	case "register", "bank", "task", "log", "table":
		r.result.Histories++
	default: // a fault's own resource: nothing was written there that counts
		return
	}
	for _, s := range r.spans() {
		p := r.problem(g, s)
		switch porcupine.CheckOperationsTimeout(p.model(), p.ops, r.undecided) {
		case porcupine.Unknown:
			r.result.Undecided++
			return
		case porcupine.Illegal:
			r.result.Searched++
			r.violate(r.explain(g, p))
			return
		}
	}
	r.result.Searched++
}
