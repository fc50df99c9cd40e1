// Package check finds, in the history of a run, what must not be, and counts what was.
//
// Everything here is a pure function of a history; the same history gives the same verdict.
//
// # The checks
//
// A violation names the check that found it:
//
//	linearizable  no order of a group's calls explains what they saw (INV5, INV2)
//	versions      one version of a record had two values, or did not grow with a change
//	coupon        stock and receipts do not add up, or sums do not fit the order of their commits
//	accounts      balances that do not add up, a pair of records that are not equal (INV8)
//	epochs        applied commits of two grants interleave, or numbers go back (INV3)
//	outcomes      applied is not there, refused is, nobody wrote it, or twice (INV6, INV7, INV8);
//	              attempts under one key were told what does not fit together (rule 9)
//	numbers       a number was granted twice or out of order, or two grants wrote under one (INV9, INV1)
//	stale         a write or a read was served after a newer grant (INV2)
//	trust         a lock was granted while somebody trusted an older lease (INV9, INV11)
//	forged        a token was served that nobody was granted, or that had ended (INV10, INV11)
//	incarnation   a token from before a loss of data was served after it (rule 11)
//	recovery      not everybody was served again after a fault (INV13)
//	leaks         something was left over (INV13)
//
// # Eras
//
// A fault that loses data or commits ends an era. What overlaps it has no known outcome, what was
// acknowledged before it need not be there any more, and what the records hold after it is found
// out by the first look at them. Everything else holds within an era.
package check

import (
	"cmp"
	"slices"
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

// Figures are what a run amounts to. Applied, Refused, Failed and Unknown are of all calls, and
// add up to Ops.
type Figures struct {
	Ops             int             `json:"ops"`
	Applied         int             `json:"applied"`
	Refused         int             `json:"refused"`
	Failed          int             `json:"failed"`
	Unknown         int             `json:"unknown"`
	Grants          int             `json:"grants"`           // of a resource each
	Takeovers       int             `json:"takeovers"`        // of a lease from another that had not been released, whatever resources they share
	PausedTakeovers int             `json:"paused_takeovers"` // of them, while the last holder's process was stopped, which had not left the lease on purpose
	StaleRefused    int             `json:"stale_refused"`    // commits that the fence refused for a token that had been the mark, forged ones not counted
	ForgedRefused   int             `json:"forged_refused"`   // forged and replayed tokens that were refused
	Ambiguous       int             `json:"ambiguous"`        // commits with a key of which an attempt's outcome was unknown
	Resolved        int             `json:"resolved"`         // of them, whose outcome became known under the key
	Histories       int             `json:"histories"`        // groups whose history was checked for linearizability, by a search or directly
	Searched        int             `json:"searched"`         // of them, that a search decided
	Undecided       int             `json:"undecided"`        // of them, that could not be decided in time
	Recoveries      []time.Duration `json:"recoveries"`       // after each fault, from its healing until every group was served again
	Leaks           int             `json:"leaks"`
	// SupersededRefused are those of StaleRefused that were refused because a newer token was the mark: not
	// for one that had been retired.
	SupersededRefused int `json:"superseded_refused"`
}

// Result is a verdict on a history.
type Result struct {
	Figures
	Violations []Violation
}

// Options tunes Check. Nil and the zero value mean the defaults.
type Options struct {
	// Undecided is how long the linearizability of one group is looked at. Default: 20 s.
	Undecided time.Duration
	// Pictures is how many violations get one; negative: none. Default: 3.
	Pictures int
}

// most is how many violations one check reports of one group: the first tell enough.
const most = 3

// Check judges a history, which it does not change. The linearizability of a group that cannot be
// decided within Options.Undecided is counted, and is no violation.
func Check(h *history.History, o *Options) Result {
	r := newRun(h, o)
	r.count()
	for _, g := range r.groups {
		r.linearizable(g)
		r.versions(g)
		r.coupon(g)
		r.accounts(g)
		r.epochs(g)
		r.outcomes(g)
	}
	r.numbers()
	r.draws()
	r.writers()
	r.stale()
	r.trust()
	r.forged()
	r.incarnations()
	r.recovery()
	r.leaks()
	slices.SortStableFunc(r.result.Violations, func(a, b Violation) int {
		return cmp.Compare(rank[a.Check], rank[b.Check])
	})
	return r.result
}

// rank puts the violations first that say most of the cause.
var rank = map[string]int{
	"forged": 0, "stale": 1, "numbers": 2, "draws": 2, "incarnation": 3, "linearizable": 4, "coupon": 5, "accounts": 6,
	"epochs": 7, "outcomes": 8, "versions": 9, "trust": 10, "recovery": 11, "leaks": 12,
}

// violate notes a violation of a check, unless enough of this check and group are there.
func (r *run) violate(v Violation) {
	k := [2]string{v.Check, v.Group}
	if r.found[k]++; r.found[k] <= most {
		r.result.Violations = append(r.result.Violations, v)
	}
}
