package sqlitestore_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/prune/prunetest"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// older makes the mark of a resource two hours older, or all of them.
func older(tb testing.TB, b *sqlitestore.Backend, resource string) {
	tb.Helper()
	b.Exec(tb, "UPDATE fencegate_marks SET changed_at = changed_at - 7200 WHERE ?1 IN ('', resource)", resource)
}

// agedMarks makes every mark that is written from here on two hours old.
func agedMarks(tb testing.TB, b *sqlitestore.Backend) {
	tb.Helper()
	for _, when := range []string{"INSERT", "UPDATE OF changed_at"} {
		b.Exec(tb, "CREATE TRIGGER aged_"+when[:6]+" AFTER "+when+` ON fencegate_marks WHEN new.changed_at > unixepoch() - 3600
			BEGIN UPDATE fencegate_marks SET changed_at = new.changed_at - 7200 WHERE resource = new.resource; END`)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	prunetest.Run(t, func(tb testing.TB) prunetest.Subject {
		b := openNew(tb)
		b.Exec(tb, "PRAGMA synchronous = OFF") // what a crash keeps is not asked here
		return prunetest.Subject{
			Pruner: b,
			Old:    func(tb testing.TB, resource string) { tb.Helper(); older(tb, b, resource) },
			Inherit: func(tb testing.TB, resource string) {
				tb.Helper()
				b.Exec(tb, "UPDATE fencegate_marks SET incarnation = 'earlier' WHERE resource = ?1", resource)
			},
			Aged:   func(tb testing.TB) { tb.Helper(); agedMarks(tb, b) },
			Plain:  sqlitestore.ErrPlain,
			Grants: 20,
		}
	})
}

// TestPruneAfterReopen: the marks of an earlier run are retired, and what they were pruned to
// outlives the run that did it.
func TestPruneAfterReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	first := open(t, path)
	held := raised(t, first, "r", 7)
	older(t, first, "")
	if n, err := first.Prune(t.Context(), time.Hour, nil); n != 0 || err != nil {
		t.Errorf("a live mark: dropped %d, %v, want 0", n, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, path)
	if n, err := second.Prune(t.Context(), time.Hour, nil); n != 1 || err != nil {
		t.Errorf("a mark of an earlier run: dropped %d, %v, want 1", n, err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	third := open(t, path)
	if m, err := third.Mark(t.Context(), "r"); err != nil || m != fencing.Absent(7) {
		t.Errorf("got the mark %v, %v, want the floor 7", m, err)
	}
	if err := third.Raise(t.Context(), held); err == nil {
		t.Error("a token of the first run was raised in the third")
	}
	raised(t, third, "r", 8)
}

// TestPruneStepFails: a step is done as a whole or not at all, and the floor is never behind.
func TestPruneStepFails(t *testing.T) {
	t.Parallel()
	for what, trigger := range map[string]string{
		"the floor": "BEFORE UPDATE ON fencegate_meta",
		"the drop":  "BEFORE DELETE ON fencegate_marks",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := openNew(t)
			if err := b.Evict(t.Context(), token("r", 5)); err != nil {
				t.Fatal(err)
			}
			older(t, b, "r")
			b.Exec(t, "CREATE TRIGGER no "+trigger+" BEGIN SELECT raise(ABORT, 'no'); END")
			n, err := b.Prune(t.Context(), time.Hour, nil)
			if n != 0 || fencing.OutcomeOf(err) != fencing.Failed {
				t.Errorf("got %d, %v, want failed", n, err)
			}
			if m, err := b.Mark(t.Context(), "r"); err != nil || m != (fencing.Mark{Number: 5, Retired: true}) {
				t.Errorf("got the mark %v, %v, want 5 as it was", m, err)
			}
			if m, err := b.Mark(t.Context(), "none"); err != nil || m != fencing.Absent(0) {
				t.Errorf("got the floor %v, %v, want 0", m, err)
			}
		})
	}
}
