// Package check finds, in the history of a run, what must not be, and counts what was.
//
// Everything here is a pure function of a history; the same history gives the same verdict.
package check

import (
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// Violation is a promise that was broken.
type Violation struct {
	Invariant string   `json:"invariant"` // "INV5", or "" where it is a workload's own
	Check     string   `json:"check"`     // such as "linearizable"
	Group     string   `json:"group"`
	Text      string   `json:"text"`          // what was seen and what was promised
	Ops       []string `json:"ops,omitempty"` // the calls that show it
	Picture   string   `json:"-"`             // an HTML page of the group's history; empty where there is none
}

// Figures are what a run amounts to.
type Figures struct {
	Ops, Applied, Refused, Failed, Unknown int
	Grants                                 int
	Takeovers                              int             // grants of a resource whose last holder had not released it
	PausedTakeovers                        int             // of them, while the last holder's process was stopped
	StaleRefused                           int             // commits that the fence refused, forged ones not counted
	ForgedRefused                          int             // forged and replayed tokens that were refused
	Ambiguous                              int             // commits with a key of which an attempt's outcome was unknown
	Resolved                               int             // of them, whose outcome became known under the key
	Histories                              int             // groups whose history was checked for linearizability
	Undecided                              int             // of them, that could not be decided in time
	Recoveries                             []time.Duration // after each fault, from its healing until every group was served again
	Leaks                                  int
}

// Result is a verdict on a history.
type Result struct {
	Figures
	Violations []Violation
}

// Check judges a history. workloads are those that were run.
func Check(h *history.History, o *Options) Result { panic("not written yet") }

// Options tunes Check. Nil and the zero value mean the defaults.
type Options struct {
	// Undecided is how long the linearizability of one group is looked at. Default: 20 s.
	Undecided time.Duration
	// Pictures is how many violations get one. Default: 3.
	Pictures int
}
