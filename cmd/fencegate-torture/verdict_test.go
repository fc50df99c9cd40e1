package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/report"
)

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		verdict     string
		interrupted bool
		want        int
	}{
		{report.Held, false, 0}, {report.Held, true, 130}, {report.Violated, false, 1}, {report.Violated, true, 1}, {report.Void, false, 3}, {report.Void, true, 130},
	} {
		if got := verdictStatus(c.verdict, c.interrupted); got != c.want {
			t.Errorf("%s, interrupted %t: %d, want %d", c.verdict, c.interrupted, got, c.want)
		}
	}
	var b bytes.Buffer
	for err, want := range map[error]int{
		notMade(fmt.Errorf("x: %w", &fencing.InvalidError{What: "TTL"}), false): 2, notMade(errors.New("no server"), false): 3, notMade(context.Canceled, true): 130,
		usagef("x"): 2, errors.New("x"): 3, nil: 0, statusError{exitViolated, nil}: 1,
	} {
		if got := told(&b, err, "c"); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

// TestTally: a cell that the machine cannot make is no failure of a proof; any other that is void is one, and is listed.
func TestTally(t *testing.T) {
	t.Parallel()
	held, broken, void := report.Run{Verdict: report.Held}, report.Run{Verdict: report.Violated}, report.Run{Verdict: report.Void, Why: "healing\nfailed"}
	cannot := report.Run{Verdict: report.Void, Why: "no nftables", CannotBeMade: true}
	cell := torture.Cell{Fault: "x"}
	for name, c := range map[string]struct {
		of          int
		runs        []report.Run
		failed      bool
		lost        error // of a run that could not be kept
		interrupted bool
		want        int
	}{
		"all held":                    {of: 2, runs: []report.Run{held, held}, want: 0},
		"one cannot be made":          {of: 2, runs: []report.Run{held, cannot}, want: 0},
		"none can be made":            {of: 2, runs: []report.Run{cannot, cannot}, want: 3},
		"one is void":                 {of: 3, runs: []report.Run{held, held, void}, want: 3},
		"one could not be run":        {of: 2, runs: []report.Run{held}, failed: true, want: 3},
		"one is missing":              {of: 2, runs: []report.Run{held}, want: 3},
		"one could not be kept":       {of: 1, runs: []report.Run{held}, lost: errors.New("full"), want: 3},
		"one is violated":             {of: 3, runs: []report.Run{held, void, broken}, want: 1},
		"violated, and interrupted":   {of: 3, runs: []report.Run{broken}, interrupted: true, want: 1},
		"interrupted":                 {of: 3, runs: []report.Run{held}, interrupted: true, want: 130},
		"void as it was interrupted":  {of: 3, runs: []report.Run{held, void}, interrupted: true, want: 130},
		"violated and cannot be made": {of: 1, runs: []report.Run{{Verdict: report.Violated, CannotBeMade: true}}, want: 1},
	} {
		sum := tally{of: c.of}
		for _, r := range c.runs {
			sum.ended(cell, r)
		}
		if c.failed {
			sum.failed(cell, errors.New("no port"))
		}
		sum.keep(nil)
		sum.keep(c.lost)
		var b, list bytes.Buffer
		if got := told(&b, sum.status(nil, c.interrupted), "c"); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		sum.tell(&list)
		text := list.String()
		if strings.Contains(text, "void  x on +: healing; failed") != (sum.void > 0) || strings.Contains(text, "no port") != c.failed || strings.Contains(text, "no nftables") {
			t.Errorf("%s: the list is %q", name, text)
		}
	}
	sum := tally{of: 5}
	for _, r := range []report.Run{held, held, cannot, void, broken} {
		sum.ended(cell, r)
	}
	if got, want := sum.line(), "2 held, 1 violated, 1 cannot be made here, 1 void, 0 could not be run, of 5"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTell: the page, the record and the verdict are there whatever it is, and a run that could not be kept is not green.
func TestTell(t *testing.T) {
	t.Parallel()
	for _, verdict := range []string{report.Held, report.Violated, report.Void} {
		for _, output := range []string{"text", "json"} {
			dir := t.TempDir()
			c := &runCmd{Report: filepath.Join(dir, "a.html"), Record: filepath.Join(dir, "a.jsonl"), outputFlags: outputFlags{Output: output}}
			out := &torture.Outcome{Run: report.Run{Lock: "redis", Store: "redis", Verdict: verdict}, History: &history.History{}}
			var stdout, stderr bytes.Buffer
			status := told(&stderr, c.tell(stdio{out: &stdout, err: &stderr}, out, false), "c")
			if want := verdictStatus(verdict, false); status != want || stderr.Len() > 0 || !strings.Contains(strings.ToLower(stdout.String()), verdict) {
				t.Errorf("%s: status %d, %s%s", verdict, status, stdout.String(), stderr.String())
			}
			if page, err := os.ReadFile(c.Report); err != nil || !bytes.Contains(page, []byte("</html>")) {
				t.Errorf("%s: the page: %v", verdict, err)
			}
			if runs, _, err := report.Load(c.Record); err != nil || len(runs) != 1 {
				t.Errorf("%s: the record: %v, %v", verdict, runs, err)
			}
			if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
				t.Errorf("%v, %v: want two files", list, err)
			}
			c.Report, c.Record = dir, dir
			if status := told(&stderr, c.tell(stdio{out: &stdout, err: &stderr}, out, false), "c"); status == 0 || status == 1 != (verdict == report.Violated) ||
				!strings.Contains(stderr.String(), "could not be written") || !strings.Contains(stderr.String(), "could not be recorded") {
				t.Errorf("%s: status %d where nothing could be kept: %s", verdict, status, stderr.String())
			}
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := newProgress(&b, 20*time.Second)
	for i := range 120 {
		p.show(torture.Progress{Elapsed: time.Duration(i) * 100 * time.Millisecond, Doing: "redis-kill", Ops: 1234 * i, Violations: 1})
	}
	p.end()
	const want = "0s  redis-kill  ops 0  takeovers 0  refused 0  unknown 0  violations 1\n" +
		"5s  redis-kill  ops 61,700  takeovers 0  refused 0  unknown 0  violations 1\n" +
		"10s  redis-kill  ops 123,400  takeovers 0  refused 0  unknown 0  violations 1\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}

	for width, want := range map[int]string{
		120: "\r[======                  ]  5s  a fault  ops 1,000,000  takeovers 20  refused 0  unknown 0  violations 1\x1b[K\r\x1b[K",
		80:  "\r[==        ] 5s a fault ops 1,000,000 over 20 ref 0 unk 0 viol 1\x1b[K\r\x1b[K",
		30:  "\r[==        ] 5s a fault ops 1\x1b[K\r\x1b[K",
	} {
		b.Reset()
		p := newProgress(&b, 20*time.Second)
		p.width = func() int { return width }
		for range 2 { // what is there already is not drawn again
			p.show(torture.Progress{Elapsed: 5*time.Second + 1, Doing: "a fault", Ops: 1000000, Takeovers: 20, Violations: 1})
		}
		p.end()
		if b.String() != want {
			t.Errorf("got\n%q\nwant\n%q", b.String(), want)
		}
	}
	(*progress)(nil).end()
}

// TestReliability: the page is written from the record, found up to date then, and found old after another run.
func TestReliability(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record, page := filepath.Join(dir, "r.jsonl"), filepath.Join(dir, "r.md")
	if err := os.WriteFile(page, []byte("# R\n<!-- sums --><!-- /sums -->\n<!-- faults --><!-- /faults -->\n<!-- table --><!-- /table -->\nend\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"reliability", "--record", record, "--page", page}
	expect := func(want int, text string, more ...string) {
		t.Helper()
		status, stdout, stderr := command(append(flags, more...)...)
		if status != want || !strings.Contains(stdout+stderr, text) {
			t.Errorf("status %d, %s%s, want %d and %q", status, stdout, stderr, want, text)
		}
	}
	expect(1, "is not up to date", "--check")
	expect(0, "is rewritten")
	expect(0, "0 runs", "--check")
	if err := report.Append(record, report.Run{Lock: "redis", Store: "postgres", Faults: []string{"client-pause"}, Verdict: report.Held}); err != nil {
		t.Fatal(err)
	}
	expect(1, "is not up to date", "--check")
	expect(1, "missed: cells that held: want at least 100, got 1", "--goals")
	expect(0, "1 run: 1 held")
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "| `client-pause` | held") || !strings.Contains(string(text), "SIGSTOP") || !strings.HasSuffix(string(text), "\nend\n") {
		t.Errorf("%v\n%s", err, text)
	}
	if err := os.WriteFile(record, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(3, "line 1 is no run")
	flags[4] = filepath.Join(dir, "none.md")
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	expect(3, "none.md")
}

func TestFaults(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := command("faults")
	if status != 0 || stderr != "" || !strings.Contains(stdout, "client-pause\n  happens  ") || !strings.Contains(stdout, "\n  fits     redis+postgres; ") {
		t.Errorf("status %d, %s%.300s", status, stderr, stdout)
	}
	status, stdout, _ = command("faults", "--output", "json")
	if status != 0 || len(strings.Split(strings.TrimSpace(stdout), "\n")) != len(kinds()) {
		t.Errorf("status %d, %.300s", status, stdout)
	}
	for _, k := range kinds() {
		if len(k.Rigs) == 0 || !strings.Contains(k.Command, "--lock") {
			t.Errorf("%s fits nowhere in a proof", k.Name)
		}
	}
}
