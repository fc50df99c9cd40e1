package report_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/report"
)

func TestText(t *testing.T) {
	t.Parallel()
	r, h, _ := sample()
	var b strings.Builder
	if err := report.Text(&b, r, h, &report.TextOptions{Report: "out.html"}); err != nil {
		t.Fatal(err)
	}
	const want = `HELD  No acknowledged write was lost, and no stale one was accepted.
      redis+postgres; register, bank; 4 processes of 12 seats; 8 s; seed 42

  operations       11,000  10,000 applied, 700 refused, 100 failed, 200 unknown
  grants            2,500  311 taken over, 120 of them from stopped processes
  stale writes        412  refused by the fence: 400 superseded or duplicate, 12 retired; and 33 forged or replayed tokens
  ambiguous            44  commits, of which 43 were resolved under their key
  histories            40  checked for linearizability, 39 of them by a search, 0 undecided
  faults                4  redis-kill 2, client-kill 1, client-stop 1
  recovery         650 ms  the slowest of 3, from healing until everybody was served: redis-kill at 3.150 s
  left over             0  goroutines, connections, waiters, locks
  violations            0  

Report: out.html
Again:  fencegate-torture run --lock redis --store postgres --faults redis-kill --seed 42
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestTextOfViolations: what was broken, where, by which calls, and what to do next; no control characters of a server.
func TestTextOfViolations(t *testing.T) {
	t.Parallel()
	r, h, _ := broken()
	r.Violations[1].Text = "red \x1b[31m\x07 text"
	var b strings.Builder
	if err := report.Text(&b, r, h, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"VIOLATED  2 promises were broken.", "1. linearizable (INV5) in run:register-1\n   3 was acknowledged", "calls: ", "2. stock in ", "red \uFFFD[31m\uFFFD text", "Again:  ", "With --report FILE.html"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text does not say %q:\n%s", want, b.String())
		}
	}
	if strings.ContainsAny(b.String(), "\x1b\x07") {
		t.Error("control characters of a server reach the terminal")
	}
	b.Reset()
	if err := report.Text(&b, r, nil, &report.TextOptions{Colour: true}); err != nil || !strings.HasPrefix(b.String(), "\x1b[1;31mVIOLATED\x1b[0m") {
		t.Errorf("%v, %.40q", err, b.String())
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	r, _, _ := broken()
	var b bytes.Buffer
	if err := report.JSON(&b, r, &report.TextOptions{Report: "a.html"}); err != nil {
		t.Fatal(err)
	}
	if bytes.Count(b.Bytes(), []byte("\n")) != 1 {
		t.Error("want one line")
	}
	var got struct {
		report.Run
		Report string `json:"report"`
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for i := range r.Violations {
		r.Violations[i].Picture = "" // too large for a line
	}
	if !reflect.DeepEqual(got.Run, r) || got.Report != "a.html" {
		t.Errorf("got %+v, want %+v", got, r)
	}
}

func TestCommandIsQuoted(t *testing.T) {
	t.Parallel()
	r := report.Run{Args: []string{"fencegate-torture", "--redis-url", "redis://h:1/2?a=b&c", "it's", ""}}
	if got, want := r.Command(), `fencegate-torture --redis-url 'redis://h:1/2?a=b&c' 'it'\''s' ''`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
