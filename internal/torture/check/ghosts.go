package check

import (
	"fmt"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// ghosts looks for commits of which the fence told a client that they are refused, though they had been
// applied: a later attempt under the key is answered as one of before. The refusal was the last word on the
// token's commits: what was applied before it should have been found by its key, and what came after it
// under this token, or an older one, is refused as well. Only an attempt with a newer token, or one
// without tokens, could have been applied in between.
func (r *run) ghosts(g *group) {
	for _, c := range g.commits {
		var refused *history.Op
		for _, op := range c.attempts {
			switch {
			case op.Key == "" || op.Forged || len(op.Tokens) != 1:
				refused = nil
			case refused != nil && op.Replayed && op.Outcome == applied:
				if !touches(r.eras, refused.Call, op.Return) {
					r.violate(Violation{
						Invariant: "INV6", Check: "outcomes", Group: g.name, Ops: []string{refused.ID, op.ID},
						Text: fmt.Sprintf("%s was refused under the key %s (%s), and %s was told that it had been applied before", refused.ID, op.Key, refused.Reason, op.ID),
					})
				}
			case definite(op) && op.Outcome == "refused" && byFence(op.Reason) && op.Reason != "ungranted":
				refused = op
			case refused != nil && op.Tokens[0].Number > refused.Tokens[0].Number && (!definite(op) || op.Outcome == applied):
				refused = nil
			}
		}
	}
}
