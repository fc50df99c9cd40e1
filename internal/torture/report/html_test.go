package report_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/report"
)

// render returns a run's page, as text and parsed.
func render(t *testing.T, r report.Run, h *history.History, res check.Result) (string, *html.Node) {
	t.Helper()
	var b bytes.Buffer
	if err := report.HTML(&b, r, h, res); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("FENCEGATE_TEST_PAGES"); dir != "" { // to look at them
		if err := os.WriteFile(dir+"/"+strings.ReplaceAll(t.Name(), "/", "-")+".html", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n, err := html.Parse(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), n
}

// all returns the elements of a name below n.
func all(n *html.Node, name string) (list []*html.Node) {
	for c := range n.Descendants() {
		if c.Type == html.ElementNode && c.Data == name {
			list = append(list, c)
		}
	}
	return list
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// words is the text below n.
func words(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func classes(n *html.Node, name, class string) (list []*html.Node) {
	for _, e := range all(n, name) {
		if strings.Contains(" "+attr(e, "class")+" ", " "+class+" ") {
			list = append(list, e)
		}
	}
	return list
}

// TestPageIsWhole: nothing outside, nothing that runs, and what a reader without the picture needs.
func TestPageIsWhole(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func() (report.Run, *history.History, check.Result){"held": sample, "violated": broken} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, h, res := build()
			text, n := render(t, r, h, res)
			for _, tag := range []string{"script", "link", "img", "object", "embed", "base", "form"} {
				if got := all(n, tag); len(got) > 0 {
					t.Errorf("%d elements <%s>, want none", len(got), tag)
				}
			}
			for e := range n.Descendants() {
				for _, a := range e.Attr {
					if a.Key == "src" || strings.HasPrefix(a.Key, "on") || a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
						t.Errorf("<%s %s=%q>", e.Data, a.Key, a.Val)
					}
				}
			}
			style := words(all(n, "style")[0])
			if strings.Contains(style, "@import") || strings.Count(style, "url(") != strings.Count(style, "url(#") {
				t.Error("the style refers to something outside")
			}
			if !strings.Contains(style, "prefers-color-scheme: dark") || !strings.Contains(text, `name="viewport"`) {
				t.Error("no dark colours or no viewport")
			}
			if len(all(n, "h1")) != 1 || len(all(n, "title")) == 0 || attr(all(n, "html")[0], "lang") != "en" {
				t.Error("want one h1, a title and a language")
			}
			for _, table := range all(n, "table") {
				heads := all(table, "th")
				if len(heads) == 0 {
					t.Errorf("a table without headers: %.80s", words(table))
				}
				for _, th := range heads {
					if attr(th, "scope") == "" {
						t.Errorf("header %q has no scope", words(th))
					}
				}
			}
			for _, svg := range all(n, "svg") {
				if len(all(svg, "desc")) != 1 || attr(svg, "role") != "img" || attr(svg, "aria-labelledby") == "" {
					t.Error("a picture without words")
				}
			}
			ids := map[string]bool{}
			for e := range n.Descendants() {
				if id := attr(e, "id"); id != "" && ids[id] {
					t.Errorf("id %q twice", id)
				} else {
					ids[id] = true
				}
			}
			if len(text) > 1<<20 {
				t.Errorf("%d bytes", len(text))
			}
		})
	}
}

