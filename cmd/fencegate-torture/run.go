package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/fencegate/fencegate/internal/torture"
	"github.com/fencegate/fencegate/internal/torture/report"
)

// serverFlags name the programs that are tested.
type serverFlags struct {
	Server    string `placeholder:"PATH" env:"FENCEGATE_TORTURE_SERVER" help:"The fencegate program for gateways. Default: the one beside this program, else the one in the path, else it is built, where this is its source tree."`
	OldServer string `placeholder:"PATH" env:"FENCEGATE_TORTURE_OLD_SERVER" help:"One of an earlier version, for the second gateway."`
}

// outputFlags say how a command tells what it does.
type outputFlags struct {
	Output string `enum:"text,json" default:"text" env:"FENCEGATE_TORTURE_OUTPUT" help:"How the verdict is printed: ${enum}."`
	Quiet  bool   `short:"q" env:"FENCEGATE_TORTURE_QUIET" help:"Show no progress."`
}

type runCmd struct {
	Lock      string   `enum:"memory,redis,redlock,postgres,rowlock" default:"redis" env:"FENCEGATE_TORTURE_LOCK" help:"Where the lock is: ${enum} (default: ${default}). memory is inside a gateway; rowlock is Postgres' row locks."`
	Store     string   `enum:"memory,sqlite,redis,postgres" default:"postgres" env:"FENCEGATE_TORTURE_STORE" help:"Where the data is: ${enum} (default: ${default}). memory and sqlite are inside a gateway."`
	Gateways  *int     `placeholder:"N" env:"FENCEGATE_TORTURE_GATEWAYS" help:"So many processes of the real server, 0 to 10, between the clients and the lock and store. Default: 1 where one of them is inside, else none."`
	Workloads []string `default:"all" placeholder:"NAME,..." env:"FENCEGATE_TORTURE_WORKLOADS" help:"What the clients do; all: everything that fits (default: ${default})."`
	Faults    []string `default:"all" placeholder:"NAME,..." env:"FENCEGATE_TORTURE_FAULTS" help:"What is broken, see the command faults; all: everything that fits; none: nothing (default: ${default})."`

	Clients  int           `default:"${clients}" env:"FENCEGATE_TORTURE_CLIENTS" help:"Client processes (default: ${default})."`
	Seats    int           `default:"${seats}" env:"FENCEGATE_TORTURE_SEATS" help:"Goroutines of each that work at once (default: ${default})."`
	Groups   int           `default:"${groups}" env:"FENCEGATE_TORTURE_GROUPS" help:"Resources of each workload, or sets of them that are committed together (default: ${default})."`
	TTL      time.Duration `default:"${ttl}" env:"FENCEGATE_TORTURE_TTL" help:"The lease time of the locks (default: ${default})."`
	Hold     time.Duration `default:"${hold}" env:"FENCEGATE_TORTURE_HOLD" help:"About how long a turn works between its read and its write (default: ${default})."`
	Late     float64       `default:"${late}" env:"FENCEGATE_TORTURE_LATE" help:"The share of turns that write again after their lease has ended, 0 to 1 (default: ${default})."`
	Duration time.Duration `default:"${duration}" env:"FENCEGATE_TORTURE_DURATION" help:"How long clients work; every fault is made once at least (default: ${default})."`
	Seed     *uint64       `placeholder:"N" env:"FENCEGATE_TORTURE_SEED" help:"Decides which faults come when. Default: a new one, printed."`

	serverFlags
	RedisURL    string `placeholder:"URL" env:"FENCEGATE_TORTURE_REDIS_URL" help:"A Redis of yours instead of private ones: redis://HOST:PORT (database 0, no password, no TLS), or with --gateways any redis:// or rediss:// URL. The run keeps to keys of its own, fencegate:{torture-..., and removes them."`
	PostgresURL string `placeholder:"URL" env:"FENCEGATE_TORTURE_POSTGRES_URL" help:"A Postgres of yours instead of a private one: postgres://USER@HOST:PORT/NAME. The run makes a database of its own beside it, fencegate_torture_..., and drops it."`
	Allow       bool   `env:"FENCEGATE_TORTURE_ALLOW" help:"Allow faults that can destroy data on servers of yours, such as FLUSHALL. Without it they are refused."`

	Report string `placeholder:"FILE" env:"FENCEGATE_TORTURE_REPORT" help:"Write the run as one HTML page that needs nothing else."`
	Record string `placeholder:"FILE" env:"FENCEGATE_TORTURE_RECORD" help:"Add the run to a record, one line of JSON."`
	outputFlags
}

