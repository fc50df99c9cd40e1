package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// numbers checks what was granted: no number twice, and a later grant has a higher one, unless the
// store has lost data since. What the lock store forgets does not matter: a lease is answered only when
// its token is raised in the store, which refuses a number that it has seen.
func (r *run) numbers() {
	until := int64(math.MaxInt64)
	if len(r.eras) > 0 {
		until = r.eras[0].from
	}
	for _, resource := range r.holds {
		r.numbersOf(resource, until)
	}
}

func (r *run) numbersOf(resource string, until int64) {
	first := make(map[int64]*grant)
	answered := r.byHold[resource]
	called := slices.Clone(answered)
	slices.SortStableFunc(called, func(a, b *grant) int { return cmp.Compare(a.op.Call, b.op.Call) })
	var highest *grant
	n := 0
	tokens := make(map[history.Token]*grant)
	for _, b := range called {
		bad := func(a *grant, text string) {
			r.violate(Violation{Invariant: "INV9", Check: "numbers", Group: r.groupOf(resource), Ops: []string{a.op.ID, b.op.ID}, Text: text})
		}
		// A grant is of one call, whatever was lost.
		if a := tokens[b.Token]; a != nil {
			bad(a, fmt.Sprintf("number %d of %s, grant %s, was answered to %s and to %s", b.Number, resource, b.Grant, a.op.ID, b.op.ID))
		}
		tokens[b.Token] = b
		if b.op.Return >= until {
			continue
		}
		if a := first[b.Number]; a == nil {
			first[b.Number] = b
		} else if a.Grant != b.Grant {
			bad(a, fmt.Sprintf("number %d of %s was granted twice, as %s and %s", b.Number, resource, a.Grant, b.Grant))
		}
		for ; n < len(answered) && answered[n].op.Return < b.op.Call; n++ {
			if a := answered[n]; highest == nil || a.Number > highest.Number {
				highest = a
			}
		}
		if a := highest; a != nil && a.Number > b.Number && a.Grant != b.Grant {
			bad(a, fmt.Sprintf("%s was granted number %d after number %d", resource, b.Number, a.Number))
		}
	}
}

// writers checks that under one number only one grant's commits were applied, whatever the lock
// store forgot, as long as no data is lost.
func (r *run) writers() {
	type numberID struct {
		resource string
		number   int64
		era      int
	}
	type writer struct{ grant, op string }
	for _, g := range r.groups {
		first := make(map[numberID]writer)
		for _, c := range g.commits {
			if c.outcome != applied {
				continue
			}
			era, ok := r.era(c.call, c.ret)
			if !ok {
				continue
			}
			for _, of := range c.attempts[0].Tokens {
				t, ok := c.token(of.Resource)
				if !ok {
					continue
				}
				id := numberID{t.Resource, t.Number, era}
				w, known := first[id]
				if !known {
					first[id] = writer{t.Grant, c.id()}
				} else if w.grant != t.Grant {
					r.violate(Violation{
						Invariant: "INV1", Check: "numbers", Group: g.name, Ops: []string{w.op, c.id()},
						Text: fmt.Sprintf("%s and %s were applied under number %d of %s, of grants %s and %s", w.op, c.id(), t.Number, t.Resource, w.grant, t.Grant),
					})
				}
			}
		}
	}
}
