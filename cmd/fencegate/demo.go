package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/fencegate/fencegate/internal/diagram"
	"github.com/fencegate/fencegate/internal/story"
	"github.com/fencegate/fencegate/locking"
)

type demoCmd struct {
	Mode string `enum:"none,lock,fence,gap,all" default:"all" env:"FENCEGATE_DEMO_MODE" help:"Which telling: ${enum}; gap is two of them."`
	backendFlags
	TTL    time.Duration `default:"1s" env:"FENCEGATE_DEMO_TTL" help:"The clients' lease time, 200ms to 1m; A is stopped for longer."`
	Pause  string        `enum:"signal,simulated" default:"${pause}" env:"FENCEGATE_DEMO_PAUSE" help:"How A is stopped: ${enum}; signal is SIGSTOP."`
	Listen string        `default:"127.0.0.1:0" env:"FENCEGATE_DEMO_LISTEN" help:"The address of the demo's gateway; port 0 picks a free one."`
	Trace  string        `placeholder:"FILE" env:"FENCEGATE_DEMO_TRACE" help:"Write what happened to this file, too: the lab takes it in."`
	SVG    string        `name:"svg" placeholder:"DIR" env:"FENCEGATE_DEMO_SVG" help:"Draw each telling to DIR/MODE-light.svg and DIR/MODE-dark.svg, too."`
	outputFlag
}

// Help implements kong.HelpProvider.
func (demoCmd) Help() string {
	return `A coupon has 10 left. Client A takes the lock (token 33), reads 10, checks its lease one last time and is stopped. ` +
		`Client B takes the lock (34), reads, hands out one and writes 9. A wakes up and writes the 9 that it had computed. ` +
		`The same script runs without a lock, with the lock, and with the fence; then with the fence on writes only, and raised at the grant. ` +
		`On a Redis or Postgres of yours, each telling leaves the lock's counter, the mark and the record of one resource, coupon:MODE.RANDOM. ` +
		`The exit status is 0 only if every telling ended as it must.`
}

func defaultPause(canSignal bool) string {
	if canSignal {
		return "signal"
	}
	return "simulated"
}

func (c *demoCmd) modes() []story.Mode {
	var modes []story.Mode
	for _, m := range story.Modes() {
		if c.Mode == "all" || c.Mode == m.Name || c.Mode == "gap" && strings.HasPrefix(m.Name, "gap-") {
			modes = append(modes, m)
		}
	}
	return modes
}

// errUnexpected ends the demo with 1: the story did not end as it must.
var errUnexpected = errors.New("a telling did not end as it must: see the table")

// Run implements the command.
func (c *demoCmd) Run(ctx context.Context, std stdio) (err error) {
	if c.TTL < 200*time.Millisecond || c.TTL > time.Minute || locking.ValidateTTL(c.TTL) != nil {
		return usageError{fmt.Errorf("--ttl %v: want 200ms to 1m, in whole milliseconds", c.TTL)}
	}
	if c.Pause == "signal" && !story.CanSignal {
		return usageError{errors.New("--pause signal: this system has no SIGSTOP; use --pause simulated")}
	}
	if host, _, err := net.SplitHostPort(c.Listen); err != nil || host == "" {
		return usageError{fmt.Errorf("--listen %q: want HOST:PORT", c.Listen)}
	}
	if err := c.places(); err != nil {
		return err
	}
	back, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, back.close()) }()
	text := c.Output == "text"
	if text {
		fmt.Fprintf(std.out, "A coupon has %d left. A reads, and is stopped. B takes over. A wakes up and writes what it computed.\n",
			story.Initial)
	}
	var results []story.Result
	for _, m := range c.modes() {
		if text {
			fmt.Fprintf(std.out, "\n%s: %s\n\n", m.Name, m.Title)
		}
		res, err := story.Run(ctx, story.Setup{Lock: back.lock, Store: back.store, TTL: c.TTL, Listen: c.Listen, Start: c.start}, m)
		if err != nil {
			return err
		}
		results = append(results, res)
		if text {
			if err := c.tell(std.out, res); err != nil {
				return err
			}
		}
	}
	rep := story.NewReport(c.Lock, c.Store, c.Pause, results)
	if text {
		fmt.Fprintln(std.out)
		err = story.Table(std.out, results)
	} else {
		err = writeJSON(std.out, rep)
	}
	if err == nil {
		err = c.record(results)
	}
	if err == nil && !rep.OK {
		err = errUnexpected
	}
	return err
}

// places says that a file that was asked for cannot be written, before all is played for it.
func (c *demoCmd) places() error {
	if c.Trace != "" {
		if _, err := os.Stat(filepath.Dir(c.Trace)); err != nil {
			return fmt.Errorf("--trace: %w", err)
		}
		if is, err := os.Stat(c.Trace); err == nil && is.IsDir() {
			return fmt.Errorf("--trace: %s is a directory, want a file", c.Trace)
		}
	}
	if c.SVG != "" {
		if err := os.MkdirAll(c.SVG, 0o755); err != nil { //nolint:gosec // pictures
			return fmt.Errorf("--svg: %w", err)
		}
	}
	return nil
}

// record writes the files that were asked for.
func (c *demoCmd) record(results []story.Result) error {
	recorded := story.Trace(c.Lock, c.Store, results)
	if c.Trace != "" {
		var text bytes.Buffer
		if err := writeJSON(&text, recorded); err != nil {
			return err
		}
		if err := os.WriteFile(c.Trace, text.Bytes(), 0o644); err != nil { //nolint:gosec // it holds no secret
			return fmt.Errorf("--trace: %w", err)
		}
	}
	if c.SVG == "" {
		return nil
	}
	for _, run := range recorded.Runs {
		for theme, dark := range map[string]bool{"light": false, "dark": true} {
			var picture bytes.Buffer
			if err := diagram.SVG(&picture, run, diagram.Picture{Dark: dark, Lock: c.Lock, Store: c.Store}); err != nil {
				return err
			}
			file := filepath.Join(c.SVG, run.Name+"-"+theme+".svg")
			if err := os.WriteFile(file, picture.Bytes(), 0o644); err != nil { //nolint:gosec // a picture
				return fmt.Errorf("--svg: %w", err)
			}
		}
	}
	return nil
}

func (c *demoCmd) tell(w io.Writer, res story.Result) error {
	if err := res.Diagram(c.Lock, c.Store).Text(w, colour(w)); err != nil {
		return err
	}
	if !res.AsExpected() {
		_, err := fmt.Fprintln(w, "\nThis is not how it must end: see the table.")
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", res.Mode.Moral)
	return err
}

// start plays a role, in a process of its own where it is to be stopped for real.
func (c *demoCmd) start(ctx context.Context, r story.Role) (story.Performer, error) {
	if c.Pause == "simulated" {
		return story.StartSimulated(r)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "demo-actor")
	cmd.Args[0] = os.Args[0]
	cmd.Stderr = os.Stderr
	return story.StartProcess(cmd, r)
}

type demoActorCmd struct{}

// Run implements the command.
func (demoActorCmd) Run(ctx context.Context, std stdio) error {
	return story.Serve(ctx, std.in, std.out)
}

// colour says whether w is a terminal whose user has not asked for plain text.
func colour(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
