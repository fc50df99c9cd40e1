package report_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/report"
)

// of is a run of faults on redis+postgres.
func of(verdict, version string, faults ...string) report.Run {
	return report.Run{
		Time: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), Version: version, Lock: "redis", Store: "postgres", Faults: faults, Verdict: verdict, Seed: 7,
		Machine: "linux/amd64", Figures: check.Figures{StaleRefused: 1000, Takeovers: 10, Ops: 5},
	}
}

func violated(version, invariant string, faults ...string) report.Run {
	r := of(report.Violated, version, faults...)
	r.Violations = []check.Violation{{Invariant: invariant, Check: "linearizable"}}
	return r
}

func later(r report.Run) report.Run {
	r.Time = r.Time.Add(time.Hour)
	return r
}

// TestSums: only the result that stands counts, and a violation is not run away from.
func TestSums(t *testing.T) {
	t.Parallel()
	type want struct{ kinds, cells, void, unmended, lost, doubled int }
	for name, c := range map[string]struct {
		runs []report.Run
		want want
	}{
		"nothing":                              {nil, want{}},
		"the same cell twice":                  {[]report.Run{of(report.Held, "a", "x"), of(report.Held, "b", "x")}, want{kinds: 1, cells: 1}},
		"two cells of a kind":                  {[]report.Run{of(report.Held, "a", "x"), {Lock: "redis", Store: "redis", Faults: []string{"x"}, Verdict: report.Held}}, want{kinds: 1, cells: 2}},
		"gateways are another cell":            {[]report.Run{of(report.Held, "a", "x"), {Lock: "redis", Store: "postgres", Gateways: 2, Faults: []string{"x"}, Verdict: report.Held}}, want{kinds: 1, cells: 2}},
		"several faults, and none, are none":   {[]report.Run{of(report.Held, "a", "x", "y"), of(report.Held, "a")}, want{}},
		"void last":                            {[]report.Run{of(report.Held, "a", "x"), of(report.Void, "a", "x")}, want{void: 1}},
		"violated last":                        {[]report.Run{of(report.Held, "a", "x"), violated("a", "INV5", "x")}, want{unmended: 1, lost: 1}},
		"doubled":                              {[]report.Run{violated("a", "INV7", "x"), violated("a", "INV6", "y")}, want{unmended: 2, doubled: 2}},
		"held again by the same code":          {[]report.Run{violated("a", "INV5", "x"), of(report.Held, "a", "x")}, want{unmended: 1, lost: 1}},
		"held by the next code":                {[]report.Run{violated("a", "INV5", "x"), of(report.Held, "b", "x")}, want{kinds: 1, cells: 1}},
		"void by the next code":                {[]report.Run{violated("a", "INV5", "x"), of(report.Void, "b", "x")}, want{unmended: 1, lost: 1}},
		"void, then held by the same code":     {[]report.Run{violated("a", "INV5", "x"), of(report.Void, "b", "x"), of(report.Held, "a", "x")}, want{unmended: 1, lost: 1}},
		"void after it was mended":             {[]report.Run{violated("a", "INV5", "x"), of(report.Held, "b", "x"), of(report.Void, "b", "x")}, want{void: 1}},
		"violated, mended, violated":           {[]report.Run{violated("a", "INV5", "x"), of(report.Held, "b", "x"), violated("b", "", "x")}, want{unmended: 1, lost: 1}},
		"of code that is no commit":            {[]report.Run{violated("a+", "INV5", "x"), of(report.Held, "a+", "x")}, want{unmended: 1, lost: 1}},
		"held by code without a name":          {[]report.Run{violated("a", "INV5", "x"), of(report.Held, "b+", "x"), of(report.Held, "unknown", "x"), of(report.Held, "(devel)", "x"), of(report.Held, "", "x")}, want{unmended: 1, lost: 1}},
		"held by what was perhaps no change":   {[]report.Run{violated("a+", "INV5", "x"), of(report.Held, "a", "x")}, want{unmended: 1, lost: 1}},
		"no commit, held by the next commit":   {[]report.Run{violated("a+", "INV5", "x"), of(report.Held, "b", "x")}, want{kinds: 1, cells: 1}},
		"two violations of two codes":          {[]report.Run{violated("a", "INV7", "x"), violated("b", "INV5", "x"), of(report.Held, "a", "x")}, want{unmended: 1, lost: 1, doubled: 1}},
		"merged in another order":              {[]report.Run{later(violated("b", "INV5", "x")), of(report.Held, "c", "x")}, want{unmended: 1, lost: 1}},
		"several faults in another order":      {[]report.Run{violated("a", "INV5", "y", "x"), of(report.Held, "b", "x", "y")}, want{}},
		"a violation of several faults counts": {[]report.Run{violated("a", "INV5", "y", "x"), of(report.Held, "a", "x", "y")}, want{unmended: 1, lost: 1}},
		"violated and the list is empty":       {[]report.Run{of(report.Violated, "a", "x")}, want{unmended: 1, lost: 1}},
	} {
		s := report.Sum(c.runs)
		if got := (want{s.Kinds, s.Cells, s.VoidCells, len(s.Unmended), s.Lost, s.Doubled}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if s.StaleRefused > 1000*s.Held || s.Runs != len(c.runs) || s.Held+s.Violated+s.Void != s.Runs {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestGoals: each is met just at its number, and missed just beside it.
func TestGoals(t *testing.T) {
	t.Parallel()
	met := func() report.Sums {
		var s report.Sums
		s.Runs, s.Held, s.Kinds, s.Cells = 1, 1, 30, 100
		s.StaleRefused, s.PausedTakeovers, s.Histories, s.Ambiguous, s.Resolved = 100_000, 20_000, 10_000, 11_000, 10_000
		s.Recoveries = []time.Duration{10 * time.Second}
		return s
	}
	goals := met().Goals()
	for _, g := range goals {
		if !g.Met {
			t.Errorf("%s: missed with %s, want %s", g.Name, g.Got, g.Want)
		}
	}
	spoilers := []func(*report.Sums){
		func(s *report.Sums) { s.Kinds-- }, func(s *report.Sums) { s.Cells-- }, func(s *report.Sums) { s.Lost++ }, func(s *report.Sums) { s.Doubled++ },
		func(s *report.Sums) { s.StaleRefused-- }, func(s *report.Sums) { s.PausedTakeovers-- }, func(s *report.Sums) { s.Histories-- },
		func(s *report.Sums) { s.UndecidedN++ }, func(s *report.Sums) { s.Resolved-- },
		func(s *report.Sums) { s.Recoveries[0]++ }, func(s *report.Sums) { s.LeftOver++ },
	}
	if len(spoilers) != len(goals) {
		t.Fatalf("%d goals, want %d", len(goals), len(spoilers))
	}
	for i, spoil := range spoilers {
		s := met()
		spoil(&s)
		for k, g := range s.Goals() {
			if g.Met != (k != i) {
				t.Errorf("goal %d spoilt: %s is met: %t", i, g.Name, g.Met)
			}
		}
	}
	for name, runs := range map[string][]report.Run{"no run": nil, "a void run": {of(report.Void, "a", "x")}} {
		for _, g := range report.Sum(runs).Goals() {
			if g.Met {
				t.Errorf("%s is met with %s", g.Name, name)
			}
		}
	}
}

// TestFiguresOfHeld: what void and violated runs have counted feeds no goal.
func TestFiguresOfHeld(t *testing.T) {
	t.Parallel()
	runs := []report.Run{of(report.Held, "a", "x"), of(report.Void, "a", "y"), violated("a", "INV5", "z")}
	for i := range runs {
		runs[i].Figures = check.Figures{
			Ops: 1, Applied: 1, Refused: 1, Failed: 1, Unknown: 1, Grants: 1, Takeovers: 1, PausedTakeovers: 1, StaleRefused: 1, ForgedRefused: 1,
			Ambiguous: 1, Resolved: 1, Histories: 1, Searched: 1, SupersededRefused: 1, Recoveries: []time.Duration{time.Second},
		}
	}
	if got, want := report.Sum(runs).Figures, runs[0].Figures; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want those of the run that held: %+v", got, want)
	}
}

// TestRecoveryPercentile: of 200 recoveries the slowest two are beyond the 99th percentile.
func TestRecoveryPercentile(t *testing.T) {
	t.Parallel()
	r := of(report.Held, "a", "x")
	for i := range 200 {
		r.Recoveries = append(r.Recoveries, time.Duration(200-i)*time.Second)
	}
	for _, g := range report.Sum([]report.Run{r}).Goals() {
		if strings.HasPrefix(g.Name, "recovery") && !strings.HasPrefix(g.Got, "3m18s (of 200; the slowest 3m20s)") {
			t.Errorf("got %s", g.Got)
		}
	}
}

func TestCellsTable(t *testing.T) {
	t.Parallel()
	void := of(report.Void, "a", "net|em")
	void.Why = "no netem\nin this *kernel*"
	text := report.CellsTable(
		[]report.Kind{{Name: "redis-kill", Rigs: []string{"redis+postgres"}}, {Name: "clock", Rigs: []string{"redis+redis", "redis+postgres"}}},
		[]string{"redis+postgres", "redis+redis"},
		[]report.Run{of(report.Held, "a", "redis-kill"), violated("a", "INV5", "clock"), void, {Lock: "memory", Store: "sqlite", Gateways: 1, Faults: []string{"clock"}, Verdict: report.Held}},
	)
	const want = "| fault | redis+postgres | redis+redis | memory+sqlite, 1 gateway |\n|---|---|---|---|\n" +
		"| `redis-kill` | held: 1,000 refused, 10 taken over, 0 unknown | – | – |\n" +
		"| `clock` | **violated: INV5 linearizable (seed 7)** | not run | held: 0 refused, 0 taken over, 0 unknown |\n" +
		"| `net\\|em` | void: no netem in this \\*kernel\\* | – | – |\n"
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

func TestSumsText(t *testing.T) {
	t.Parallel()
	if got := report.SumsText(nil); got != "No run is recorded yet.\n" {
		t.Errorf("got %q", got)
	}
	text := report.SumsText([]report.Run{of(report.Held, "a", "x"), violated("a", "INV5", "y"), of(report.Held, "b", "y"), violated("b", "INV7", "z")})
	for _, want := range []string{
		"4 recorded runs from 2026-11-21 to 2026-11-21: 2 held, 2 violated, 0 void", "| kinds of faults that held | at least 30 | 2 | **missed** |",
		"| lost or stale accepted, or another promise broken | 0 | 0 | met |", "| commits applied twice, or told wrong | 0 | 1 | **missed** |",
		"**Not mended**: `z` on redis+postgres, **violated: INV7 linearizable (seed 7)**", "1 run earlier found a violation", "Machines: linux/amd64.",
		"The runs that held made 10 calls", "shown by `make proof` and `make sabotage`", "| stale writes really refused | at least 100,000 | 2,000 (0 superseded or duplicate, 2,000 retired) |", "| histories checked | at least 10,000 | 0 (0 by a search) |",
		"| ambiguous commits resolved under their key | at least 10,000 | 0 (of 0) |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
}

// TestMendedCount: violations of a cell that stands violated are not mended, however many they are.
func TestMendedCount(t *testing.T) {
	t.Parallel()
	first, second := violated("a", "INV5", "x"), violated("b", "INV5", "x")
	for name, c := range map[string]struct {
		runs []report.Run
		want int
	}{
		"two that stand":              {[]report.Run{first, second}, 0},
		"one mended, one that stands": {[]report.Run{first, of(report.Held, "b", "x"), second}, 1},
		"both mended":                 {[]report.Run{first, second, of(report.Held, "c", "x")}, 2},
	} {
		if got := report.Sum(c.runs).Mended; got != c.want {
			t.Errorf("%s: %d mended, want %d", name, got, c.want)
		}
		if text := report.SumsText(c.runs); strings.Contains(text, "earlier found a violation") != (c.want > 0) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	const page = "# A\n\n<!-- table -->\nold\n<!-- /table -->\nrest <!-- sums --><!-- /sums -->\n"
	got, err := report.Rewrite(page, map[string]string{"table": "new\n", "sums": "7"})
	if want := "# A\n\n<!-- table -->\n\nnew\n\n<!-- /table -->\nrest <!-- sums -->\n\n7\n\n<!-- /sums -->\n"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if again, err := report.Rewrite(got, map[string]string{"table": "new\n", "sums": "7"}); err != nil || again != got {
		t.Errorf("a second time: %q, %v", again, err)
	}
	for _, bad := range []string{"", "<!-- table -->", "<!-- /table --><!-- table -->", page + page} {
		if got, err := report.Rewrite(bad, map[string]string{"table": "x"}); err == nil {
			t.Errorf("%q: got %q, want an error", bad, got)
		}
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("<!-- a -->\n<!-- /a -->\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"a": "text"}
	for i, step := range []struct{ look, changed bool }{{true, true}, {true, true}, {false, true}, {true, false}, {false, false}} {
		if changed, err := report.Update(path, texts, step.look); err != nil || changed != step.changed {
			t.Errorf("step %d: %t, %v, want %t", i, changed, err, step.changed)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "<!-- a -->\n\ntext\n\n<!-- /a -->\n" {
		t.Errorf("%q, %v", b, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v: want its mode kept", info.Mode(), err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("%v, %v: want nothing left beside it", list, err)
	}
	if _, err := report.Update(path, map[string]string{"b": "x"}, false); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, want an error that names the file", err)
	}
}
