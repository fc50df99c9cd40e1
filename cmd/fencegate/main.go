// Command fencegate shows what fencing tokens do, moves databases to the schema that the
// stores need, and (in later versions) serves the gateway.
//
// Exit status: 0 done, 1 failed, 2 wrong usage, 69 a server does not answer, 130
// interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/internal/story"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

type cli struct {
	Demo      demoCmd      `cmd:"" help:"Tell the story of the paused client: without a lock, with one, and with the fence."`
	Redlock   redlockCmd   `cmd:"" help:"Set up and look after the nodes of a redlock cluster."`
	Doctor    doctorCmd    `cmd:"" help:"Say whether the lock and the store are set up so that they keep their promises."`
	Evict     evictCmd     `cmd:"" help:"End tokens without their holders."`
	Migrate   migrateCmd   `cmd:"" help:"Move a database to the schema that this program needs, or back."`
	Prune     pruneCmd     `cmd:"" help:"Drop marks and counters that nobody needs any more."`
	Guard     guardCmd     `cmd:"" help:"Guard tables of your own in Postgres: writes need the token of the row's resource."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
	DemoActor demoActorCmd `cmd:"" hidden:"" help:"Play a client of the demo: used by it."`
}

// run carries out one command line and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away ends a command by an error, and tidily
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the process

	var help helpShown
	parser := kong.Must(&cli{},
		kong.Name("fencegate"),
		kong.Description("A fenced storage gateway: locks that issue fencing tokens, and stores that refuse the stale ones."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.Vars{"pause": defaultPause(story.CanSignal)},
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { panic(&help) }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(stdio{in: stdin, out: stdout, err: stderr}),
	)
	defer func() {
		if v := recover(); v != nil && v != &help {
			panic(v)
		}
	}()
	switch {
	case len(args) == 0, len(args) == 1 && args[0] == "help":
		args = []string{"--help"}
	case len(args) == 1 && args[0] == "--version":
		args = []string{"version"}
	}
	k, err := parser.Parse(args)
	if err != nil {
		err = usageError{err}
	} else {
		err = k.Run()
	}
	if err != nil && ctx.Err() != nil {
		err = interrupted{err}
	}
	status = exitStatus(err)
	switch {
	case status == exitInterrupted:
		fmt.Fprintln(stderr, "fencegate: interrupted")
	case err != nil:
		fmt.Fprintln(stderr, "fencegate:", err)
	}
	if status == exitUsage {
		fmt.Fprintln(stderr, `Run "fencegate --help" for what is allowed.`)
	}
	return status
}

// helpShown ends a run after kong has printed a help text.
type helpShown struct{ _ byte }

// exitStatus is the one place where errors become exit statuses.
func exitStatus(err error) int {
	if err == nil {
		return exitOK
	}
	if _, ok := errors.AsType[interrupted](err); ok {
		return exitInterrupted
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[unavailableError](err); ok {
		return exitUnavailable
	}
	return exitFailed
}
