package workload_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/storage"
)

// TestChecked: the checkers find nothing in what the workloads write down, with lost replies and without, and decide
// everything; and they find a store that lets stale writes pass.
func TestChecked(t *testing.T) {
	t.Parallel()
	for _, w := range workload.All() {
		for what, with := range map[string]func(*storage.Store) workload.Store{
			"well":     nil,
			"lossy":    func(s *storage.Store) workload.Store { return lossy{s, 0.2} },
			"careless": func(s *storage.Store) workload.Store { return careless{s} },
		} {
			t.Run(w.Name()+" "+what, func(t *testing.T) {
				t.Parallel()
				open := func(t *testing.T) workload.Access { t.Helper(); return access(t, with) }
				if w.Name() == "table" {
					if what != "well" {
						return // it does not go through the store
					}
					open = tables
				}
				until := enough
				if what == "careless" {
					until = passed
				}
				h := &history.History{Began: history.Now(), FinalRead: true}
				b, initial, final := work(t, w.Name(), open(t), options, 1500*time.Millisecond, until)
				h.Ended, h.Initial, h.Final, h.Ops = history.Now(), initial, final, b.all()
				got := check.Check(h, nil)
				if got.Undecided > 0 || got.Takeovers == 0 || got.StaleRefused == 0 && what != "careless" {
					t.Errorf("%+v", got.Figures)
				}
				if what == "careless" {
					if !slices.ContainsFunc(got.Violations, func(v check.Violation) bool { return v.Check == "forged" }) {
						t.Error("nothing was found")
					}
					return
				}
				for _, v := range got.Violations {
					t.Errorf("%s %s %s: %s %v", v.Invariant, v.Check, v.Group, v.Text, v.Ops)
				}
			})
		}
	}
}
