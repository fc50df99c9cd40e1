package check_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
)

// TestRight: no history of the simulation is objected to.
func TestRight(t *testing.T) {
	t.Parallel()
	seeds := uint64(200)
	if testing.Short() {
		seeds = 40
	}
	for _, fault := range []string{"", "pause", "kill", "restore", "forget"} {
		t.Run("fault="+fault, func(t *testing.T) {
			t.Parallel()
			var sum check.Figures
			for seed := range seeds / 5 {
				h, _ := simulate(plan{seed: seed, fault: fault, ops: 1000, resend: seed%2 == 1})
				res := check.Check(h, nil)
				for _, v := range res.Violations {
					t.Errorf("seed %d: %s %s %s: %s %v", seed, v.Invariant, v.Check, v.Group, v.Text, v.Ops)
				}
				if res.Undecided > 0 || res.Histories != 14 {
					t.Errorf("seed %d: %d histories, %d undecided", seed, res.Histories, res.Undecided)
				}
				if res.Takeovers == 0 || res.StaleRefused == 0 || res.ForgedRefused == 0 {
					t.Errorf("seed %d: %+v", seed, res.Figures)
				}
				if t.Failed() {
					return
				}
				sum.Ambiguous += res.Ambiguous
				sum.Resolved += res.Resolved
				sum.PausedTakeovers += res.PausedTakeovers
			}
			if sum.Ambiguous == 0 || sum.Resolved == 0 || fault == "pause" && sum.PausedTakeovers == 0 {
				t.Errorf("too little happened: %+v", sum)
			}
		})
	}
}

// TestBugs: what goes wrong in the lock or the store is caught, by the checks that are named.
func TestBugs(t *testing.T) {
	t.Parallel()
	all := []string{"register", "bank", "task", "log", "table", "set", "coupon"}
	for _, tc := range []struct {
		bug, fault string
		work       []string
		checks     []string // one of them at least
		ops        int
	}{
		{"drop", "", []string{"register"}, []string{"linearizable"}, 0},
		{"drop", "", []string{"bank"}, []string{"linearizable"}, 0},
		{"drop", "", []string{"task"}, []string{"linearizable"}, 0},
		{"drop", "", []string{"log"}, []string{"linearizable"}, 0},
		{"drop", "", []string{"table"}, []string{"linearizable"}, 0},
		{"drop", "", []string{"set"}, []string{"outcomes"}, 0},
		{"drop", "", []string{"coupon"}, []string{"coupon"}, 0},
		{"stale", "pause", []string{"register"}, []string{"linearizable"}, 0},
		{"stale", "pause", []string{"bank"}, []string{"linearizable"}, 0},
		{"stale", "pause", []string{"log"}, []string{"epochs"}, 0},
		{"stale", "pause", []string{"table"}, []string{"epochs"}, 0},
		{"stale", "pause", []string{"set"}, []string{"stale"}, 0},
		{"stale", "pause", []string{"task"}, []string{"stale"}, 0},
		{"half", "", []string{"bank"}, []string{"accounts"}, 0},
		{"half", "", []string{"task"}, []string{"accounts"}, 0},
		{"half", "", []string{"log"}, []string{"outcomes"}, 0},
		{"half", "", []string{"coupon"}, []string{"coupon"}, 0},
		{"refused-applied", "", []string{"register"}, []string{"outcomes"}, 0},
		{"refused-applied", "", []string{"set"}, []string{"outcomes"}, 0},
		{"failed-applied", "", []string{"log"}, []string{"outcomes"}, 0},
		{"failed-applied", "", []string{"table"}, []string{"outcomes"}, 0},
		{"twice", "", []string{"coupon"}, []string{"coupon"}, 6000},
		{"no-audit", "", []string{"table"}, []string{"outcomes"}, 0},
		{"audit-twice", "", []string{"table"}, []string{"outcomes"}, 0},
		{"stale-read", "", []string{"register"}, []string{"linearizable"}, 0},
		{"stale-read", "", []string{"bank"}, []string{"linearizable"}, 0},
		{"forged", "", []string{"set"}, []string{"forged"}, 0},
		{"revive", "", all, []string{"forged"}, 0},
		{"bump", "", all, []string{"forged"}, 0},
		{"two-holders", "", all, []string{"trust"}, 0},
		{"number-twice", "", all, []string{"numbers"}, 0},
		{"number-back", "", []string{"register"}, []string{"numbers"}, 0},
		{"duplicate", "forget", []string{"register", "task"}, []string{"numbers"}, 0},
		{"incarnation", "restore", []string{"register", "task"}, []string{"incarnation"}, 0},
	} {
		t.Run(fmt.Sprintf("%s/%s", tc.bug, tc.work[0]), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(10) {
				h, struck := simulate(plan{seed: seed, bug: tc.bug, fault: tc.fault, work: tc.work, groups: 1 + len(tc.fault), ops: cmp.Or(tc.ops, 1000)})
				res := check.Check(h, &check.Options{Pictures: -1})
				found := make(map[string]bool)
				for _, v := range res.Violations {
					found[v.Check] = true
				}
				if !slices.ContainsFunc(tc.checks, func(c string) bool { return found[c] }) {
					t.Errorf("seed %d: struck %d times, found %v, want one of %v", seed, struck, found, tc.checks)
				}
			}
		})
	}
}

