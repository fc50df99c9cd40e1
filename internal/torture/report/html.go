package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
)

//go:embed page.gohtml
var pageText string

// mostCalls is how many calls of a violation are shown.
const mostCalls = 200

// HTML writes a run as one page that needs nothing else. h may be nil: then there is no time axis.
func HTML(w io.Writer, r Run, h *history.History, res check.Result) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	return t.Execute(w, newPage(r, h, res))
}

// page is what the template shows: texts, ready to be printed and not yet escaped.
type page struct {
	Run                     Run
	Verdict, Word, Headline string
	Rig, When               string
	Facts                   []fact
	Command                 string
	Tiles                   []figure
	Figures                 []figure
	Chart                   *chart
	Faults                  []faultRow
	Violations              []violation
	Lines                   int
}

type (
	fact     struct{ Name, Value string }
	faultRow struct {
		Name, At, Force, Healing, Recovery, What string
	}
	violation struct {
		ID, Check, Invariant, Group, Text string
		Calls                             []callRow
		More                              int // calls that are not shown, or not in the history
		Picture                           string
	}
	callRow struct {
		At, Took, ID, Process, Kind, Doing, Answer, Number, Outcome, Class string
	}
)

func newPage(r Run, h *history.History, res check.Result) page {
	p := page{
		Run: r, Verdict: r.Verdict, Word: strings.ToUpper(r.Verdict[:min(1, len(r.Verdict))]) + r.Verdict[min(1, len(r.Verdict)):],
		Headline: headline(r), Rig: r.Rig(), When: r.Time.UTC().Format("2 January 2006, 15:04 UTC"), Command: r.Command(), Figures: figures(r, h),
	}
	if r.Verdict == Violated && len(r.Violations) == 0 {
		p.Headline = "A promise was broken."
	}
	for _, f := range []fact{
		{"Lock", r.Lock},
		{"Store", r.Store},
		{"Gateways", gateways(r.Gateways)},
		{"Workloads", strings.Join(r.Workloads, ", ")},
		{"Faults", orNone(strings.Join(r.Faults, ", "))},
		{"Clients", plural(r.Clients, "process") + ", " + plural(r.Seats, "seat") + " each"},
		{"Duration", span(r.Duration)},
		{"Seed", strconv.FormatUint(r.Seed, 10)},
		{"Version", r.Version},
		{"Machine", r.Machine},
	} {
		if f.Value != "" {
			p.Facts = append(p.Facts, f)
		}
	}
	p.Tiles = []figure{
		{"operations", count(r.Ops), ""},
		{"takeovers", count(r.Takeovers), ""},
		{"of stopped processes", count(r.PausedTakeovers), ""},
		{"stale writes refused", count(r.StaleRefused), ""},
		{"ambiguous commits", count(r.Ambiguous), ""},
		{"slowest recovery", p.Figures[6].Value, ""},
		{"violations", count(len(r.Violations)), ""},
	}
	violations := res.Violations
	if len(violations) == 0 {
		violations = r.Violations
	}
	if h != nil {
		p.Chart = draw(h)
		p.faults(h)
	}
	p.violations(h, violations)
	return p
}

func gateways(n int) string {
	if n == 0 {
		return "none: the clients are at the lock and the store themselves"
	}
	return plural(n, "process") + " of fencegate serve"
}

// faults fills the table of what the nemesis did.
func (p *page) faults(h *history.History) {
	began, _ := extent(h)
	for _, f := range h.Faults {
		row := faultRow{Name: f.Name, At: since(f.From, began), What: f.Detail}
		if f.Void != "" {
			row.Force, row.Healing, row.Recovery = "-", "-", "-"
			row.What = "void: " + f.Void
			p.Faults = append(p.Faults, row)
			continue
		}
		row.Force = span(time.Duration(f.Heal - f.Injected))
		row.Healing = span(time.Duration(f.To - f.Heal))
		row.Recovery = "never"
		if f.Recovered > 0 {
			row.Recovery = span(time.Duration(f.Recovered - f.To))
		}
		for _, who := range []struct {
			verb string
			list []int
		}{{"stopped", f.Paused}, {"killed", f.Killed}} {
			if len(who.list) > 0 {
				row.What = strings.TrimPrefix(fmt.Sprintf("%s; %s: %s", row.What, who.verb, numberList(who.list)), "; ")
			}
		}
		p.Faults = append(p.Faults, row)
	}
}

func numberList(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return "process " + strings.Join(words, ", ")
}

// violations fills the sections of what was violated, with the calls that show it.
func (p *page) violations(h *history.History, list []check.Violation) {
	calls := map[string]*history.Op{}
	var began int64
	if h != nil {
		began, _ = extent(h)
		for i := range h.Ops {
			calls[h.Ops[i].ID] = &h.Ops[i]
		}
	}
	for i, v := range list {
		shown := violation{
			ID: "violation-" + strconv.Itoa(i+1), Check: v.Check, Invariant: v.Invariant, Group: v.Group, Text: v.Text, Picture: v.Picture,
		}
		for _, id := range v.Ops {
			o := calls[id]
			if o == nil || len(shown.Calls) == mostCalls {
				shown.More++
				continue
			}
			row := callRow{
				At: since(o.Call, began), Took: "-", ID: o.ID, Process: fmt.Sprintf("%d · %d", o.Process, o.Seat), Kind: string(o.Kind),
				Doing: doing(*o), Answer: answered(*o), Number: numbers(*o), Outcome: outcome(*o), Class: class(*o),
			}
			if o.Return != 0 {
				row.Took = span(time.Duration(o.Return - o.Call))
			}
			shown.Calls = append(shown.Calls, row)
		}
		p.Violations = append(p.Violations, shown)
	}
}

// class is the colour of a call.
func class(o history.Op) string {
	switch o.Outcome {
	case "applied", "refused":
		return o.Outcome
	}
	return "other"
}
