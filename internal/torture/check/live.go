package check

import (
	"fmt"
	"slices"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// Live counts while a run goes on, and finds what needs no search, so that the run can stop at the
// first catch. The zero value is ready. It is not safe for concurrent use. It sees less than Check.
type Live struct {
	figures    Figures
	violations []Violation

	locksLost, dataLost bool
	draws               map[liveNumber]string  // by number, the grant that it was drawn for
	numbers             map[liveNumber]sight   // who was granted a number
	holders             map[string]liveHolder  // the last grant of each resource
	keys                map[[2]string]string   // by group and key: the op that was applied
	told                map[[2]string]newest   // by group and key: the op that was first told applied
	bases               map[liveBase]string    // the op that was applied to a version of a record
	ended               map[grantID]newest     // the op that released a grant
	newest              map[string]newest      // the highest grant of each resource
	leases              map[string][]liveLease // the last ones of each resource
}

type (
	liveNumber struct {
		resource string
		number   int64
	}
	sight  struct{ grant, op string }
	newest struct {
		number, ret int64
		op          string
	}
	liveHolder struct {
		grant, op string
		releasing bool
	}
	liveBase struct {
		recordID
		value   string
		version int64
	}
)

// Add takes a line that a client has written down: a call, and the same call when it was answered.
// Calls count when they are answered.
func (l *Live) Add(op history.Op) {
	if l.numbers == nil {
		l.numbers, l.holders = make(map[liveNumber]sight), make(map[string]liveHolder)
		l.keys, l.bases, l.ended = make(map[[2]string]string), make(map[liveBase]string), make(map[grantID]newest)
		l.newest, l.leases = make(map[string]newest), make(map[string][]liveLease)
		l.told = make(map[[2]string]newest)
	}
	if op.Kind == history.Release && !op.Forged {
		for _, t := range op.Tokens {
			if h, ok := l.holders[t.Resource]; ok && h.grant == t.Grant {
				h.releasing = true
				l.holders[t.Resource] = h
			}
		}
		if op.Return == 0 {
			l.unlease(&op)
		}
	}
	if op.Return == 0 {
		return
	}
	l.figures.call(&op)
	if op.Kind == history.Commit && op.Key != "" && !op.Forged && !l.dataLost {
		l.answer(&op)
	}
	if op.Outcome != applied {
		return
	}
	if (op.Kind == history.Commit || op.Kind == history.Read) && !op.Replayed && !l.dataLost {
		l.stale(&op)
	}
	switch {
	case op.Kind == history.Renew:
		for _, t := range op.Tokens {
			if old, ok := l.ended[grantID{t.Resource, t.Grant}]; ok && old.ret < op.Call && !l.locksLost {
				l.violate("INV11", "forged", &op, fmt.Sprintf("%s renewed a token that %s had released", op.ID, old.op), old.op)
			}
		}
	case op.Forged:
		l.violate("INV10", "forged", &op, fmt.Sprintf("%s, a %s with a token that nobody was granted or that had ended, was served", op.ID, op.Kind))
	case op.Kind == history.Acquire:
		l.takeovers(&op)
		for _, t := range op.Tokens {
			l.grant(&op, t)
		}
	case op.Kind == history.Release:
		for _, t := range op.Tokens {
			if id := (grantID{t.Resource, t.Grant}); l.ended[id].op == "" {
				l.ended[id] = newest{t.Number, op.Return, op.ID}
			}
		}
	case op.Kind == history.Reenter && len(op.Tokens) > 1 && op.Tokens[0] != op.Tokens[1]:
		l.violate("INV1", "forged", &op, fmt.Sprintf("%s re-entered number %d of %s and got number %d", op.ID, op.Tokens[0].Number, op.Tokens[0].Resource, op.Tokens[1].Number))
	case op.Kind == history.Commit && !op.Replayed && !l.dataLost:
		l.commit(&op)
	}
}

// Fault tells of a fault, before it is injected. What it may make a server forget is not looked for
// from then on, for good.
func (l *Live) Fault(f history.Fault) {
	l.locksLost = l.locksLost || slices.Contains(f.Loses, history.LosesLocks)
	l.dataLost = l.dataLost || slices.Contains(f.Loses, history.LosesData) || slices.Contains(f.Loses, history.LosesCommits)
}

// Figures returns what was counted so far: calls, grants, takeovers and refusals; the others only
// Check counts.
func (l *Live) Figures() Figures { return l.figures }

// Violations returns what was found so far.
func (l *Live) Violations() []Violation { return slices.Clone(l.violations) }

func (l *Live) violate(invariant, check string, op *history.Op, text string, ops ...string) {
	l.violations = append(l.violations, Violation{Invariant: invariant, Check: check, Group: op.Group, Text: text, Ops: slices.Compact(append(ops, op.ID))})
}

func (l *Live) grant(op *history.Op, t history.Token) {
	l.figures.Grants++
	l.lease(op, t)
	l.holders[t.Resource] = liveHolder{grant: t.Grant, op: op.ID}
	if n, ok := l.newest[t.Resource]; !ok || n.number < t.Number {
		l.newest[t.Resource] = newest{t.Number, op.Return, op.ID}
	}
	if l.dataLost {
		return
	}
	id := liveNumber{t.Resource, t.Number}
	if old, ok := l.numbers[id]; ok && old.grant != t.Grant {
		l.violate("INV9", "numbers", op, fmt.Sprintf("number %d of %s was granted twice, as %s and %s", t.Number, t.Resource, old.grant, t.Grant), old.op)
	} else if ok && old.op != op.ID {
		l.violate("INV9", "numbers", op, fmt.Sprintf("number %d of %s, grant %s, was answered to %s and to %s", t.Number, t.Resource, t.Grant, old.op, op.ID), old.op)
	} else if !ok {
		l.numbers[id] = sight{t.Grant, op.ID}
	}
}

// takeovers counts from whom an acquire took locks over, before it is noted as the holder.
func (l *Live) takeovers(op *history.Op) {
	from := make(map[string]bool)
	for _, t := range op.Tokens {
		if h, ok := l.holders[t.Resource]; ok && !h.releasing && h.op != op.ID {
			from[h.op] = true
		}
	}
	l.figures.Takeovers += len(from)
}

// stale looks whether a call was sent after a newer grant had been answered.
func (l *Live) stale(op *history.Op) {
	for _, t := range op.Tokens {
		if n, ok := l.newest[t.Resource]; ok && n.number > t.Number && n.ret < op.Call {
			l.violate("INV2", "stale", op, fmt.Sprintf("%s, a %s with number %d of %s, was served although number %d had been granted before it was sent", op.ID, op.Kind, t.Number, t.Resource, n.number), n.op)
		}
	}
}

// answer looks whether a commit was refused after it had been told applied under its key.
func (l *Live) answer(op *history.Op) {
	k := [2]string{op.Group, op.Key}
	switch old, ok := l.told[k]; {
	case !ok && op.Outcome == applied:
		l.told[k] = newest{ret: op.Return, op: op.ID}
	case ok && old.ret < op.Call && behindKey(op):
		l.violate("INV6", "outcomes", op, refusedText(old.op, op), old.op)
	}
}

// commit looks whether a key, or a version of a record, was used twice.
func (l *Live) commit(op *history.Op) {
	if op.Key != "" {
		k := [2]string{op.Group, op.Key}
		if old := l.keys[k]; old != "" && old != op.ID {
			l.violate("INV7", "outcomes", op, fmt.Sprintf("%s and %s were both applied under the key %s, neither as an answer of before", old, op.ID, op.Key), old)
			return
		}
		l.keys[k] = op.ID
	}
	for _, c := range op.Cells {
		if c.Version == 0 && op.Workload == "bank" {
			continue // a balance may come again
		}
		if !slices.ContainsFunc(op.Writes, func(w history.Write) bool { return w.Resource == c.Resource && w.Key == c.Key }) {
			continue
		}
		id := liveBase{idOf(c), c.Value, c.Version}
		if old := l.bases[id]; old != "" && old != op.ID {
			l.violate("INV5", "linearizable", op, fmt.Sprintf("%s and %s were both applied to %s: one of them is lost", old, op.ID, cellText(c)), old)
			return
		}
		l.bases[id] = op.ID
	}
}
