package torture_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture"
	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/client"
	"github.com/fencegate/fencegate/internal/torture/report"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "client" {
		if err := client.Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.Main(m)
}

// small is a run that a busy machine can make, too.
func small(faults ...string) torture.Config {
	c := torture.Config{
		Rig:    rig.Spec{Lock: "redis", Store: "redis", Processes: 2},
		Faults: faults, Workloads: []string{"register", "coupon"}, Duration: time.Second, Seed: 1,
	}
	c.Rig.Client.Seats, c.Rig.Client.Groups, c.Rig.Client.TTL = 4, 2, 500*time.Millisecond
	c.Rig.Client.Late = 1
	return c
}

// TestRun: a run works, makes its fault, recovers, and is judged.
func TestRun(t *testing.T) {
	t.Parallel()
	var phases []string
	c := small("client-pause")
	c.Duration = 6 * time.Second // several stops: after one of them somebody comes too late, on whatever machine
	out, err := torture.Run(t.Context(), c, func(p torture.Progress) {
		if !slices.Contains(phases, p.Doing) {
			phases = append(phases, p.Doing)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r := out.Run
	if r.Verdict != report.Held || r.Why != "" {
		t.Errorf("%s: %s", r.Verdict, r.Why)
	}
	if r.Injected == 0 || len(r.Recoveries) != r.Injected || r.Ops < 100 || r.Histories != 4 || !out.History.FinalRead {
		t.Errorf("got %+v", r)
	}
	for _, f := range out.History.Faults {
		if f.From > f.Injected || f.Injected > f.Heal || f.Heal > f.To || f.To > f.Recovered || len(f.Paused) == 0 || f.Cut {
			t.Errorf("the fault is not in order: %+v", f)
		}
	}
	if !slices.Contains(phases, "client-pause") {
		t.Errorf("was told of %q", phases)
	}
	answered := 0
	for _, op := range out.History.Ops {
		if op.Return != 0 {
			answered++
		}
	}
	if answered < len(out.History.Ops)*9/10 {
		t.Errorf("%d of %d calls have an answer", answered, len(out.History.Ops))
	}
}

// TestVoid: a fault that this machine cannot make leaves a void run, which says why.
func TestVoid(t *testing.T) {
	t.Parallel()
	server := filepath.Join(t.TempDir(), "fencegate")
	if out, err := exec.Command("go", "build", "-o", server, "../../cmd/fencegate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := small("gateway-old-and-new") // and no older build is given
	c.Rig.Gateways, c.Rig.Server, c.Rig.Store, c.Workloads = 2, server, "postgres", []string{"register"}
	out, err := torture.Run(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := out.Run; r.Verdict != report.Void || !r.CannotBeMade || !strings.Contains(r.Why, "older") && !strings.Contains(r.Why, "earlier") {
		t.Errorf("got %s: %s", r.Verdict, r.Why)
	}
}

// TestJudge: a violation stands whatever else happened, and a run that shows nothing is void.
func TestJudge(t *testing.T) {
	t.Parallel()
	quiet := check.Figures{Ops: 100, Histories: 4}
	refused, undecided := quiet, quiet
	refused.StaleRefused = 1
	undecided.StaleRefused, undecided.Undecided = 1, 2
	broken := []check.Violation{{Check: "register", Text: "went back"}}
	for name, c := range map[string]struct {
		run  report.Run
		void error
		want string
		why  string
	}{
		"held":                            {report.Run{Figures: refused}, nil, report.Held, ""},
		"nothing to hold":                 {report.Run{Figures: quiet}, nil, report.Void, "nothing to hold"},
		"forged numbers have no refusals": {report.Run{Figures: quiet, Faults: []string{"forged"}, Injected: 1}, nil, report.Held, ""},
		"no fault was made":               {report.Run{Figures: refused, Faults: []string{"client-pause"}}, nil, report.Void, "no fault was made"},
		"undecided":                       {report.Run{Figures: undecided}, nil, report.Void, "2 histories"},
		"cut short":                       {report.Run{Figures: refused}, errors.New("interrupted"), report.Void, "interrupted"},
		"violated, though cut short":      {report.Run{Figures: quiet, Violations: broken}, errors.New("interrupted"), report.Violated, "went back"},
	} {
		torture.Judge(&c.run, c.void)
		if c.run.Verdict != c.want || !strings.Contains(c.run.Why, c.why) || (c.why == "") != (c.run.Why == "") {
			t.Errorf("%s: got %s: %q, want %s with %q", name, c.run.Verdict, c.run.Why, c.want, c.why)
		}
	}
}

// TestInterrupted: a run that is cut short is healed, read and judged, and counts for nothing.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := small("client-pause")
	c.Duration = time.Hour
	out, err := torture.Run(ctx, c, func(p torture.Progress) {
		if p.Doing == "client-pause" {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := out.Run; r.Verdict != report.Void || r.Why != "interrupted" || !out.History.FinalRead {
		t.Errorf("got %s: %s", r.Verdict, r.Why)
	}
}

// TestConfig: what is wrong is told before anything is started.
func TestConfig(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*torture.Config){
		"lock":      func(c *torture.Config) { c.Rig.Lock = "zookeeper" },
		"store":     func(c *torture.Config) { c.Rig.Store = "" },
		"gateways":  func(c *torture.Config) { c.Rig.Lock = "memory" },
		"fault":     func(c *torture.Config) { c.Faults = []string{"meteor"} },
		"unfit":     func(c *torture.Config) { c.Faults = []string{"postgres-kill"} },
		"workload":  func(c *torture.Config) { c.Workloads = []string{"sleep"} },
		"table":     func(c *torture.Config) { c.Workloads = []string{"table"} },
		"duration":  func(c *torture.Config) { c.Duration = time.Millisecond },
		"ttl":       func(c *torture.Config) { c.Rig.Client.TTL = time.Microsecond },
		"seats":     func(c *torture.Config) { c.Rig.Client.Seats = -1 },
		"few seats": func(c *torture.Config) { c.Rig.Client.Seats, c.Rig.Processes = 1, 1 },
		"late":      func(c *torture.Config) { c.Rig.Client.Late = 1.5 },
		"hold":      func(c *torture.Config) { c.Rig.Client.Hold = time.Hour },
		"destroys": func(c *torture.Config) {
			c.Rig.RedisURL = "redis://127.0.0.1:1/0"
			c.Faults = []string{"redis-flushall"}
		},
		"own": func(c *torture.Config) {
			c.Rig.RedisURL = "redis://127.0.0.1:1/0"
			c.Faults = []string{"redis-kill"}
			c.Allow = true
		},
	} {
		c := small()
		change(&c)
		err := c.Check()
		var invalid *fencing.InvalidError
		if !errors.As(err, &invalid) || invalid.Allowed == "" {
			t.Errorf("%s: got %v, want an *InvalidError that says what is allowed", name, err)
		}
		if _, ran := torture.Run(t.Context(), c, nil); ran == nil || ran.Error() != err.Error() {
			t.Errorf("%s: Run says %v", name, ran)
		}
	}
	c := small()
	if err := c.Check(); err != nil {
		t.Errorf("a good one: %v", err)
	}
}

// TestProof: every cell is told of once, and one that could not be run is run once more, after the others.
func TestProof(t *testing.T) {
	t.Parallel()
	good := small().Rig
	good.Client.Groups = 1
	bad := rig.Spec{Lock: "memory", Store: "sqlite", Gateways: 1} // there is no such server
	var again []string
	done := map[string]int{}
	err := torture.Proof(t.Context(), torture.ProofConfig{
		Cells:    []torture.Cell{{Fault: "client-pause", Rig: bad}, {Fault: "client-pause", Rig: good}},
		Duration: time.Second, Parallel: 2, Server: "/nowhere/fencegate", Args: []string{"program"},
		Again: func(c torture.Cell, why string) {
			if why == "" {
				t.Errorf("%s is run once more for no reason", c.Name())
			}
			again = append(again, c.Rig.Lock)
		},
		Done: func(n, of int, c torture.Cell, out *torture.Outcome, err error) {
			done[c.Rig.Lock]++
			if n != len(done) || of != 2 {
				t.Errorf("%s is the %d. of %d", c.Name(), n, of)
			}
			switch {
			case c.Rig.Lock == "memory" && err == nil:
				t.Errorf("%s was run: %s", c.Name(), out.Run.Verdict)
			case c.Rig.Lock == "redis" && (err != nil || out.Run.Verdict != report.Held || out.Run.Args[0] != "program"):
				t.Errorf("%s: %v", c.Name(), err)
			}
		},
	})
	// The good one may be run once more as well, where a busy machine took too long to serve everybody again.
	if err != nil || !slices.Equal(slices.DeleteFunc(again, func(lock string) bool { return lock == "redis" }), []string{"memory"}) || done["memory"] != 1 || done["redis"] != 1 {
		t.Errorf("got %v, %q once more, %v done", err, again, done)
	}
}

// TestCells: every fault has a cell, and a draw leaves so many of each.
func TestCells(t *testing.T) {
	t.Parallel()
	all := torture.Cells()
	count := map[string]int{}
	for _, c := range all {
		count[c.Fault]++
	}
	if len(count) < 30 || len(all) < 100 {
		t.Errorf("got %d kinds of faults in %d cells, want 30 in 100", len(count), len(all))
	}
	drawn := torture.Draw(all, 2, 7)
	again := torture.Draw(all, 2, 7)
	got := map[string]int{}
	for i, c := range drawn {
		got[c.Fault]++
		if again[i].Name() != c.Name() {
			t.Errorf("the same seed draws %s and %s", c.Name(), again[i].Name())
		}
	}
	for f, n := range count {
		if got[f] != min(n, 2) {
			t.Errorf("%s: %d of %d cells", f, got[f], n)
		}
	}
}
