package http_test

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/bench/http"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == http.ServerArgument { // a process that a test started
		os.Exit(http.Serve(os.Args[2:]))
	}
	testenv.Main(m)
}

// A goal's name is its key in the results.
func TestGoalsHaveTheirOwnNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range http.Goals() {
		if seen[g.Name] {
			t.Errorf("two goals are named %q", g.Name)
		}
		seen[g.Name] = true
		if g.Better != report.Lower && g.Target == 0 || g.Better == "" {
			t.Errorf("%s has no goal", g.Name)
		}
	}
	if len(seen) < 13 {
		t.Errorf("%d goals, want all of the issue", len(seen))
	}
}

// Every part runs to its end, finds a figure for each of its goals, and can be drawn. What was
// timed is not looked at. What was counted is: lines are served in order, and nobody is left.
func TestEveryPartFindsItsFigures(t *testing.T) {
	t.Parallel()
	r := report.New(io.Discard)
	http.RunSized(t.Context(), r, "", http.Sizes{
		Runs: 1, Pairs: 10, Slice: 20 * time.Millisecond, Resources: 70, Waiters: 3, Lines: 10, Known: 300, Held: 100, Shared: true,
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
	for _, g := range http.Goals() {
		res := found[g.Name]
		switch {
		case len(res.Runs) == 0 || g.Target > 0 && res.Value <= 0:
			t.Errorf("%s: %v in %d runs, want a figure", g.Name, res.Value, len(res.Runs))
		case (g.Unit == "of all" || g.Unit == "goroutines") && !res.Met:
			t.Errorf("%s: %v, want %v", g.Name, res.Runs, g.Target)
		}
	}
	for _, chart := range r.Charts("http") {
		if _, err := chart.SVG(); err != nil {
			t.Errorf("%s: %v", chart.File, err)
		}
	}
}

func TestUnknownPartIsNamed(t *testing.T) {
	t.Parallel()
	r := report.New(io.Discard)
	http.Run(t.Context(), r, "writes")
	if table := r.Table(); !strings.Contains(table, `"writes"`) {
		t.Errorf("the table does not name the part:\n%s", table)
	}
}

// A server that cannot be what it is told to be says why, and ends.
func TestServerSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"{"}, {`{"Lock":"paper"}`}} {
		if status := http.Serve(args); status != 1 {
			t.Errorf("%q: status %d, want 1", args, status)
		}
	}
}
