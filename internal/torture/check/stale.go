package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// highest is the grant with the highest number of those that were answered up to a time.
type highest struct {
	at    int64
	grant *grant
}

// stale checks that nothing is served under a token that was sent after a newer grant had been
// answered: it was raised in the store by then, whatever the lock store forgot, as long as the
// store itself lost nothing since.
func (r *run) stale() {
	newest := make(map[string][]highest)
	for _, resource := range r.holds {
		var all []highest
		var top *grant
		for _, g := range r.byHold[resource] {
			// What was raised before a loss of data may be lost.
			if top == nil || g.Number >= top.Number || touches(r.eras, top.op.Call, g.op.Return) {
				top = g
				all = append(all, highest{g.op.Return, g})
			}
		}
		newest[resource] = all
	}
	for i := range r.Ops {
		op := &r.Ops[i]
		if op.Outcome != applied || op.Replayed || op.Kind != history.Commit && op.Kind != history.Read {
			continue
		}
		for _, t := range op.Tokens {
			all := newest[t.Resource]
			n, _ := slices.BinarySearchFunc(all, op.Call, func(h highest, t int64) int { return cmp.Compare(h.at, t) })
			if n == 0 {
				continue
			}
			g := all[n-1].grant
			newer := g.Number > t.Number || g.Number == t.Number && g.Grant != t.Grant && r.later(g, t)
			if newer && !touches(r.eras, g.op.Call, op.Return) {
				r.violate(Violation{
					Invariant: "INV2", Check: "stale", Group: op.Group, Ops: []string{g.op.ID, op.ID},
					Text: fmt.Sprintf("%s, a %s with number %d of %s, was served although number %d had been granted before it was sent", op.ID, op.Kind, t.Number, t.Resource, g.Number),
				})
			}
		}
	}
}

// later reports whether a grant was asked for after the one that a token is of had been answered.
func (r *run) later(g *grant, t history.Token) bool {
	old := r.byGrant[grantID{t.Resource, t.Grant}]
	return old != nil && g.op.Call > old.op.Return
}
