package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// settling is how long after a loss of locks two may still hold one: what was granted before it
// runs out only then.
const settling = int64(10 * time.Second)

// trust checks that nobody is granted a lock while somebody else trusts an older lease of it, unless
// the lock store forgets something. The lease is trusted from the answer to when its holder says at
// the release, or else to its deadline at the grant; not after its process was killed.
func (r *run) trust() {
	lost := windowsOf(r.Faults, history.LosesLocks)
	for i := range lost {
		lost[i].to = min(lost[i].to, math.MaxInt64-settling) + settling
	}
	for _, resource := range r.holds {
		called := slices.Clone(r.byHold[resource])
		slices.SortStableFunc(called, func(a, b *grant) int { return cmp.Compare(a.op.Call, b.op.Call) })
		for _, a := range called {
			until := r.trusted(a)
			from, _ := slices.BinarySearchFunc(called, a.op.Return, func(g *grant, t int64) int { return cmp.Compare(g.op.Call, t) })
			for _, b := range called[from:] {
				if b.op.Call >= until {
					break
				}
				if b.op.Return < until && b.Grant != a.Grant && !touches(lost, a.op.Return, b.op.Return) {
					r.violate(Violation{
						Invariant: "INV9", Check: "trust", Group: r.groupOf(resource), Ops: []string{a.op.ID, b.op.ID},
						Text: fmt.Sprintf("%s was granted as number %d while the lease of number %d was trusted for another %v", resource, b.Number, a.Number, time.Duration(until-b.op.Return)),
					})
					break
				}
			}
		}
	}
}

// trusted returns until when a lease was trusted.
func (r *run) trusted(a *grant) int64 {
	until := a.op.Until
	if a.release != nil {
		until = min(cmp.Or(a.release.Until, a.release.Call), a.release.Call)
	}
	for _, f := range r.Faults {
		if slices.Contains(f.Killed, a.op.Process) && a.op.Return <= cmp.Or(f.Injected, f.To, never) {
			until = min(until, f.From)
		}
	}
	return until
}
