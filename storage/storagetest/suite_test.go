package storagetest_test

import (
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencingtest"
	"github.com/fencegate/fencegate/storage/storagetest"
)

// TestWhole: the store that the broken ones are made from keeps every promise.
func TestWhole(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, harness(nil))
	storagetest.Differential(t, harness(nil))
}

func TestRuleTable(t *testing.T) {
	t.Parallel()
	storagetest.RunRule(t, harness(nil), storagetest.Rule{Set: setMark})
}

// TestBroken: for each promise there is a store that breaks it, and a scenario that
// notices.
func TestBroken(t *testing.T) {
	t.Parallel()
	caught := map[string]bool{}
	for _, c := range broken() {
		for _, name := range c.scenarios {
			caught[name] = true
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range c.scenarios {
				mode := storagetest.Names()[name][0]
				if c.classic {
					mode = fencing.Classic
				}
				// A race is lost now and then, and on a busy machine less often. All other defects
				// show the first time.
				const plays = 20
				var r *recorder
				for n := 0; n < plays && (n == 0 || !r.Failed() && !r.skipped); n++ {
					h := harness(c.breakIt)
					s := h.New(t, mode)
					if c.surface != nil {
						s.Store = c.surface(s.Backend.(*breakable), s.Store)
					}
					r = record(t, func(tb testing.TB) { storagetest.Play(tb, h, name, mode, s) })
				}
				if !r.Failed() || r.skipped {
					t.Errorf("the scenario %q did not notice", name)
				} else {
					t.Logf("%q: %.300s", name, r.texts[0])
				}
			}
			if c.differs {
				if err := storagetest.Differ(t.Context(), harness(c.breakIt), t, fencing.Strict, 300); err == nil {
					t.Error("random sequences did not notice")
				}
			}
		})
	}
	for name := range storagetest.Names() {
		if !caught[name] {
			t.Errorf("no broken store makes the scenario %q fail", name)
		}
	}
}

func setMark(_ testing.TB, s storagetest.Subject, resource string, state fencingtest.State) {
	b := s.Backend.(*breakable)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marks[resource] = state.Seen()
}
