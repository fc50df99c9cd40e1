package story

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is the JSON form of a whole run.
type Report struct {
	Scenario string       `json:"scenario"`
	Lock     string       `json:"lock"`
	Store    string       `json:"store"`
	Pause    string       `json:"pause"`
	OK       bool         `json:"ok"` // every mode ended as expected
	Modes    []ModeReport `json:"modes"`
}

// ModeReport is the JSON form of a Result.
type ModeReport struct {
	Mode          string        `json:"mode"`
	Initial       int64         `json:"initial"`
	HandedOut     int           `json:"handed_out"`
	Remaining     int64         `json:"remaining"`
	Refused       int           `json:"refused"`
	InvariantHeld bool          `json:"invariant_held"` // handed out + remaining = initial
	AsExpected    bool          `json:"as_expected"`
	Tokens        []string      `json:"tokens"`
	Events        []EventReport `json:"events"`
}

// EventReport is the JSON form of an Event.
type EventReport struct {
	AtMS    int64  `json:"at_ms"`
	Actor   string `json:"actor"`
	Action  Action `json:"action"`
	Number  string `json:"number,omitempty"`
	Value   string `json:"value,omitempty"`
	Highest string `json:"highest,omitempty"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail,omitempty"`
}

// NewReport returns the JSON form of results.
func NewReport(lock, store, pause string, results []Result) Report {
	rep := Report{Scenario: "paused-client", Lock: lock, Store: store, Pause: pause, OK: true, Modes: []ModeReport{}}
	for _, r := range results {
		rep.OK = rep.OK && r.AsExpected()
		m := ModeReport{
			Mode: r.Mode.Name, Initial: Initial, HandedOut: r.HandedOut, Remaining: r.Remaining, Refused: r.Refused,
			InvariantHeld: r.Held(), AsExpected: r.AsExpected(), Tokens: append([]string{}, r.Tokens...), Events: []EventReport{},
		}
		for _, e := range r.Events {
			m.Events = append(m.Events, EventReport{
				AtMS: e.At.Round(time.Millisecond).Milliseconds(), Actor: e.Actor, Action: e.Action,
				Number: positive(e.Number), Value: value(e), Highest: positive(e.Highest), Outcome: e.Outcome, Detail: e.Detail,
			})
		}
		rep.Modes = append(rep.Modes, m)
	}
	return rep
}

func positive(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func value(e Event) string {
	if e.Action != Read && e.Action != Write {
		return ""
	}
	return strconv.FormatInt(e.Value, 10)
}

// Table writes what came of each mode, from measured values.
func Table(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "mode\tA's late write\thanded out\tremaining\tcoupons\ttokens\tas expected")
	for _, r := range results {
		tokens := strings.Join(r.Tokens, ", ")
		if tokens == "" {
			tokens = "none"
		}
		expected := "yes"
		if !r.AsExpected() {
			expected = "NO"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", r.Mode.Name, r.LateWrite, r.HandedOut, r.Remaining, r.account(), tokens, expected)
	}
	return t.Flush()
}

// account says in words whether every coupon is accounted for.
func (r Result) account() string {
	switch over := int64(r.HandedOut) + r.Remaining - Initial; {
	case over > 0:
		return fmt.Sprintf("%d too many", over)
	case over < 0:
		return fmt.Sprintf("%d vanished", -over)
	}
	return "all accounted for"
}
