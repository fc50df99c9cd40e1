package check_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
)

// watch feeds a history to a Live line by line, as clients write it, and what it says of faults.
func watch(h *history.History) *check.Live {
	type line struct {
		at    int64
		op    *history.Op
		fault *history.Fault
		ret   bool
	}
	var lines []line
	for i := range h.Ops {
		op := &h.Ops[i]
		lines = append(lines, line{at: op.Call, op: op})
		if op.Return != 0 {
			lines = append(lines, line{at: op.Return, op: op, ret: true})
		}
	}
	for i := range h.Faults {
		lines = append(lines, line{at: h.Faults[i].From, fault: &h.Faults[i]})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	l := new(check.Live)
	for _, x := range lines {
		switch {
		case x.fault != nil:
			l.Fault(*x.fault)
		case x.ret:
			l.Add(*x.op)
		default:
			call := *x.op
			call.Return, call.Outcome = 0, ""
			if call.Kind == history.Acquire {
				call.Tokens = nil
			}
			l.Add(call)
		}
	}
	return l
}

// TestLiveRight: nothing is found in what is right, and the figures are those of Check.
func TestLiveRight(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"", "pause", "kill", "restore", "forget"} {
		for seed := range uint64(4) {
			h, _ := simulate(plan{seed: seed, fault: fault})
			l := watch(h)
			for _, v := range l.Violations() {
				t.Errorf("fault %q, seed %d: %+v", fault, seed, v)
			}
			got, want := l.Figures(), check.Check(h, nil).Figures
			if got.Applied != want.Applied || got.Refused != want.Refused || got.StaleRefused != want.StaleRefused || got.Grants != want.Grants || got.Takeovers != want.Takeovers {
				t.Errorf("fault %q, seed %d: got %+v, want %+v", fault, seed, got, want)
			}
		}
	}
}

// TestLiveWrong: what needs no search is found at once.
func TestLiveWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		check, invariant string
		wrong            func(b *book)
	}{
		{"forged", "INV10", func(b *book) { b.op("set.3.commit").Forged = true }},
		{"forged", "INV11", func(b *book) {
			b.add(history.Op{ID: "renew", Kind: history.Renew, Workload: "set", Group: "set", Tokens: tokens("set", 3)})
		}},
		{"forged", "INV1", func(b *book) {
			b.add(history.Op{ID: "reenter", Kind: history.Reenter, Workload: "set", Group: "set", Tokens: []history.Token{tokens("set", 3)[0], tokens("set", 4)[0]}})
		}},
		{"numbers", "INV9", func(b *book) { b.op("set.3.acquire").Tokens[0].Number = 2 }},
		{"numbers", "INV9", func(b *book) {
			b.Faults = append(b.Faults, history.Fault{Name: "forget", From: 1, To: 2, Loses: []history.Loss{history.LosesLocks}})
			b.op("set.3.acquire").Tokens[0].Number = 2
		}},
		{"numbers", "INV9", func(b *book) { b.op("set.3.acquire").Tokens = tokens("set", 2) }},
		{"forged", "INV10", func(b *book) {
			c := b.op("set.3.commit")
			c.Forged, c.Replayed = true, true
		}},
		{"stale", "INV2", func(b *book) { b.op("set.3.commit").Tokens = tokens("set", 2) }},
		{"trust", "INV9", func(b *book) { b.op("set.2.acquire").Return = b.op("set.1.release").Call - 1 }},
		{"outcomes", "INV7", func(b *book) { b.op("coupon.2.commit").Key = "coupon.1.commit" }},
		{"outcomes", "INV6", func(b *book) {
			op := *b.op("coupon.1.commit")
			op.ID, op.Outcome, op.Reason, op.Writes = "again", "refused", "superseded", nil
			b.add(op)
		}},
		{"linearizable", "INV5", func(b *book) { b.op("register.3.commit").Cells = b.op("register.2.commit").Cells }},
	} {
		b := good()
		tc.wrong(b)
		all := watch(&b.History).Violations()
		if !slices.ContainsFunc(all, func(v check.Violation) bool { return v.Check == tc.check && v.Invariant == tc.invariant }) {
			t.Errorf("%s %s is not found: %+v", tc.check, tc.invariant, all)
		}
	}
}

// TestLiveSubset: what is found on the way Check finds, too.
func TestLiveSubset(t *testing.T) {
	t.Parallel()
	found := 0
	for _, bug := range []string{"stale", "forged", "revive", "bump", "number-twice", "duplicate", "twice", "drop"} {
		for _, fault := range []string{"", "pause", "restore", "forget"} {
			h, _ := simulate(plan{seed: 3, bug: bug, fault: fault, groups: 1, ops: 1000})
			all := check.Check(h, &check.Options{Pictures: -1}).Violations
			for _, v := range watch(h).Violations() {
				found++
				if !slices.ContainsFunc(all, func(o check.Violation) bool { return o.Check == v.Check && o.Group == v.Group }) {
					t.Errorf("bug %s, fault %q: only Live finds %+v", bug, fault, v)
				}
			}
		}
	}
	if found == 0 {
		t.Error("nothing was found")
	}
}
