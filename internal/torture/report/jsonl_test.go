package report_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/report"
)

func appendRun(t *testing.T, path string, r report.Run) {
	t.Helper()
	if err := report.Append(path, r); err != nil {
		t.Fatal(err)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "record.jsonl")
	if runs, warnings, err := report.Load(path); err != nil || len(runs)+len(warnings) > 0 {
		t.Errorf("no file: %v, %v, %v", runs, warnings, err)
	}
	held, _, _ := sample()
	violated, _, _ := broken()
	for i := range violated.Violations {
		violated.Violations[i].Picture = ""
	}
	appendRun(t, path, held)
	appendRun(t, path, violated)
	runs, warnings, err := report.Load(path)
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	if !reflect.DeepEqual(runs, []report.Run{held, violated}) {
		t.Errorf("got %+v", runs)
	}
}

// TestTornLine: a line that was cut off costs its own run and no other, wherever it stands.
func TestTornLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "record.jsonl")
	r, _, _ := sample()
	appendRun(t, path, r)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut < len(whole)-1; cut += 5 {
		if err := os.WriteFile(path, append(append([]byte{}, whole...), whole[:cut]...), 0o600); err != nil {
			t.Fatal(err)
		}
		wantWarnings := min(cut, 1)
		if runs, warnings, err := report.Load(path); err != nil || len(runs) != 1 || len(warnings) != wantWarnings {
			t.Fatalf("cut at %d: %d runs, warnings %v, %v", cut, len(runs), warnings, err)
		}
		if cut%100 != 0 {
			continue
		}
		other := r
		other.Seed++
		appendRun(t, path, other)
		if runs, warnings, err := report.Load(path); err != nil || len(runs) != 2 || len(warnings) != wantWarnings {
			t.Fatalf("cut at %d and appended: %d runs, warnings %v, %v", cut, len(runs), warnings, err)
		}
	}
}

func TestBadLines(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no json": "{]\n", "no object": "[1]\n", "a wrong type": `{"seed":"x","verdict":"held"}` + "\n", "no verdict": "{}\n", "more than one": `{"verdict":"held"} {}` + "\n", "another verdict": `{"verdict":"green"}` + "\n",
	} {
		path := filepath.Join(t.TempDir(), "record.jsonl")
		if err := os.WriteFile(path, []byte("\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := report.Load(path); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v, want an error that names line 2", name, err)
		}
	}
}

// TestAppendTogether: runs that end at once do not mix.
func TestAppendTogether(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "record.jsonl")
	r, _, _ := broken()
	var wg sync.WaitGroup
	for i := range 20 {
		r := r
		r.Seed = uint64(i)
		wg.Go(func() {
			if err := report.Append(path, r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if runs, warnings, err := report.Load(path); err != nil || len(runs) != 20 || len(warnings) > 0 {
		t.Errorf("%d runs, %v, %v", len(runs), warnings, err)
	}
}

// TestSameLineTwice: a merge of two branches may leave a line twice, which is one run.
func TestSameLineTwice(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "record.jsonl")
	r, _, _ := sample()
	other := r
	other.Seed++
	for _, r := range []report.Run{r, other, r, other, r} {
		appendRun(t, path, r)
	}
	if runs, warnings, err := report.Load(path); err != nil || len(warnings) > 0 || !reflect.DeepEqual(runs, []report.Run{r, other}) {
		t.Errorf("%d runs, %v, %v, want 2", len(runs), warnings, err)
	}
}
