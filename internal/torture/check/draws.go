package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// draws checks the numbers as the lock store drew them, before the stores could correct it: none twice, and increasing in
// the order of time (INV9). From the first fault on that makes a lock store forget they say nothing.
func (r *run) draws() {
	until := int64(never)
	for _, w := range windowsOf(r.Faults, history.LosesLocks) {
		until = min(until, w.from)
	}
	of := make(map[string][]*history.Draw)
	for i := range r.Draws {
		if d := &r.Draws[i]; d.Return < until {
			of[d.Token.Resource] = append(of[d.Token.Resource], d)
		}
	}
	for resource, list := range of {
		r.drawsOf(resource, list)
	}
}

func (r *run) drawsOf(resource string, list []*history.Draw) {
	report := func(text string, args ...any) {
		r.violate(Violation{Invariant: "INV9", Check: "draws", Group: resource, Text: fmt.Sprintf(text, args...)})
	}
	grants := make(map[int64]string)
	for _, d := range list {
		if g, twice := grants[d.Token.Number]; twice && g != d.Token.Grant {
			report("the lock store drew %d for two grants, of which client %d has the second", d.Token.Number, d.Process)
		}
		grants[d.Token.Number] = d.Token.Grant
	}
	// By the time of the calls, beside the highest number that was answered before each.
	byReturn := slices.Clone(list)
	slices.SortFunc(byReturn, func(a, b *history.Draw) int { return cmp.Compare(a.Return, b.Return) })
	slices.SortFunc(list, func(a, b *history.Draw) int { return cmp.Compare(a.Call, b.Call) })
	var highest *history.Draw
	next := 0
	for _, d := range list {
		for next < len(byReturn) && byReturn[next].Return < d.Call {
			if highest == nil || byReturn[next].Token.Number > highest.Token.Number {
				highest = byReturn[next]
			}
			next++
		}
		if highest != nil && d.Token.Number <= highest.Token.Number && d.Token != highest.Token {
			report("the lock store drew %d for client %d, after client %d had been told %d", d.Token.Number, d.Process, highest.Process, highest.Token.Number)
		}
	}
}

// Draw takes a number that the lock store has drawn: one for two grants ends the run.
func (l *Live) Draw(d history.Draw) {
	if l.locksLost {
		return
	}
	if l.draws == nil {
		l.draws = make(map[liveNumber]string)
	}
	id := liveNumber{d.Token.Resource, d.Token.Number}
	if g, twice := l.draws[id]; twice && g != d.Token.Grant {
		l.violations = append(l.violations, Violation{
			Invariant: "INV9", Check: "draws", Group: d.Token.Resource,
			Text: fmt.Sprintf("the lock store drew %d for two grants, of which client %d has the second", d.Token.Number, d.Process),
		})
	}
	l.draws[id] = d.Token.Grant
}
