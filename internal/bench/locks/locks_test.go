package locks_test

import (
	"testing"

	"github.com/fencegate/fencegate/internal/bench/locks"
)

// A goal's name is its key in the results.
func TestGoalsHaveTheirOwnNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range locks.Goals() {
		if seen[g.Name] {
			t.Errorf("two goals are named %q", g.Name)
		}
		seen[g.Name] = true
		if g.Target <= 0 || g.Better == "" {
			t.Errorf("%s has no goal", g.Name)
		}
	}
	if len(seen) < 20 {
		t.Errorf("%d goals, want all of the issue", len(seen))
	}
}
