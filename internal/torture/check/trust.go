package check

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// settling is how long after a loss of locks two may still hold one, besides the longest lease: what was
// granted before it runs out only then.
const settling = int64(2 * time.Second)

// trust checks that no two leases of a lock are trusted at once, unless the lock store forgets
// something. A lease is trusted from the answer to when its holder says at the release, or else to its
// deadline at the grant; not after its process was killed.
func (r *run) trust() {
	longest := int64(0)
	for _, g := range r.grants {
		longest = max(longest, g.op.Until-g.op.Return)
	}
	lost := windowsOf(r.Faults, history.LosesLocks)
	for i := range lost {
		lost[i].to = min(lost[i].to, math.MaxInt64-settling-longest) + settling + longest
	}
	for _, resource := range r.holds {
		var trusted []lease // of those that were answered, what is still trusted
		for _, g := range r.byHold[resource] {
			b := lease{g, r.trusted(g)}
			at := g.op.Return
			trusted = slices.DeleteFunc(trusted, func(a lease) bool { return a.until <= at })
			if b.until <= at {
				continue
			}
			for _, a := range trusted {
				if a.Grant == b.Grant || touches(lost, min(a.op.Call, b.op.Call), at) {
					continue
				}
				r.violate(Violation{
					Invariant: "INV9", Check: "trust", Group: r.groupOf(resource), Ops: []string{a.op.ID, b.op.ID},
					Text: trustText(b.Token, a.Token, min(a.until, b.until)-at),
				})
				break
			}
			trusted = append(trusted, b)
		}
	}
}

// lease is a grant, and until when it was trusted.
type lease struct {
	*grant
	until int64
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