// TestPageTellsTheRun: the verdict, the figures, the faults where they were, and what repeats it.
func TestPageTellsTheRun(t *testing.T) {
	t.Parallel()
	r, h, res := sample()
	_, n := render(t, r, h, res)
	text := words(n)
	for _, want := range []string{
		"Held No acknowledged write was lost", "redis+postgres", "seed 42", "fencegate-torture run --lock redis --store postgres --faults redis-kill --seed 42",
		"412 refused by the fence", "311 taken over, 120 of them", "650 ms", "void: no netem in this kernel", "What this does not show", "docs/reliability.md",
		"processes 1 and 2; stopped: process 1, 2",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	var ticks []string
	for _, e := range classes(n, "text", "axis") {
		ticks = append(ticks, words(e))
	}
	if got, want := strings.Join(ticks, ","), "0 s,1 s,2 s,3 s,4 s,5 s,6 s,7 s,8 s"; got != want {
		t.Errorf("the axis has %s, want %s", got, want)
	}
	// A row for each kind of fault, a band for each time, a mark for each recovery, a strip for each process.
	for _, c := range []struct {
		element, class string
		want           int
	}{
		{"rect", "force", 4},
		{"rect", "making", 4},
		{"circle", "recovered", 3},
		{"circle", "never", 1},
		{"rect", "stopped", 2},
		{"g", "killed", 1},
		{"rect", "shade", 4},
	} {
		if got := len(classes(n, c.element, c.class)); got != c.want {
			t.Errorf("%d of class %s, want %d", got, c.class, c.want)
		}
	}
	// The first fault held from 0.91 s to 1.7 s of 8 s.
	force := classes(n, "rect", "force")[0]
	if x, w := attr(force, "x"), attr(force, "width"); x != "282.9" || w != "91" {
		t.Errorf("the first band is at %s, %s wide", x, w)
	}
	if got := words(classes(n, "svg", "")[0]); !strings.Contains(got, "process 3") {
		t.Error("no strip for process 3")
	}
}

// TestPageCountsEveryCall: the bars are the history, each call once.
func TestPageCountsEveryCall(t *testing.T) {
	t.Parallel()
	r, h, res := sample()
	_, n := render(t, r, h, res)
	sum := 0
	for _, table := range all(n, "table") {
		if !strings.HasPrefix(words(table), "from applied refused") {
			continue
		}
		for _, row := range all(all(table, "tbody")[0], "tr") {
			for _, cell := range all(row, "td")[:3] {
				v := 0
				for _, c := range words(cell) {
					if c != ',' {
						v = v*10 + int(c-'0')
					}
				}
				sum += v
				if v > 0 && strings.HasPrefix(words(row), "0.000 s") {
					t.Errorf("%s: the first call was made at 0.3 s, with or without an answer", words(row))
				}
			}
		}
	}
	if sum != len(h.Ops) {
		t.Errorf("%d calls over time, want %d", sum, len(h.Ops))
	}
}

// TestPageEscapes: what was read from servers stays text, and the picture stays in its frame.
func TestPageEscapes(t *testing.T) {
	t.Parallel()
	r, h, res := broken()
	_, n := render(t, r, h, res)
	text := words(n)
	if got := strings.Count(text, "<script>alert(1)</script>"); got < 6 {
		t.Errorf("the hostile text is shown %d times as text, want in the reason, the fault, the violations and the calls", got)
	}
	frames := all(n, "iframe")
	if len(frames) != 1 {
		t.Fatalf("%d frames, want one", len(frames))
	}
	if got := attr(frames[0], "srcdoc"); got != res.Violations[0].Picture {
		t.Errorf("the frame has %q, want the picture as it is", got)
	}
	if attr(frames[0], "sandbox") != "allow-scripts" || attr(frames[0], "loading") != "lazy" || attr(frames[0], "title") == "" {
		t.Error("the frame is not lazy, not in a sandbox of its own, or has no title")
	}
	for _, want := range []string{"2 promises were broken.", "put run:register-1/value = 3 c1-7", "And 1 more.", "linearizable · INV5"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestPageOfLittle: a run that did not get far has a page, too.
func TestPageOfLittle(t *testing.T) {
	t.Parallel()
	r, _, _ := sample()
	r.Verdict, r.Why = report.Void, "redis-server is not installed"
	for name, h := range map[string]*history.History{
		"none": nil, "empty": {}, "one": {Began: 7, Ended: 7, Ops: []history.Op{{ID: "a", Call: 7}}},
		"outside": {Began: 100 * ms, Ended: 200 * ms, Ops: []history.Op{{Call: 1, Return: 900 * ms}}, Faults: []history.Fault{{Name: "x", From: 1, Injected: 2, Heal: 950 * ms, To: 990 * ms}}},
		"long":    {Began: 1, Ended: 1 + 400*3600*1000*ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, n := render(t, r, h, check.Result{})
			if text := words(n); !strings.Contains(text, "Void This run shows nothing. redis-server is not installed") {
				t.Errorf("the page says %.200s", text)
			}
			for _, e := range all(n, "text") {
				if strings.Contains(words(e), "NaN") {
					t.Error("NaN on an axis")
				}
			}
		})
	}
}
