// Command brokenlocks is the museum of broken locks: each well-known lock and its well-known failure,
// run for real, first on a store that takes every write and then on one that checks fencing tokens.
//
//	go run ./examples/brokenlocks
//	go run ./examples/brokenlocks list
//	go run ./examples/brokenlocks del-without-owner paused-holder
//
// It starts private servers of its own and ends them again: Redis where redis-server is in the PATH and
// a stand-in in this process otherwise, PostgreSQL where it is installed. Its exit status is 0 if every
// exhibit that could be shown ended as it must: damaged without a fence, and nothing lost with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	redis.SetLogger(silent{}) // a server that is dead on purpose is no news
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// The exit statuses of the program.
const (
	asItMust = 0 // every exhibit that was shown ended as it must
	wrong    = 1 // one did not, or could not be told
	misused  = 2 // the command line is not readable
)

// run is the program, with its exit status.
func run(ctx context.Context, args []string, out, complaints io.Writer) int {
	o, err := parse(args, complaints)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return asItMust
	case err != nil:
		fmt.Fprintln(complaints, "brokenlocks:", err)
		return misused
	case o.list:
		list(out)
		return asItMust
	}
	if err := visit(ctx, o, out); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(complaints, "brokenlocks:", err)
		return wrong
	}
	return asItMust
}

// options is what the command line says.
type options struct {
	list     bool
	exhibits []Exhibit
	redis    string // auto, server or miniredis
	pace     time.Duration
}

// The bounds of a pace: a lock must last for longer than a few round trips, and somebody waits for it.
const (
	minPace     = 50 * time.Millisecond
	fastPace    = 100 * time.Millisecond
	defaultPace = 300 * time.Millisecond
	maxPace     = 10 * time.Second
)

func parse(args []string, complaints io.Writer) (options, error) {
	var o options
	var fast bool
	flags := flag.NewFlagSet("brokenlocks", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.redis, "redis", "auto", "`server`: a private redis-server from the PATH; miniredis: a stand-in in this process; auto: the first where it is")
	flags.DurationVar(&o.pace, "pace", defaultPace, "how long the locks last, and so how long the waits for their end are, 50ms to 10s")
	flags.BoolVar(&fast, "fast", false, "the same as --pace 100ms")
	flags.Usage = func() {
		fmt.Fprint(complaints, "usage: brokenlocks [flags]            all exhibits\n"+
			"       brokenlocks [flags] NAME...    some of them\n"+
			"       brokenlocks list               their names\n\n")
		flags.SetOutput(complaints)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if fast {
		o.pace = fastPace
	}
	if o.pace < minPace || o.pace > maxPace {
		return o, fmt.Errorf("--pace %v: allowed is %v to %v", o.pace, minPace, maxPace)
	}
	if !slices.Contains([]string{"auto", "server", "miniredis"}, o.redis) {
		return o, fmt.Errorf("--redis %q: allowed is auto, server or miniredis", o.redis)
	}
	names := flags.Args()
	if len(names) == 1 && names[0] == "list" {
		o.list = true
		return o, nil
	}
	var err error
	o.exhibits, err = pick(names)
	return o, err
}

// pick returns the exhibits of these names, in their order; all where there is none.
func pick(names []string) ([]Exhibit, error) {
	all := Exhibits()
	if len(names) == 0 {
		return all, nil
	}
	var picked []Exhibit
	for _, name := range names {
		if strings.HasPrefix(name, "-") {
			return nil, fmt.Errorf("%s: flags come before the names", name)
		}
		i := slices.IndexFunc(all, func(e Exhibit) bool { return e.Name == name })
		if i < 0 {
			known := make([]string, len(all))
			for i, e := range all {
				known[i] = e.Name
			}
			return nil, fmt.Errorf("there is no exhibit %q; there are %s", name, strings.Join(known, ", "))
		}
		picked = append(picked, all[i])
	}
	return picked, nil
}

func list(out io.Writer) {
	for _, e := range Exhibits() {
		fmt.Fprintf(out, "%-24s %s\n", e.Name, e.Title)
	}
}

// open starts what the exhibits need and says what it is. Where PostgreSQL is missing, World.Database
// is nil.
func open(ctx context.Context, o options, s *servers) (w *World, what []string, err error) {
	w = &World{TTL: o.pace}
	var nodes, clocks int
	postgres := false
	for _, e := range o.exhibits {
		switch _, data := e.Needs.locks(); e.Needs {
		case Postgres:
			postgres = true
		case Clocks:
			clocks = max(clocks, data+1)
		default:
			nodes = max(nodes, data+1)
		}
	}
	if w.Real = o.redis == "server"; o.redis == "auto" {
		_, err := exec.LookPath("redis-server")
		w.Real = err == nil
	}
	if w.Nodes, err = s.redis(ctx, nodes, w.Real); err != nil {
		return nil, nil, err
	}
	if w.Clocks, err = s.redis(ctx, clocks, false); err != nil {
		return nil, nil, err
	}
	switch {
	case nodes > 0 && w.Real:
		what = append(what, plural(nodes, "private redis-server", "private redis-servers"))
	case nodes > 0:
		what = append(what, plural(nodes, "stand-in for Redis", "stand-ins for Redis")+" in this process (miniredis)")
	}
	if clocks > 0 && (w.Real || nodes == 0) {
		what = append(what, "stand-ins (miniredis) where clocks must jump")
	}
	if !postgres {
		return w, what, nil
	}
	bin, ok := postgresPrograms()
	if !ok {
		return w, what, nil
	}
	w.Database, err = s.startPostgres(ctx, bin)
	if err != nil { // one that is there and does not start is like none, for a museum
		w.NoDatabase = "a PostgreSQL that starts: " + err.Error()
		return w, what, ctx.Err()
	}
	return w, append(what, "a private PostgreSQL"), nil
}
