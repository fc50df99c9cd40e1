// Package report shows runs: one as a page, all as a table.
package report

import (
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
	Why       string        `json:"why,omitempty"`  // of void and violated
	Args      []string      `json:"args,omitempty"` // the command that repeats it
	check.Figures
	Violations []check.Violation `json:"violations,omitempty"`
}
