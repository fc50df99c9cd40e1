package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fencegate/fencegate/internal/diagram"
)

// runs is the program with its exit status and what it printed.
func runs(t *testing.T, args ...string) (status int, out, complaints string) {
	t.Helper()
	var o, c bytes.Buffer
	status = run(t.Context(), args, &o, &c)
	return status, o.String(), c.String()
}

// TestProgram walks through the whole museum, as everybody does who tries it.
func TestProgram(t *testing.T) {
	t.Parallel()
	status, out, complaints := runs(t, "--fast")
	if status != asItMust || complaints != "" {
		t.Fatalf("got status %d, %s\n%s", status, complaints, out)
	}
	for _, e := range Exhibits() {
		if !strings.Contains(out, ". "+e.Title+"  ("+e.Name+")\n") {
			t.Errorf("%s is not shown", e.Name)
		}
	}
	_, noRedis := exec.LookPath("redis-server")
	if _, ok := postgresPrograms(); ok && noRedis == nil { // else some say what they need
		if got, want := strings.Count(out, "DAMAGE: "), len(Exhibits()); got != want {
			t.Errorf("got %d damages, want %d", got, want)
		}
		if got, want := strings.Count(out, "othing lost: "), len(Exhibits()); got != want {
			t.Errorf("got %d that lost nothing, want %d", got, want)
		}
		if !strings.Contains(out, "21 of 21 exhibits were shown") || strings.Contains(out, "not shown") {
			t.Error("not all exhibits were shown")
		}
	}
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > diagram.Width {
			t.Errorf("a line has %d columns: %s", n, line)
		}
		if strings.Contains(line, "\x1b") {
			t.Errorf("colour where there is no terminal: %q", line)
		}
	}
}

// TestProgramWithoutServers: everything that can be is shown on stand-ins, the rest says what it needs,
// and that is no failure.
func TestProgramWithoutServers(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	status, out, complaints := runs(t, "--fast", "nothing-at-all", "replica-promoted", "redlock-clock-jump", "paused-holder")
	if status != asItMust || complaints != "" {
		t.Fatalf("got status %d, %s\n%s", status, complaints, out)
	}
	for _, want := range []string{"3 stand-ins for Redis in this process (miniredis)", "not shown: needs redis-server in PATH", "3 of 4 exhibits were shown", "1 not shown"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q\n%s", want, out)
		}
	}
	status, _, complaints = runs(t, "--redis", "server", "nothing-at-all")
	if status != wrong || !strings.Contains(complaints, "redis-server") {
		t.Errorf("got status %d, %q, want a failure that names redis-server", status, complaints)
	}
}

