package torture

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/report"
)

// verdict is what is recorded of a run.
func (r *run) verdict(started time.Time, out *Outcome, void error) report.Run {
	rec := report.Run{
		Time: started.UTC().Truncate(time.Second), Version: version(), Machine: machine(),
		Lock: r.Rig.Lock, Store: r.Rig.Store, Gateways: r.Rig.Gateways,
		Faults: r.Faults, Workloads: r.Workloads, Seed: r.Seed, Clients: r.Rig.Processes, Seats: r.Rig.Client.Seats,
		Duration: time.Duration(out.History.Ended - out.History.Began).Round(time.Millisecond),
		Args:     r.Args, Figures: out.Result.Figures, Violations: out.Result.Violations,
	}
	for _, f := range out.History.Faults {
		if f.Void == "" {
			rec.Injected++
		}
	}
	judge(&rec, void)
	return rec
}

// judge sets the verdict of a run from its figures, and from what kept it from being one.
func judge(rec *report.Run, void error) {
	// What the checkers found stands, however the run ended.
	switch {
	case len(rec.Violations) > 0:
		rec.Verdict = report.Violated
		rec.Why = fmt.Sprintf("%d violations, the first: %s: %s", len(rec.Violations), rec.Violations[0].Check, rec.Violations[0].Text)
	case void != nil:
		rec.Verdict, rec.Why, rec.CannotBeMade = report.Void, void.Error(), onlyVoid(void)
	case len(rec.Faults) > 0 && rec.Injected == 0:
		rec.Verdict, rec.Why = report.Void, "no fault was made"
	case rec.Takeovers+rec.StaleRefused+rec.Unknown == 0 && !slices.Contains(rec.Faults, "forged"):
		rec.Verdict, rec.Why = report.Void, "nothing was refused, taken over or left unknown: there was nothing to hold"
	case rec.Undecided > 0:
		rec.Verdict, rec.Why = report.Void, fmt.Sprintf("%d histories were not decided in time", rec.Undecided)
	default:
		rec.Verdict = report.Held
	}
}

// onlyVoid reports whether all that went wrong is that the machine cannot make the fault.
func onlyVoid(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, part := range joined.Unwrap() {
			if !onlyVoid(part) {
				return false
			}
		}
		return true
	}
	return fault.IsVoid(err)
}

// version is the commit that the program was built from, as far as it knows.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	at := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "vcs.revision" })
	if at < 0 {
		return info.Main.Version
	}
	commit := info.Settings[at].Value[:min(12, len(info.Settings[at].Value))]
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "vcs.modified", Value: "true"}) {
		commit += "+"
	}
	return commit
}

// machine is what the run took place on.
func machine() string {
	parts := []string{fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())}
	if out, err := exec.CommandContext(context.Background(), "redis-server", "--version").Output(); err == nil {
		if _, v, ok := strings.Cut(string(out), "v="); ok {
			v, _, _ = strings.Cut(v, " ")
			parts = append(parts, "Redis "+v)
		}
	}
	return strings.Join(parts, ", ")
}
