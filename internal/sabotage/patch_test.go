package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPatchesApply: every patch fits the code as it is. Whether it is caught takes minutes to
// find out: make sabotage.
func TestPatchesApply(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	patches, err := load(filepath.Join("internal", "sabotage"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range patches {
		if _, err := p.apply(t.Context(), t.TempDir()); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		for _, args := range p.tests {
			if _, err := os.Stat(args[0]); err != nil {
				t.Errorf("%s: its test: %v", p.name, err)
			}
		}
	}
}

// TestVerdicts: what is caught, what survives, and what is an error.
func TestVerdicts(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.test/m\n\ngo 1.26\n",
		"m.go":      "package m\n\nfunc one() int { return 1 }\n\nfunc two() int { return 2 }\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif one() != 1 {\n\t\tt.Fatal(one())\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	diff := func(from, to string) string {
		return "# a test\n# test: . -run 'TestOne'\n--- a/m.go\n+++ b/m.go\n@@ -1,5 +1,5 @@\n package m\n \n" + from + to
	}
	const one = " func one() int { return 1 }\n"
	for _, c := range []struct{ name, diff, want string }{
		{"caught", diff("-func one() int { return 1 }\n+func one() int { return 7 }\n", " \n func two() int { return 2 }\n"), "caught"},
		{"survives", diff(one, " \n-func two() int { return 2 }\n+func two() int { return 7 }\n"), "survived"},
		{"no program", diff("-func one() int { return 1 }\n+func one() int { return nothing }\n", " \n func two() int { return 2 }\n"), "it does not compile"},
		{"no fit", diff("-func one() int { return 5 }\n+func one() int { return 7 }\n", " \n func two() int { return 2 }\n"), "it no longer applies"},
	} {
		p, err := parse(c.name, []byte(c.diff))
		if err != nil {
			t.Fatal(err)
		}
		caught, _, err := p.try(context.Background())
		got := "survived"
		switch {
		case err != nil:
			got = err.Error()
		case caught:
			got = "caught"
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if _, err := parse("x", []byte("--- a/m.go\n+++ b/m.go\n")); err == nil {
		t.Error("a patch without a test: got no error")
	}
}

// TestSearch: a run that missed the bug is made once more, which is said; no other is, and none a third time.
func TestSearch(t *testing.T) {
	t.Parallel()
	type outcome struct {
		verdict, why string
		err          error
	}
	broken := errors.New("the run could not be made")
	caught, missed, nothing := outcome{violated, "stale: x", nil}, outcome{held, "", nil}, outcome{void, "no fault", nil}
	for name, c := range map[string]struct {
		runs []outcome
		want outcome
	}{
		"at once":           {[]outcome{caught}, caught},
		"in the second":     {[]outcome{missed, caught}, outcome{violated, "(in a second minute) stale: x", nil}},
		"never":             {[]outcome{missed, missed}, outcome{held, "(in a second minute) ", nil}},
		"shows nothing":     {[]outcome{nothing}, nothing},
		"shows nothing now": {[]outcome{missed, nothing}, outcome{void, "(in a second minute) no fault", nil}},
		"no run":            {[]outcome{{held, "why", broken}}, outcome{held, "why", broken}},
		"no second run":     {[]outcome{missed, {"", "why", broken}}, outcome{"", "(in a second minute) why", broken}},
	} {
		made := 0
		verdict, why, err := search(func() (string, string, error) {
			if made++; made > len(c.runs) {
				return held, "one too many", nil
			}
			o := c.runs[made-1]
			return o.verdict, o.why, o.err
		})
		if got := (outcome{verdict, why, err}); got != c.want || made != len(c.runs) {
			t.Errorf("%s: got %v after %d runs, want %v after %d", name, got, made, c.want, len(c.runs))
		}
	}
}