// TestProgramWithoutPostgres: where there is none its exhibits say so, also why one does not start.
func TestProgramWithoutPostgres(t *testing.T) {
	t.Parallel()
	var e Exhibit
	for _, e = range Exhibits() {
		if e.Needs == Postgres {
			break
		}
	}
	_, err := (&World{}).Play(t.Context(), e, false)
	if got, want := errText(err), "needs PostgreSQL (initdb, postgres in PATH or /usr/lib/postgresql/*/bin)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = (&World{NoDatabase: "a miracle"}).Play(t.Context(), e, false)
	if got, want := errText(err), "needs a miracle"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func errText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

func TestList(t *testing.T) {
	t.Parallel()
	status, out, _ := runs(t, "list")
	if status != asItMust || strings.Count(out, "\n") != 21 {
		t.Errorf("got status %d, %d lines, want 0 and 21\n%s", status, strings.Count(out, "\n"), out)
	}
	for _, want := range []string{"del-without-owner        DEL without comparing the owner\n", "paused-holder "} {
		if !strings.Contains(out, want) {
			t.Errorf("the list lacks %q\n%s", want, out)
		}
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want []string // in what is said
	}{
		{[]string{"nonsense"}, []string{`there is no exhibit "nonsense"`, "nothing-at-all, setnx-without-expiry, ", "negative-stock"}},
		{[]string{"nothing-at-all", "list"}, []string{`there is no exhibit "list"`}},
		{[]string{"nothing-at-all", "--fast"}, []string{"--fast: flags come before the names"}},
		{[]string{"--redis", "valkey"}, []string{"auto, server or miniredis"}},
		{[]string{"--pace", "1ms"}, []string{"50ms to 10s"}},
		{[]string{"--pace", "11s"}, []string{"50ms to 10s"}},
		{[]string{"--pace", "slow"}, []string{"pace"}},
		{[]string{"--loud"}, []string{"-loud"}},
	} {
		status, out, complaints := runs(t, c.args...)
		if status != misused || out != "" {
			t.Errorf("%q: got status %d and output %q, want %d and none", c.args, status, out, misused)
		}
		for _, want := range c.want {
			if !strings.Contains(complaints, want) {
				t.Errorf("%q: got %q, which lacks %q", c.args, complaints, want)
			}
		}
	}
	if status, _, complaints := runs(t, "--help"); status != asItMust || !strings.Contains(complaints, "usage: brokenlocks") {
		t.Errorf("--help: got status %d, %s", status, complaints)
	}
}

// TestInterrupted: the program ends soon, says so, and leaves nothing behind.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var complaints bytes.Buffer
	status := run(ctx, []string{"--pace", "10s", "paused-holder"}, &interrupter{cancel}, &complaints)
	if status != wrong || complaints.String() != "brokenlocks: interrupted\n" {
		t.Errorf("got status %d and %q, want %d and that it was interrupted", status, complaints.String(), wrong)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("got %q left in the temporary directory, %v", left, err)
	}
}

// interrupter is Ctrl-C at the first thing that is printed.
type interrupter struct{ cancel func() }

func (i *interrupter) Write(p []byte) (int, error) {
	i.cancel()
	return len(p), nil
}

// TestNotAsItMust: an exhibit that shows nothing is a failure of the program, and named.
func TestNotAsItMust(t *testing.T) {
	t.Parallel()
	harmless := Exhibit{Name: "harmless", Title: "A lock that works", Tell: func(ctx context.Context, s *Scene) error {
		s.Number(ctx, A)
		s.Change(ctx, A, +1)
		return nil
	}}
	var out strings.Builder
	err := visit(t.Context(), options{exhibits: []Exhibit{harmless}, redis: "miniredis", pace: fastPace}, &out)
	if err == nil || !strings.Contains(err.Error(), "harmless") || !strings.Contains(out.String(), "DID NOT END AS IT MUST") {
		t.Errorf("got %v\n%s", err, out.String())
	}
}

func TestColours(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	if colours(&bytes.Buffer{}) {
		t.Error("colours in a buffer")
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if colours(f) {
		t.Error("colours in a file")
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	if got, want := fold("  one two  three ééé four", 9), "one two\nthree ééé\nfour"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestExhibitsAreDescribed: names fit a command line and are unique, and each has its three sentences.
func TestExhibitsAreDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, e := range Exhibits() {
		if e.Name == "" || strings.ContainsAny(e.Name, " _ABCDEFGHIJKLMNOPQRSTUVWXYZ") || seen[e.Name] || e.Name == "list" {
			t.Errorf("the name %q", e.Name)
		}
		seen[e.Name] = true
		if e.Title == "" || e.Seen == "" || strings.HasSuffix(e.Seen, ".") {
			t.Errorf("%s: title %q, seen %q", e.Name, e.Title, e.Seen)
		}
		if len(e.Words) != 3 {
			t.Errorf("%s: got %d sentences, want 3", e.Name, len(e.Words))
		}
		for _, w := range e.Words {
			if !strings.HasSuffix(w, ".") || strings.Contains(strings.TrimSuffix(w, "."), ". ") {
				t.Errorf("%s: this is not one sentence: %s", e.Name, w)
			}
		}
	}
	if len(seen) != 21 {
		t.Errorf("got %d exhibits, want 21", len(seen))
	}
}
