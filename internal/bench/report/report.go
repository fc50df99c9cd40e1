// Package report collects figures and shows them: progress while they are measured, a table
// and charts at the end, and a list that programs read.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fencegate/fencegate/internal/bench/measure"
)

// Which way a figure is better.
const (
	Higher = "higher"
	Lower  = "lower"
)

// Goal is what a figure should reach.
type Goal struct {
	Name   string
	Unit   string
	Target float64
	Better string // Higher or Lower
}

// Result is one goal with what was reached: the median of the runs. Its JSON is read by
// others; the names stay.
type Result struct {
	Name   string    `json:"name"`
	Value  float64   `json:"value"`
	Target float64   `json:"target"`
	Better string    `json:"better"`
	Met    bool      `json:"met"`
	Unit   string    `json:"unit"`
	Runs   []float64 `json:"runs"` // empty: it could not be measured
}

// note is a figure without a goal.
type note struct {
	name, unit string
	runs       []float64
}

// Report collects the figures of one group. It is not for concurrent use.
type Report struct {
	out     io.Writer
	start   time.Time
	results []Result
	notes   []note
	charts  []Bars
	failed  []string
}

// New returns an empty report that shows its progress on out.
func New(out io.Writer) *Report { return &Report{out: out, start: time.Now()} }

// Progress says what is being done now.
func (r *Report) Progress(format string, args ...any) {
	fmt.Fprintf(r.out, "%4.0fs  %s\n", time.Since(r.start).Seconds(), fmt.Sprintf(format, args...))
}

// Reached adds a figure that has a goal.
func (r *Report) Reached(g Goal, runs ...float64) {
	value := round(measure.Median(runs))
	res := Result{Name: g.Name, Value: value, Target: g.Target, Better: g.Better, Unit: g.Unit, Runs: []float64{}}
	for _, run := range runs {
		res.Runs = append(res.Runs, round(run))
	}
	res.Met = g.Better == Higher && value >= g.Target || g.Better == Lower && value <= g.Target
	r.results = append(r.results, res)
	r.Progress("%s: %s %s (goal %s %s), %s", g.Name, figure(value), g.Unit, sign(g.Better), figure(g.Target), met(res.Met))
}

// Noted adds a figure that has no goal.
func (r *Report) Noted(name, unit string, runs ...float64) {
	r.notes = append(r.notes, note{name, unit, runs})
	r.Progress("%s: %s %s", name, figure(measure.Median(runs)), unit)
}

// Failed says that a part ended early, and why. Those of its goals that were not reached by
// then are in the list as not met, without runs.
func (r *Report) Failed(err error, goals ...Goal) {
	for _, g := range goals {
		if slices.ContainsFunc(r.results, func(res Result) bool { return res.Name == g.Name }) {
			continue
		}
		r.results = append(r.results, Result{Name: g.Name, Target: g.Target, Better: g.Better, Unit: g.Unit, Runs: []float64{}})
	}
	r.failed = append(r.failed, err.Error())
	r.Progress("ended early: %v", err)
}

// Chart adds a chart.
func (r *Report) Chart(b Bars) { r.charts = append(r.charts, b) }

// Charts returns the charts, with one of all goals as the first.
func (r *Report) Charts(group string) []Bars {
	return append([]Bars{goals(group, r.results)}, r.charts...)
}

// JSON returns the list of results.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r.results, "", "  ")
	return append(text, '\n'), err
}

// Table returns all figures as text.
func (r *Report) Table() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "goal\treached\tgoal\tunit\t\truns")
	for _, res := range r.results {
		fmt.Fprintf(w, "%s\t%s\t%s %s\t%s\t%s\t%s\n", res.Name, figure(res.Value), sign(res.Better), figure(res.Target), res.Unit, met(res.Met), figures(res.Runs))
	}
	if len(r.notes) > 0 {
		fmt.Fprintln(w, "\t\t\t\t\t")
		fmt.Fprintln(w, "also measured\t\t\t\t\t")
	}
	for _, n := range r.notes {
		fmt.Fprintf(w, "%s\t%s\t\t%s\t\t%s\n", n.name, figure(measure.Median(n.runs)), n.unit, figures(n.runs))
	}
	_ = w.Flush()
	for _, f := range r.failed {
		fmt.Fprintf(&text, "\nended early: %s", f)
	}
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// round keeps four digits: more are noise.
func round(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

func figure(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1e6:
		return fmt.Sprintf("%.2fM", x/1e6)
	case a >= 1000:
		return fmt.Sprintf("%.0f", x)
	case a >= 100:
		return fmt.Sprintf("%.1f", x)
	case a > 0 && a < 0.01:
		return fmt.Sprintf("%.2g", x)
	}
	return fmt.Sprintf("%.3g", x)
}

func figures(runs []float64) string {
	texts := make([]string, len(runs))
	for i, run := range runs {
		texts[i] = figure(run)
	}
	return strings.Join(texts, " ")
}

func sign(better string) string {
	if better == Higher {
		return ">="
	}
	return "<="
}

func met(yes bool) string {
	if yes {
		return "met"
	}
	return "not met"
}