// Help implements kong.HelpProvider.
func (runCmd) Help() string {
	return `Servers, gateways, clients and links are started for the run and ended with it. ` +
		`The clients write down every call; faults are made one after another, by the seed, and healed; then everything that was seen is checked. ` +
		`held: no promise was broken, and there was something to hold. violated: one was broken; the run stops at the first. ` +
		`void: nothing was refused, taken over or left unknown, or this machine cannot make the fault.`
}

// Run implements the command.
func (c *runCmd) Run(ctx context.Context, std stdio) error {
	config, notes, err := c.config()
	if err != nil {
		return err
	}
	if err := c.canKeep(); err != nil {
		return err
	}
	if config.Rig.Gateways > 0 {
		server, remove, err := findServer(ctx, c.Server, std.err)
		if err != nil {
			return err
		}
		defer remove()
		config.Rig.Server = server
	}
	for _, note := range notes {
		fmt.Fprintln(std.err, "fencegate-torture:", note)
	}
	var bar *progress
	var watch func(torture.Progress)
	if !c.Quiet {
		fmt.Fprintf(std.err, "%s, seed %d, %v\n", report.PairName(config.Rig.Lock, config.Rig.Store, config.Rig.Gateways), config.Seed, config.Duration)
		bar = newProgress(std.err, config.Duration)
		watch = bar.show
	}
	out, err := torture.Run(ctx, config, watch)
	bar.end()
	if err != nil {
		return notMade(err, ctx.Err() != nil)
	}
	return c.tell(std, out, ctx.Err() != nil)
}

// canKeep says whether the report and the record can be written, before anything is started.
func (c *runCmd) canKeep() error {
	if c.Report != "" {
		if c.Record != "" && filepath.Clean(c.Report) == filepath.Clean(c.Record) {
			return usagef("--report and --record are both %s: want two files", c.Report)
		}
		if err := canReplace("--report", c.Report); err != nil {
			return err
		}
	}
	return canAppend("--record", c.Record)
}

// seed is the one that was asked for, or a new one that is easy to type.
func (c *runCmd) seed() uint64 {
	if c.Seed != nil {
		return *c.Seed
	}
	return rand.Uint64N(1_000_000_000)
}

// tell prints a run's verdict, writes its page and its line, and returns its exit status.
func (c *runCmd) tell(std stdio, out *torture.Outcome, interrupted bool) error {
	o := &report.TextOptions{Report: c.Report, Record: c.Record, Colour: colour(std.out)}
	var errs []error
	if c.Report != "" {
		if err := writePage(c.Report, out); err != nil {
			errs, o.Report = append(errs, fmt.Errorf("the report could not be written: %w", err)), ""
		}
	}
	if c.Record != "" {
		if err := report.Append(c.Record, out.Run); err != nil {
			errs, o.Record = append(errs, fmt.Errorf("the run could not be recorded: %w", err)), ""
		}
	}
	var err error
	if c.Output == "json" {
		err = report.JSON(std.out, out.Run, o)
	} else {
		err = report.Text(std.out, out.Run, out.History, o)
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("the verdict (%s) could not be printed: %w", out.Run.Verdict, err))
	}
	status := verdictStatus(out.Run.Verdict, interrupted)
	if len(errs) > 0 && status == exitHeld {
		status = exitVoid
	}
	if status == exitHeld {
		return nil
	}
	return statusError{status, errors.Join(errs...)}
}
