// Package report shows runs of the fault machine: one as a page (HTML), as text or as JSON; all of
// them, which a file keeps (Append, Load), as the sums and the tables of docs/reliability.md.
//
// What it shows was written by programs under faults, and by servers: every text is escaped. No
// page refers to anything outside of itself.
package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/torture/check"
)

// Verdicts.
const (
	Held     = "held"
	Violated = "violated"
	Void     = "void"
)

// Run is one run as it is recorded: one line of docs/reliability.jsonl.
type Run struct {
	Time      time.Time     `json:"time"`
	Version   string        `json:"version"` // of the code: commit or module version
	Machine   string        `json:"machine"` // system, processors, Redis and Postgres versions
	Lock      string        `json:"lock"`
	Store     string        `json:"store"`
	Gateways  int           `json:"gateways,omitempty"`
	Faults    []string      `json:"faults"`
	Workloads []string      `json:"workloads"`
	Seed      uint64        `json:"seed"`
	Clients   int           `json:"clients"` // processes
	Seats     int           `json:"seats"`   // of each
	Duration  time.Duration `json:"duration"`
	Injected  int           `json:"injected"` // faults that were made
	Verdict   string        `json:"verdict"`
	Why       string        `json:"why,omitempty"` // of void and violated
	// CannotBeMade says that the machine cannot make the fault: the run is void, and that is nobody's fault.
	CannotBeMade bool     `json:"cannot,omitempty"`
	Args         []string `json:"args,omitempty"` // the command that repeats it
	check.Figures
	Violations []check.Violation `json:"violations,omitempty"`
}

// Rig names what it took place on, such as "redis+postgres" or "memory+sqlite, 1 gateway".
func (r Run) Rig() string { return PairName(r.Lock, r.Store, r.Gateways) }

// PairName names a lock and a store, and the gateways in front of them if there are any.
func PairName(lock, store string, gateways int) string {
	name := lock + "+" + store
	if gateways > 0 {
		name += ", " + plural(gateways, "gateway")
	}
	return name
}

// Command is the command line that repeats the run, quoted for a shell; empty where it is not known.
func (r Run) Command() string {
	words := make([]string, len(r.Args))
	for i, a := range r.Args {
		words[i] = quote(a)
	}
	return strings.Join(words, " ")
}

// quote makes one word of a shell's command line.
func quote(s string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:=,+@%", c)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// plural is such as "1 gateway" or "2 gateways".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "s") {
		noun += "e"
	}
	return fmt.Sprintf("%s %ss", count(n), noun)
}
