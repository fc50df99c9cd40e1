package torture

import (
	"time"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/report"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// Config is a run.
type Config struct {
	Rig       rig.Spec // what faults need besides is added by Run
	Faults    []string // names of package fault, drawn at random; empty: none
	Workloads []string // empty: all that fit
	Duration  time.Duration
	Seed      uint64
	Allow     bool // faults that destroy data, on servers of the user's own
	Args      []string
}

// Progress is what a run has come to so far.
type Progress struct {
	Elapsed                                      time.Duration
	Doing                                        string // "starting", a fault's name, "recovering", "checking", ...
	Ops, Takeovers, Refused, Unknown, Violations int
}

// Outcome is all there is to say of a run.
type Outcome struct {
	Run     report.Run
	History *history.History // nil where the run did not get that far
	Result  check.Result
}
