package model_test

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/model"
)

var (
	large  = flag.Bool("large", false, "explore the large variants, too: minutes, and gigabytes of memory")
	update = flag.Bool("update", false, "write docs/models.md")
)

// explored is what each variant came to, explored once for all tests.
var explored sync.Map // of func() finding, by name

type finding struct {
	states int
	broken string
	steps  []model.Step
}

func explore(v model.Variant) finding {
	once, _ := explored.LoadOrStore(v.Name, sync.OnceValue(func() finding {
		states, broken, steps := v.Explore()
		return finding{states, broken, steps}
	}))
	return once.(func() finding)()
}

func variants() []model.Variant { return append(model.StorageVariants(), model.RedlockVariants()...) }

// TestVariants: the rules hold, and each weaker form is broken in the way that is said of it.
func TestVariants(t *testing.T) {
	t.Parallel()
	for _, v := range variants() {
		t.Run(v.Name, func(t *testing.T) {
			if v.Large && !*large {
				t.Skip("-large explores it")
			}
			if !v.Large {
				t.Parallel() // the large ones one after the other: each has the memory for itself
			}
			if raceDetector && v.States > 100_000 {
				t.Skip("explored without the race detector: there is nothing in it that runs at once")
			}
			f := explore(v)
			t.Logf("%s %d states", v.Change, f.states)
			for i, st := range f.steps {
				t.Logf("%2d. %s", i+1, st.Text)
			}
			if f.broken != v.Broken {
				t.Errorf("it breaks %q, want %q", f.broken, v.Broken)
			}
			if f.states != v.States {
				t.Errorf("%d states, want %d", f.states, v.States)
			}
		})
	}
}

const docs = "../../docs/models.md"

// TestDocs: docs/models.md says what the models say.
func TestDocs(t *testing.T) {
	t.Parallel()
	steps := map[string][]model.Step{}
	for _, v := range variants() {
		if !v.Large && v.Broken != "" {
			steps[v.Name] = explore(v).steps
		}
	}
	want := model.Docs(steps)
	if *update {
		if err := os.WriteFile(docs, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.ReplaceAll(string(got), "\r\n", "\n"); text != want {
		t.Errorf("%s is not up to date: go test ./internal/model -run TestDocs -update", docs)
	}
}

// count is a model of a counter that must not reach its end.
type count struct{ end, bad int }

func (c count) Starts() []int  { return []int{0} }
func (c count) Same(s int) int { return s }
func (c count) Next(s *int, say bool, add func(int, model.Step, string)) {
	for by := 1; by <= 2; by++ {
		broken := ""
		if *s+by == c.bad {
			broken = "BAD"
		}
		if *s+by <= c.end {
			add(*s+by, model.Step{Set: by}, broken)
		}
	}
}

// TestExplore: what is found is the shortest way, and a limit is not taken for a proof.
func TestExplore(t *testing.T) {
	t.Parallel()
	if f := model.Explore(count{end: 9}, 100); f.Broken != "" || f.Limited || f.States != 10 {
		t.Errorf("without a break: got %+v, want 10 states", f)
	}
	if f := model.Explore(count{end: 9, bad: 7}, 100); f.Broken != "BAD" || len(f.Steps) != 4 {
		t.Errorf("got %+v, want a break after 4 steps", f)
	}
	if f := model.Explore(count{end: 1000}, 100); !f.Limited {
		t.Errorf("beyond the limit: got %+v, want it to be said", f)
	}
}
