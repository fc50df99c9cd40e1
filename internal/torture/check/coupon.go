package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// tally is a sight of a counter: the sum that an applied add came to, or that a read saw.
type tally struct {
	id        string
	add       bool
	sum       int64
	call, ret int64
}

// coupon checks a stock and its receipts. Linearizability needs no search here, for the stock only
// falls: every sum is come to by one add, a later add comes to a lower one, a read sees none that is
// lower than before or higher than after, and a sum is no lower than all adds that were called make
// it. Who is refused below the minimum has seen none left. In the end stock and receipts make up what was there at the beginning, whatever was unknown.
func (r *run) coupon(g *group) {
	if g.workload != "coupon" {
		return
	}
	stock := recordID{g.name, "stock"}
	for _, s := range r.spans() {
		r.falls(g, stock, s)
	}
	if r.FinalRead {
		r.receipts(g, stock)
	}
}

// falls checks the sums within an era.
func (r *run) falls(g *group, stock recordID, s span) {
	all, called := g.tallies(stock, s)
	if s.last && r.FinalRead {
		for _, c := range g.final {
			if sum, err := strconv.ParseInt(c.Value, 10, 64); idOf(c) == stock && err == nil {
				all = append(all, tally{id: "end", sum: sum, call: math.MaxInt64 - 1, ret: math.MaxInt64})
			}
		}
	}
	bad := func(a, b tally, text string) {
		r.violate(Violation{Invariant: "INV5", Check: "coupon", Group: g.name, Ops: []string{a.id, b.id}, Text: text})
	}
	adds := make(map[int64]tally)
	for _, a := range all {
		if a.sum < 0 {
			bad(a, a, fmt.Sprintf("%s saw a stock of %d, its minimum is 0", a.id, a.sum))
		}
		if !a.add {
			continue
		}
		if b, ok := adds[a.sum]; ok {
			bad(b, a, fmt.Sprintf("%s and %s both took the stock to %d: one of them is lost", b.id, a.id, a.sum))
		}
		adds[a.sum] = a
	}
	// In order of their calls, each against the lowest sum of those that were answered before it.
	answered := slices.Clone(all)
	slices.SortFunc(answered, func(a, b tally) int { return cmp.Compare(a.ret, b.ret) })
	lowest := tally{sum: math.MaxInt64}
	n := 0
	for _, a := range all {
		for ; n < len(answered) && answered[n].ret < a.call; n++ {
			if answered[n].sum < lowest.sum {
				lowest = answered[n]
			}
		}
		if a.sum > lowest.sum || a.add && a.sum == lowest.sum {
			bad(lowest, a, fmt.Sprintf("%s saw a stock of %d after %s had seen %d", a.id, a.sum, lowest.id, lowest.sum))
		}
	}
	start, ok := g.seeded(stock)
	if !ok || !s.first {
		return
	}
	// How low it may be: all that was called by then was taken.
	at := 0
	taken := int64(0)
	for _, a := range answered {
		for ; at < len(called) && called[at].call <= a.ret; at++ {
			taken += called[at].sum
		}
		if a.sum < start-taken {
			bad(a, a, fmt.Sprintf("%s saw a stock of %d, all that was called until then took at most %d of %d", a.id, a.sum, taken, start))
		}
		if a.add && a.sum >= start {
			bad(a, a, fmt.Sprintf("%s took from a stock of %d and left %d", a.id, start, a.sum))
		}
	}
}

// tallies returns the sights of a counter in an era, and what the adds that may have been applied
// in it took, both by call.
func (g *group) tallies(stock recordID, s span) (all, called []tally) {
	for _, op := range g.reads {
		for _, c := range op.Cells {
			sum, err := strconv.ParseInt(c.Value, 10, 64)
			if idOf(c) == stock && err == nil && op.Call >= s.from && op.Return <= s.to {
				all = append(all, tally{op.ID, false, sum, op.Call, op.Return})
			}
		}
	}
	for _, c := range g.commits {
		all = append(all, c.soldOut(stock, s)...)
		if !c.mayBe() {
			continue
		}
		for _, w := range c.writes {
			if w.Kind != "add" || (recordID{w.Resource, w.Key}) != stock {
				continue
			}
			called = append(called, tally{c.id(), true, -w.Delta, c.call, c.ret})
			if c.outcome == applied && c.call >= s.from && c.ret <= s.to {
				all = append(all, tally{c.id(), true, w.Counter, c.call, c.ret})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b tally) int { return cmp.Compare(a.call, b.call) })
	return all, called
}

// soldOut is what a refusal below the minimum tells: that there were too few at that time.
func (c *commit) soldOut(stock recordID, s span) (all []tally) {
	for _, op := range c.attempts {
		if op.Forged || op.Outcome != refused || op.Reason != "below-minimum" || c.call < s.from || op.Return > s.to {
			continue
		}
		for _, w := range op.Writes {
			if w.Kind == "add" && (recordID{w.Resource, w.Key}) == stock {
				all = append(all, tally{op.ID, false, w.Min - w.Delta - 1, c.call, op.Return})
			}
		}
	}
	return all
}

// seeded returns what a counter began with.
func (g *group) seeded(id recordID) (int64, bool) {
	for _, c := range g.initial {
		if idOf(c) == id {
			n, err := strconv.ParseInt(c.Value, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// receipts checks that what was taken and what is left are what was there. That holds across a loss of data,
// too: an older copy of a store is of one moment. Only in one that was emptied there is neither.
func (r *run) receipts(g *group, stock recordID) {
	start, ok := g.seeded(stock)
	if !ok {
		return
	}
	there := make(map[string]bool)
	left, found := int64(0), false
	for _, c := range g.final {
		switch {
		case idOf(c) == stock:
			n, err := strconv.ParseInt(c.Value, 10, 64)
			left, found = n, err == nil
		case strings.HasPrefix(c.Key, "receipt."):
			there[c.Key] = true
		}
	}
	if !found && len(there) == 0 && len(r.eras) > 0 {
		return
	}
	v := Violation{Check: "coupon", Group: g.name}
	taken := start - left
	switch n := int64(len(there)); {
	case !found:
		v.Invariant, v.Text = "INV6", "there is no stock in the end"
	case taken > n:
		v.Invariant = "INV7"
		v.Text = fmt.Sprintf("%d were taken from the stock, and there are %d receipts: some were taken twice, or half a commit was applied", taken, n)
	case taken < n:
		v.Invariant = "INV5"
		v.Text = fmt.Sprintf("%d were taken from the stock, and there are %d receipts: what some commits took is lost", taken, n)
	default:
		return
	}
	r.violate(v)
}
