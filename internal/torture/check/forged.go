package check

import (
	"fmt"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// forged checks that no token was served that nobody was granted or that had ended, that a renewal
// revives no lease, and that re-entry returns the same token.
func (r *run) forged() {
	locks := windowsOf(r.Faults, history.LosesLocks)
	for i := range r.Ops {
		op := &r.Ops[i]
		if op.Outcome != applied {
			continue
		}
		report := func(invariant, text string, ops ...string) {
			r.violate(Violation{Invariant: invariant, Check: "forged", Group: op.Group, Text: text, Ops: append([]string{op.ID}, ops...)})
		}
		switch {
		case op.Kind == history.Renew:
			if old := r.endedBefore(op); old != nil && !touches(locks, old.Call, op.Return) {
				report("INV11", fmt.Sprintf("%s renewed a token that %s had released", op.ID, old.ID), old.ID)
			} else if old == nil && op.Forged {
				report("INV10", fmt.Sprintf("%s renewed a token that nobody was granted", op.ID))
			}
		case op.Forged: // replayed or not: nothing else is sent under the key of a forged one
			report("INV10", fmt.Sprintf("%s, a %s with a token that nobody was granted or that had ended, was served", op.ID, op.Kind))
		case op.Kind == history.Reenter && len(op.Tokens) > 1 && op.Tokens[0] != op.Tokens[1]:
			report("INV1", fmt.Sprintf("%s re-entered number %d of %s and got number %d", op.ID, op.Tokens[0].Number, op.Tokens[0].Resource, op.Tokens[1].Number))
		}
	}
}

// endedBefore returns an acknowledged release of one of op's tokens that was answered before it.
func (r *run) endedBefore(op *history.Op) *history.Op {
	for _, t := range op.Tokens {
		for _, old := range r.released[grantID{t.Resource, t.Grant}] {
			if old.Outcome == applied && old.Return < op.Call {
				return old
			}
		}
	}
	return nil
}

// incarnations checks that no token that was granted before a loss of data is served after it.
func (r *run) incarnations() {
	for i := range r.Ops {
		op := &r.Ops[i]
		if op.Kind != history.Commit && op.Kind != history.Read || op.Outcome != applied || r.replay(op) {
			continue
		}
		for _, t := range op.Tokens {
			g := r.byGrant[grantID{t.Resource, t.Grant}]
			if g == nil {
				continue
			}
			for _, w := range r.eras {
				if g.op.Return < w.from && w.to < op.Call {
					r.violate(Violation{
						Invariant: "INV2", Check: "incarnation", Group: op.Group, Ops: []string{g.op.ID, op.ID},
						Text: fmt.Sprintf("%s was served with number %d of %s, granted before the store lost data", op.ID, t.Number, t.Resource),
					})
					break
				}
			}
		}
	}
}
