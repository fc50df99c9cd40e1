package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// TextOptions tunes Text and JSON. Nil and the zero value mean the defaults.
type TextOptions struct {
	Report string // the file of the HTML page, if there is one
	Record string // the record that the run was added to, if it was
	Colour bool   // for a terminal
}

// Text writes a run for a terminal: the verdict, the figures, what was violated, and what to do next. h may be nil.
func Text(w io.Writer, r Run, h *history.History, o *TextOptions) error {
	if o == nil {
		o = &TextOptions{}
	}
	var b strings.Builder
	colour := map[string]string{Held: "32", Violated: "31", Void: "33"}[r.Verdict]
	verdict := strings.ToUpper(r.Verdict)
	if o.Colour {
		verdict = "\x1b[1;" + colour + "m" + verdict + "\x1b[0m"
	}
	fmt.Fprintf(&b, "%s  %s\n", verdict, headline(r))
	if r.Why != "" {
		fmt.Fprintf(&b, "      %s\n", oneLine(r.Why))
	}
	fmt.Fprintf(&b, "      %s; %s; %s of %s; %s; seed %d\n\n", r.Rig(), strings.Join(r.Workloads, ", "),
		plural(r.Clients, "process"), plural(r.Seats, "seat"), span(r.Duration), r.Seed)

	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range figures(r, h) {
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", f.Name, pad(f.Value, 9), f.Note)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i, v := range r.Violations {
		fmt.Fprintf(&b, "\n%d. %s", i+1, v.Check)
		if v.Invariant != "" {
			fmt.Fprintf(&b, " (%s)", v.Invariant)
		}
		if v.Group != "" {
			fmt.Fprintf(&b, " in %s", v.Group)
		}
		fmt.Fprintf(&b, "\n   %s\n", strings.ReplaceAll(printable(v.Text), "\n", "\n   "))
		if len(v.Ops) > 0 {
			fmt.Fprintf(&b, "   calls: %s\n", some(v.Ops, 12))
		}
	}
	b.WriteString("\n")
	if o.Report != "" {
		fmt.Fprintf(&b, "Report: %s\n", o.Report)
	}
	if o.Record != "" {
		fmt.Fprintf(&b, "Record: %s, one line more\n", o.Record)
	}
	if command := r.Command(); command != "" {
		fmt.Fprintf(&b, "Again:  %s\n", command)
	}
	if r.Verdict == Violated && o.Report == "" {
		b.WriteString("With --report FILE.html the calls and the history of what was violated are kept.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// JSON writes a run as one JSON document on one line: the record's line, and the report's file.
func JSON(w io.Writer, r Run, o *TextOptions) error {
	if o == nil {
		o = &TextOptions{}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		Run
		Report string `json:"report,omitempty"`
	}{r, o.Report})
}

// figure is one line of a run's figures.
type figure struct{ Name, Value, Note string }

// figures are the same on the terminal and on the page.
func figures(r Run, h *history.History) []figure {
	f := r.Figures
	var faults []history.Fault
	if h != nil {
		faults = h.Faults
	}
	list := []figure{
		{"operations", count(f.Ops), fmt.Sprintf("%s applied, %s refused, %s failed, %s unknown", count(f.Applied), count(f.Refused), count(f.Failed), count(f.Unknown))},
		{"grants", count(f.Grants), fmt.Sprintf("%s taken over, %s of them from stopped processes", count(f.Takeovers), count(f.PausedTakeovers))},
		{"stale writes", count(f.StaleRefused), fmt.Sprintf("refused by the fence: %s; and %s forged or replayed tokens", staleKinds(f), count(f.ForgedRefused))},
		{"ambiguous", count(f.Ambiguous), fmt.Sprintf("commits, of which %s were resolved under their key", count(f.Resolved))},
		{"histories", count(f.Histories), fmt.Sprintf("checked for linearizability, %s of them by a search, %s undecided", count(f.Searched), count(f.Undecided))},
		{"faults", count(r.Injected), kindsOf(faults)},
		{"recovery", "-", "none was measured"},
		{"left over", count(f.Leaks), "goroutines, connections, waiters, locks"},
		{"violations", count(len(r.Violations)), ""},
	}
	if len(f.Recoveries) > 0 {
		slowest := slices.Max(f.Recoveries)
		note := fmt.Sprintf("the slowest of %d, from healing until everybody was served", len(f.Recoveries))
		if fault, at := slowestOf(h); fault != "" {
			note += fmt.Sprintf(": %s at %s", fault, seconds(at))
		}
		list[6] = figure{"recovery", span(slowest), note}
	}
	return list
}

// slowestOf names the fault that took longest to recover from, and when it was healed.
func slowestOf(h *history.History) (name string, at time.Duration) {
	if h == nil {
		return "", 0
	}
	longest := int64(-1)
	for _, f := range h.Faults {
		if took := f.Recovered - f.To; f.Void == "" && f.Recovered > 0 && took > longest {
			longest, name, at = took, f.Name, time.Duration(f.To-h.Began)
		}
	}
	return name, at
}

// some are the first of a list.
func some(list []string, most int) string {
	if len(list) <= most {
		return printable(strings.Join(list, " "))
	}
	return printable(strings.Join(list[:most], " ")) + fmt.Sprintf(" and %d more", len(list)-most)
}

func pad(s string, width int) string {
	return strings.Repeat(" ", max(0, width-len([]rune(s)))) + s
}

func oneLine(s string) string { return strings.Join(strings.Fields(printable(s)), " ") }

// printable keeps what a server said from moving the cursor.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' {
			return c
		}
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return '\uFFFD'
		}
		return c
	}, s)
}
