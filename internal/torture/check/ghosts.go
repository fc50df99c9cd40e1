package check

import (
	"fmt"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// ghosts looks for commits of which the fence told a client that they are refused, though they had been
// applied, or are applied later. The refusal was the last word on the token's commits: what was applied before it
// should have been found by its key, and what comes after it under this token, or an older one, is refused as
// well. Only an attempt with a newer token, or one without tokens, can have been applied since. A later answer
// of before tells that it was applied, and so does its effect.
func (r *run) ghosts(g *group) {
	for _, c := range g.commits {
		if c.forged || c.attempts[0].Key == "" {
			continue
		}
		var no *history.Op // the refusal that holds for all attempts so far
		for i, op := range c.attempts {
			switch {
			case finally(op) && endsAll(op, c.attempts[:i]):
				no = op
			case no == nil || definite(op) && op.Outcome != applied:
			case !ends(no, op) && (!c.replay(op) || !r.Direct && !r.already(g, c, op)):
				no = nil // it may have been applied itself
			case op.Outcome == applied && (c.replay(op) || no.Return < op.Call) && !touches(r.eras, no.Call, op.Return):
				text := fmt.Sprintf("%s was refused under the key %s (%s), and %s was applied", no.ID, op.Key, no.Reason, op.ID)
				if c.replay(op) {
					text = fmt.Sprintf("%s was refused under the key %s (%s), and %s was told that it had been applied before", no.ID, op.Key, no.Reason, op.ID)
				}
				r.violate(Violation{Invariant: "INV6", Check: "outcomes", Group: g.name, Ops: []string{no.ID, op.ID}, Text: text})
			}
		}
		if no != nil && c.outcome == unknown && c.sure && !touches(r.eras, c.call, never) {
			r.violate(Violation{
				Invariant: "INV6", Check: "outcomes", Group: g.name, Ops: []string{no.ID},
				Text: fmt.Sprintf("%s was refused under the key %s (%s), and what it writes is there", no.ID, no.Key, no.Reason),
			})
		}
	}
}

// finally reports whether an attempt was refused because of a token that never is the mark again.
func finally(op *history.Op) bool {
	return op.Outcome == refused && len(op.Tokens) == 1 && (op.Reason == "superseded" || op.Reason == "retired" || op.Reason == "duplicate")
}

// ends reports whether the refusal no ends the token of an attempt, too.
func ends(no, op *history.Op) bool {
	return len(op.Tokens) == 1 && (op.Tokens[0] == no.Tokens[0] || op.Tokens[0].Number < no.Tokens[0].Number)
}

// endsAll reports whether a refusal ends the tokens of all attempts of which nothing is known.
func endsAll(no *history.Op, before []*history.Op) bool {
	for _, op := range before {
		if !definite(op) && !ends(no, op) {
			return false
		}
	}
	return true
}

// already reports whether what an attempt was told of was applied before it was sent: somebody had seen a
// record in that version, or a later one, by then.
func (r *run) already(g *group, c *commit, op *history.Op) bool {
	for _, w := range op.Writes {
		seen := func(at recordID, version, call, ret int64) bool {
			return w.Version != 0 && at == recordID{w.Resource, w.Key} && version >= w.Version && ret < op.Call && !touches(r.eras, call, op.Return)
		}
		for _, read := range g.reads {
			for _, cell := range read.Cells {
				if seen(idOf(cell), cell.Version, read.Call, read.Return) {
					return true
				}
			}
		}
		for _, other := range g.commits {
			if other == c || other.outcome != applied {
				continue
			}
			for _, o := range other.writes {
				if seen(recordID{o.Resource, o.Key}, o.Version, other.call, other.ret) {
					return true
				}
			}
		}
	}
	return false
}
