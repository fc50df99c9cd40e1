package check

import (
	"fmt"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// answers checks that attempts under one key are all told the same, once one of them was told that the commit
// was applied, or what the data said: that is on record under the key, and the record is looked at before the
// fence. And that nobody is told what is never the case: no workload sends another commit under a key that
// was used, nor adds to what is no counter.
func (r *run) answers(g *group) {
	for _, c := range g.commits {
		if c.forged || c.attempts[0].Key == "" {
			continue
		}
		var told *history.Op
		for _, op := range c.attempts {
			bad := func(invariant, text string, ops ...string) {
				r.violate(Violation{Invariant: invariant, Check: "outcomes", Group: g.name, Text: text, Ops: append(ops, op.ID)})
			}
			if op.Outcome == refused && (op.Reason == "key-reused" || op.Reason == "invalid" || op.Reason == "not-counter") {
				bad("INV7", fmt.Sprintf("%s was refused under the key %s as %s, which nothing that was sent is", op.ID, op.Key, op.Reason))
				continue
			}
			if !decided(op) && !behindKey(op) {
				continue
			}
			if told != nil && told.Return < op.Call && !touches(r.eras, told.Call, op.Return) {
				switch {
				case told.Outcome == applied && op.Outcome == refused:
					bad("INV6", refusedText(told.ID, op), told.ID)
				case told.Outcome == refused && (op.Outcome != refused || op.Reason != told.Reason):
					bad("INV7", fmt.Sprintf("%s was refused by the data under the key %s (%s), and %s was %s under it %s", told.ID, op.Key, told.Reason, op.ID, op.Outcome, op.Reason), told.ID)
				case told.Outcome == applied && c.replay(op) && !sameResults(told.Writes, op.Writes):
					bad("INV7", fmt.Sprintf("%s was applied under the key %s, and %s was told other results of it", told.ID, op.Key, op.ID), told.ID)
				}
			}
			if decided(op) && (told == nil || touches(r.eras, told.Call, op.Return)) {
				told = op
			}
		}
	}
}

// refusedText says that a commit was refused after it had been told applied.
func refusedText(told string, op *history.Op) string {
	return fmt.Sprintf("%s was applied under the key %s, and %s was refused under it (%s)", told, op.Key, op.ID, op.Reason)
}

// decided reports whether an answer under a key is on record under it from then on.
func decided(op *history.Op) bool {
	return op.Outcome == applied || op.Outcome == refused && byData(op.Reason)
}

// behindKey reports whether an attempt was refused by what comes after the look-up of its key.
func behindKey(op *history.Op) bool {
	return op.Outcome == refused && (byData(op.Reason) || byFence(op.Reason) && op.Reason != "grant-required")
}

// sameResults compares what two answers say that the writes did.
func sameResults(a, b []history.Write) bool {
	if len(a) != len(b) {
		return true // one of them tells none
	}
	for i := range a {
		if a[i].Version != b[i].Version || a[i].Counter != b[i].Counter {
			return false
		}
	}
	return true
}

// twice reports commits that were applied more than once under one key: only one answer may say
// that it was applied then. It needs no look at the data.
func (r *run) twice(g *group) {
	for _, c := range g.commits {
		var first *history.Op
		for _, op := range c.attempts {
			if op.Key == "" || op.Forged || op.Outcome != applied || c.replay(op) {
				continue
			}
			if first != nil && !touches(r.eras, first.Call, op.Return) {
				r.violate(Violation{
					Invariant: "INV7", Check: "outcomes", Group: g.name, Ops: []string{first.ID, op.ID},
					Text: fmt.Sprintf("%s and %s were both applied under the key %s, neither as an answer of before", first.ID, op.ID, op.Key),
				})
			}
			first = op
		}
	}
}

// again looks for records that are written once and have another version than their first: what wrote
// them was applied a second time. No workload deletes.
func (r *run) again(g *group) {
	look := func(c history.Cell, by string) {
		if c.Version <= 1 || !once(c.Key) {
			return
		}
		// The data may have been lost in between.
		for _, w := range g.writers[cellID{idOf(c), c.Value}] {
			last := w.attempts[len(w.attempts)-1]
			if touches(r.eras, w.call, max(last.Return, last.Call)) {
				return
			}
		}
		r.violate(Violation{
			Invariant: "INV7", Check: "outcomes", Group: g.name, Ops: []string{by},
			Text: fmt.Sprintf("%s saw version %d of %s, which is written once", by, c.Version, cellText(c)),
		})
	}
	for _, op := range g.reads {
		for _, c := range op.Cells {
			look(c, op.ID)
		}
	}
	for _, c := range g.commits {
		if c.outcome != applied {
			continue
		}
		for _, w := range c.writes {
			if w.Kind == "put" {
				look(history.Cell{Resource: w.Resource, Key: w.Key, Value: w.Value, Version: w.Version}, c.id())
			}
		}
	}
	for _, c := range g.final {
		look(c, "end")
	}
}