// TestMutations: one thing that is changed in a right history is caught, by the check that is named.
func TestMutations(t *testing.T) {
	t.Parallel()
	// pick draws one of the calls that fit.
	pick := func(h *history.History, rnd *rand.Rand, fits func(op *history.Op) bool) *history.Op {
		var all []*history.Op
		for i := range h.Ops {
			if fits(&h.Ops[i]) {
				all = append(all, &h.Ops[i])
			}
		}
		return all[rnd.IntN(len(all))]
	}
	commit := func(outcome string) func(op *history.Op) bool {
		return func(op *history.Op) bool {
			return op.Kind == history.Commit && op.Outcome == outcome && !op.Forged && !op.Replayed
		}
	}
	for _, tc := range []struct {
		name, work, check string
		mutate            func(h *history.History, rnd *rand.Rand)
	}{
		{"two sums swapped", "coupon", "coupon", func(h *history.History, rnd *rand.Rand) {
			a := pick(h, rnd, commit("applied"))
			b := pick(h, rnd, func(op *history.Op) bool {
				return commit("applied")(op) && op.Call > a.Return || op.Return < a.Call && commit("applied")(op)
			})
			a.Writes, b.Writes = slices.Clone(a.Writes), slices.Clone(b.Writes)
			a.Writes[0].Counter, b.Writes[0].Counter = b.Writes[0].Counter, a.Writes[0].Counter
		}},
		{"a read of before", "register", "linearizable", func(h *history.History, rnd *rand.Rand) {
			reads := func(op *history.Op) bool { return op.Kind == history.Read && op.Outcome == "applied" }
			a := pick(h, rnd, reads)
			b := pick(h, rnd, func(op *history.Op) bool { return reads(op) && op.Cells[0] != a.Cells[0] })
			a.Cells = b.Cells
		}},
		{"refused is called applied", "set", "outcomes", func(h *history.History, rnd *rand.Rand) { pick(h, rnd, commit("refused")).Outcome = "applied" }},
		{"applied is called refused", "set", "outcomes", func(h *history.History, rnd *rand.Rand) { pick(h, rnd, commit("applied")).Outcome = "refused" }},
		{"applied is called failed", "log", "outcomes", func(h *history.History, rnd *rand.Rand) { pick(h, rnd, commit("applied")).Outcome = "failed" }},
		{"a token of another", "task", "stale", func(h *history.History, rnd *rand.Rand) {
			a := pick(h, rnd, func(op *history.Op) bool { return commit("applied")(op) && op.Tokens[0].Number > 1 })
			b := pick(h, rnd, func(op *history.Op) bool {
				return op.Kind == history.Acquire && op.Outcome == "applied" && op.Tokens[0].Number < a.Tokens[0].Number
			})
			a.Tokens = b.Tokens
		}},
		{"a record is lost", "log", "outcomes", func(h *history.History, rnd *rand.Rand) {
			i := rnd.IntN(len(h.Final))
			h.Final = slices.Delete(h.Final, i, i+1)
		}},
		{"a row is lost", "table", "outcomes", func(h *history.History, rnd *rand.Rand) {
			i := rnd.IntN(len(h.Final))
			h.Final = slices.Delete(h.Final, i, i+1)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(10) {
				h, _ := simulate(plan{seed: seed, work: []string{tc.work}, groups: 1, ops: 500})
				tc.mutate(h, rand.New(rand.NewPCG(seed, 7)))
				res := check.Check(h, &check.Options{Pictures: -1})
				if !slices.ContainsFunc(res.Violations, func(v check.Violation) bool { return v.Check == tc.check }) {
					t.Errorf("seed %d: want %s, got %s", seed, tc.check, texts(res))
				}
			}
		})
	}
}
