package storage_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/storage"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A goal's name is its key in the results.
func TestGoalsHaveTheirOwnNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range storage.Goals() {
		if seen[g.Name] {
			t.Errorf("two goals are named %q", g.Name)
		}
		seen[g.Name] = true
		if g.Target <= 0 || g.Better == "" {
			t.Errorf("%s has no goal", g.Name)
		}
	}
	if len(seen) < 16 {
		t.Errorf("%d goals, want all of the issue", len(seen))
	}
}

// Every part runs to its end, finds a figure for each of its goals, and can be drawn. What
// the figures are is not looked at, but for those that are counted.
func TestEveryPartFindsItsFigures(t *testing.T) {
	t.Parallel()
	r := report.New(io.Discard)
	storage.RunSized(t.Context(), r, "", storage.Sizes{
		Runs: 1, Pairs: 10, Slice: 20 * time.Millisecond, Resources: 20, Marks: 1000, Count: 20, Shared: true,
	})
	if table := r.Table(); strings.Contains(table, "ended early") {
		t.Fatal(table)
	}
	text, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var results []report.Result
	if err := json.Unmarshal(text, &results); err != nil {
		t.Fatal(err)
	}
	found := map[string]report.Result{}
	for _, res := range results {
		found[res.Name] = res
	}
	for _, g := range storage.Goals() {
		if res := found[g.Name]; len(res.Runs) == 0 || res.Value <= 0 {
			t.Errorf("%s: %v in %d runs, want a figure", g.Name, res.Value, len(res.Runs))
		}
	}
	for _, chart := range r.Charts("storage") {
		if _, err := chart.SVG(); err != nil {
			t.Errorf("%s: %v", chart.File, err)
		}
	}
}

func TestUnknownPartIsNamed(t *testing.T) {
	t.Parallel()
	r := report.New(io.Discard)
	storage.Run(t.Context(), r, "postgre")
	if table := r.Table(); !strings.Contains(table, `"postgre"`) {
		t.Errorf("the table does not name the part:\n%s", table)
	}
}
