// Command fencegate-torture breaks servers and clients on purpose, while clients work under locks, and
// checks what they have seen and what the stores hold: that no acknowledged write was lost and no stale one
// accepted.
//
// Exit status: 0 held, 1 violated, 2 wrong usage (nothing was started), 3 void (the run shows nothing, or could
// not be made or kept), 130 interrupted (SIGINT,
// SIGTERM, SIGHUP): the run is cut short, healed, checked and reported first, and a violation
// is 1 all the same. A second interrupt ends it at once.
//
// The verdict goes to standard output, progress and everything else to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture"
)

func main() {
	status := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err := testenv.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "fencegate-torture:", err)
	}
	os.Exit(status)
}

type cli struct {
	Run         runCmd         `cmd:"" default:"withargs" help:"Make one run: clients, faults, verdict. This is what is done without a command."`
	Proof       proofCmd       `cmd:"" help:"Make every kind of fault once on every lock and store that it fits."`
	Faults      faultsCmd      `cmd:"" help:"List the kinds of faults: what happens, what must happen, where it fits."`
	Reliability reliabilityCmd `cmd:"" help:"Add up all recorded runs, and write the tables of docs/reliability.md."`
	Client      clientCmd      `cmd:"" hidden:"" help:"Be a client of a run: used by it."`
}

// quiet keeps the Redis client from printing every dial that fails: here many are meant to.
type quiet struct{}

// Printf implements the client's logger.
func (quiet) Printf(context.Context, string, ...any) {}

// stdio is what a command reads and writes: data to out, messages to err.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// run carries out one command line and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	redis.SetLogger(quiet{})
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away must not keep the run from being healed
	var help helpShown
	defer func() {
		if v := recover(); v != nil && v != &help {
			panic(v)
		}
	}()
	if len(args) == 1 && args[0] == "help" {
		args = []string{"--help"}
	}
	k, err := parser(&cli{}, stdout, stderr, func(int) { panic(&help) }).Parse(args)
	command := "fencegate-torture"
	if k != nil && k.Selected() != nil {
		command = k.Selected().FullPath()
	}
	if _, unprinted := errors.AsType[*fs.PathError](err); unprinted { // the help
		return told(stderr, err, command)
	}
	if err != nil {
		return told(stderr, usageError{err}, command)
	}
	ctx, stop := context.Background(), func() {}
	if command == clientName {
		signal.Ignore(os.Interrupt, syscall.SIGHUP) // its parent ends it, when everything is healed
	} else {
		ctx, stop = untilSignal()
	}
	defer stop()
	k.BindTo(ctx, (*context.Context)(nil))
	return told(stderr, k.Run(stdio{in: stdin, out: stdout, err: stderr}), command)
}

// parser knows the command line. exit is called when a help text was printed.
func parser(c *cli, stdout, stderr io.Writer, exit func(int)) *kong.Kong {
	return kong.Must(c,
		kong.Name("fencegate-torture"),
		kong.Description("Breaks servers and clients on purpose, and checks that fencegate keeps its promises.\n\n"+exitHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.Vars{
			"duration": torture.DefaultDuration.String(), "clients": fmt.Sprint(torture.DefaultProcesses), "seats": fmt.Sprint(torture.DefaultSeats),
			"groups": fmt.Sprint(torture.DefaultGroups), "ttl": torture.DefaultTTL.String(),
			"hold": torture.DefaultHold.String(), "late": fmt.Sprint(torture.DefaultLate),
		},
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
	)
}

// untilSignal returns a context that the first signal ends. The second one ends the process.
func untilSignal() (context.Context, func()) {
	signals := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(s) { // as nohup and background jobs of scripts have it
			signals = append(signals, s)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// helpShown ends a run after kong has printed a help text.
type helpShown struct{ _ byte }
