package check_test

import (
	"testing"

	"github.com/fencegate/fencegate/internal/torture/check"
)

// BenchmarkCheck is of a run of 100,000 calls on 112 groups; of one in which a process stood still;
// and of one on few groups, each of which has many calls.
func BenchmarkCheck(b *testing.B) {
	for _, bc := range []struct {
		name string
		plan plan
	}{
		{"right", plan{groups: 16, ops: 100_000}},
		{"pause", plan{groups: 16, ops: 100_000, fault: "pause"}},
		{"restore", plan{groups: 16, ops: 100_000, fault: "restore"}},
		{"long", plan{groups: 2, ops: 100_000}},
		{"wrong", plan{groups: 16, ops: 100_000, bug: "stale", fault: "pause"}},
	} {
		h, _ := simulate(bc.plan)
		b.Run(bc.name, func(b *testing.B) {
			for b.Loop() {
				check.Check(h, nil)
			}
			b.ReportMetric(float64(len(h.Ops)), "calls")
		})
	}
}
