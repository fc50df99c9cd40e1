// Command fencegate serves locks and fenced records over HTTP, talks to such a gateway or to the
// servers of a lock and a store, looks after them, and shows what fencing tokens do.
//
// Exit status: 0 done, 1 failed, 2 wrong usage, 69 a server does not answer, 75 somebody else
// holds the lock, 76 refused by the fence or by the data, 77 the lease is lost, 130 interrupted.
// exec passes on the status of its command; a command that cannot be run is 126, one that is not
// there 127; one that a signal ended, like an exec that a signal ended while it waited, is 128 and
// the signal's number.
//
// Data goes to standard output, everything else to standard error. Errors say whether anything
// was written. Secrets are never arguments: tokens and API keys come from variables and files.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"

	"github.com/fencegate/fencegate/internal/story"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

type cli struct {
	Serve      serveCmd      `cmd:"" help:"Serve locks and fenced records over HTTP."`
	Exec       execCmd       `cmd:"" help:"Run a command under a lock, with its fencing token."`
	Lock       lockCmd       `cmd:"" help:"Take, renew and free locks."`
	Records    recordsCmd    `cmd:"" help:"Read and write records."`
	Commit     commitCmd     `cmd:"" help:"Write several records, of several resources, at once."`
	Fence      fenceCmd      `cmd:"" help:"Look at marks, and check tokens."`
	Watch      watchCmd      `cmd:"" help:"Print what happens at a gateway."`
	Demo       demoCmd       `cmd:"" help:"Tell the story of the paused client: without a lock, with one, and with the fence."`
	Lab        labCmd        `cmd:"" help:"Learn fencing by playing: a page with two clients, a lock and a store."`
	Redlock    redlockCmd    `cmd:"" help:"Set up and look after the nodes of a redlock cluster."`
	Doctor     doctorCmd     `cmd:"" help:"Say whether the lock and the store are set up so that they keep their promises."`
	Evict      evictCmd      `cmd:"" help:"End tokens without their holders."`
	Keys       keysCmd       `cmd:"" help:"Make, list and take away the keys of a gateway's callers."`
	Migrate    migrateCmd    `cmd:"" help:"Move a database to the schema that this program needs, or back."`
	Prune      pruneCmd      `cmd:"" help:"Drop marks and counters that nobody needs any more."`
	Guard      guardCmd      `cmd:"" help:"Guard tables of your own in Postgres: writes need the token of the row's resource."`
	Completion completionCmd `cmd:"" help:"Print the completion script of a shell."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	DemoActor  demoActorCmd  `cmd:"" hidden:"" help:"Play a client of the demo: used by it."`
}

// run carries out one command line and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (status int) {
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away ends a command by an error, and tidily
	ctx, stop := untilSignal()
	defer stop()

	var help helpShown
	parser := kong.Must(&cli{},
		kong.Name("fencegate"),
		kong.Description("A fenced storage gateway: locks that issue fencing tokens, and stores that refuse the stale ones.\n\n"+exitHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.Help(printHelp),
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
	if completing(args) {
		kongcompletion.Register(parser) // answers what may come next, and ends
	}
	switch {
	case len(args) == 0, len(args) == 1 && args[0] == "help":
		args = []string{"--help"}
	case len(args) == 1 && args[0] == "--version":
		args = []string{"version"}
	}
	k, err := parser.Parse(args)
	command := selected(k, err)
	_, unprinted := errors.AsType[*fs.PathError](err) // the help
	switch {
	case unprinted:
	case err != nil:
		if command == execName && (!slices.Contains(args, "--") || strings.HasPrefix(err.Error(), "unexpected argument")) {
			err = fmt.Errorf("%w (%w)", errNoDashes, err)
		}
		if negative.MatchString(err.Error()) {
			err = fmt.Errorf("%w; a negative number goes behind --", err)
		}
		err = usageError{err}
	default:
		err = k.Run()
	}
	if _, told := errors.AsType[cutOff](err); err != nil && ctx.Err() != nil && !told {
		err = interrupted{err}
	}
	status = exitStatus(err)
	if err != nil {
		report(stderr, err, command)
	}
	return status
}

// selected names the command that was parsed, or that parsing came to.
func selected(k *kong.Context, err error) string {
	if e, ok := errors.AsType[*kong.ParseError](err); ok {
		k = e.Context
	}
	if k == nil || k.Selected() == nil {
		return "fencegate"
	}
	return k.Selected().FullPath()
}

// printHelp is the help text. The usage of exec is its own: the parser knows nothing of --.
func printHelp(o kong.HelpOptions, k *kong.Context) error {
	if selected(k, nil) == execName {
		o.NoAppSummary = true
		fmt.Fprintln(k.Stdout, "Usage:", execUsage)
	}
	return kong.DefaultHelpPrinter(o, k)
}

// negative is what the parser says of a negative number, which it takes for a flag.
var negative = regexp.MustCompile(`^unknown flag -\d`)

// ending are the signals that end a command, but for those that were ignored from the start, as
// nohup and background jobs of scripts have it.
func ending() []os.Signal {
	if signal.Ignored(os.Interrupt) {
		return []os.Signal{syscall.SIGTERM}
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM}
}

// untilSignal returns a context that a signal ends, with the signal as its cause. A second one
// ends the process.
func untilSignal() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := make(chan os.Signal, 1)
	signal.Notify(c, ending()...)
	go func() {
		select {
		case sig := <-c:
			signal.Stop(c)
			cancel(arrived{sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(c)
		cancel(nil)
	}
}

// arrived is the cause of a context that a signal has ended.
type arrived struct{ sig os.Signal }

func (a arrived) Error() string { return a.sig.String() + " signal received" }

// Is makes it a cancellation, as that of signal.NotifyContext is one.
func (arrived) Is(target error) bool { return target == context.Canceled }

// helpShown ends a run after kong has printed a help text.
type helpShown struct{ _ byte }
