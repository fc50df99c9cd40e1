package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

type execCmd struct {
	Resource string         `arg:"" help:"What to lock: coupon:42, say."`
	Command  []string       `arg:"" name:"cmd" help:"The command and its arguments, behind --."`
	TTL      time.Duration  `name:"ttl" default:"30s" env:"FENCEGATE_EXEC_TTL" help:"How long the lock outlives this process, should it fall silent, 100ms to 1h (default: ${default})."`
	Wait     *time.Duration `env:"FENCEGATE_EXEC_WAIT" help:"How long to wait for the lock. Default: as long as it takes."`
	Nonblock bool           `env:"FENCEGATE_EXEC_NONBLOCK" help:"Do not wait: --wait 0s."`
	Grace    time.Duration  `default:"10s" env:"FENCEGATE_EXEC_GRACE" help:"How long the command has to end itself once the lease is lost, before it is killed (default: ${default})."`
	Label    string         `env:"FENCEGATE_EXEC_LABEL" help:"What the holder calls itself, for all to see. Default: the host's name and the number of this process."`
	targetFlags
}

const (
	execName  = "fencegate exec"
	execUsage = execName + " [flags] RESOURCE -- CMD [ARGS]"
)

var errNoDashes = errors.New("the command goes behind --: " + execUsage)

// Help implements kong.HelpProvider.
func (execCmd) Help() string {
	return "What stands behind -- is run as it is:\n\n" +
		"  fencegate exec report:daily --nonblock -- /usr/local/bin/report --all\n" +
		"  fencegate exec coupon:42 --ttl 10s -- sh -c 'fencegate records add coupon:42 stock -- -1'\n\n" +
		"The lock is renewed while the command runs, and freed after it, its token ended. The command finds the token in FENCING_TOKEN, " +
		"the resource in FENCING_RESOURCE, the token's number in FENCING_NUMBER and the gateway in FENCEGATE_URL: " +
		"what it writes with them is refused once somebody else has the lock. " +
		"Nobody can be kept from effects that no store checks: mail, payments, files." +
		"\n\nWhere the lease is lost, the command gets SIGTERM, and SIGKILL after --grace. " +
		"Signals to this process go on to the command; while it waits for the lock they end the waiting. " +
		"Without a terminal the command has a process group of its own, and what it started is signalled with it. " +
		"On a terminal it belongs to the same job, so that Ctrl-C and Ctrl-Z reach both, once each, and other signals go to the command alone; when the lease is lost there, " + lostOnTerminal +
		"If this process is killed (kill -9), Linux kills the command, but not what it has started; elsewhere neither ends. The fence alone stops them." +
		"\n\nExit status: the command's, or 128 and the number of the signal that ended it; 75 somebody else holds the lock, 77 the lease was lost, " +
		"126 or 127 the command cannot be run or is not there; 1, 2 and 69 as everywhere." + targetHelp
}

// Run implements the command.
func (c *execCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	if i := slices.Index(k.Args, "--"); i < 0 || !slices.Equal(k.Args[i+1:], c.Command) {
		return usageError{errNoDashes}
	}
	wait, err := c.check()
	if err != nil {
		return err
	}
	if _, err := exec.LookPath(c.Command[0]); err != nil { // before anybody waits for it
		return cannotRun(err)
	}
	sigs := relayed()
	defer sigs.stop()
	t, err := c.open(ctx, k, needLock|needStore|needShared)
	if err != nil {
		if sig := sigs.came(ctx); sig != nil {
			return ended(sig, nil)
		}
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	o := locking.Options{TTL: c.TTL, Label: c.Label, Wait: wait}
	if o.Label == "" {
		o.Label = hostLabel() + ":" + strconv.Itoa(os.Getpid())
	}
	locker, err := locking.New(t.issuer, &o)
	if err != nil {
		return usageError{err}
	}
	bound, cancel := t.bound(ctx, wait)
	defer cancel()
	lease, err := c.acquire(bound, locker, sigs, wait == 0)
	if err != nil {
		return err
	}
	return c.under(lease, t, sigs, std)
}

// check returns how long to wait, negative for as long as it takes.
func (c *execCmd) check() (wait time.Duration, err error) {
	if err := errors.Join(fencing.ValidateResource(c.Resource), locking.ValidateTTL(c.TTL)); err != nil {
		return 0, usageError{err}
	}
	if c.Grace < 0 {
		return 0, usageError{&fencing.InvalidError{What: "--grace", Got: c.Grace.String(), Allowed: "0s or more"}}
	}
	wait = -1
	if c.Wait != nil {
		if wait = *c.Wait; wait < 0 {
			return 0, usageError{&fencing.InvalidError{What: "--wait", Got: wait.String(), Allowed: "0s or more"}}
		}
	}
	if c.Nonblock {
		if wait > 0 {
			return 0, usageError{errors.New("--wait and --nonblock: which of the two?")}
		}
		wait = 0
	}
	if wait < 0 && os.Getenv(envResource) == c.Resource && os.Getenv(envToken) != "" {
		return 0, usageError{fmt.Errorf("this runs under the lock on %s already (FENCING_TOKEN), and would wait for itself", c.Resource)}
	}
	return wait, nil
}

// acquire waits for the lock. A signal ends the waiting, and nothing is held then.
func (c *execCmd) acquire(ctx context.Context, l *locking.Locker, sigs *signals, once bool) (*locking.Lease, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		lease *locking.Lease
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		var a answer
		if once {
			a.lease, a.err = l.TryAcquire(waiting, c.Resource)
		} else {
			a.lease, a.err = l.Acquire(waiting, c.Resource)
		}
		answered <- a
	}()
	var sig os.Signal
	var a answer
	select {
	case sig = <-sigs.c:
		cancel()
		a = <-answered
	case a = <-answered:
		if sig = sigs.came(ctx); sig == nil {
			return a.lease, grants.of(a.err)
		}
	}
	if a.lease != nil {
		a.err = fencing.AsPartial(a.lease.Release(ctx))
	}
	return nil, ended(sig, a.err)
}

// under runs the command under its lease.
func (c *execCmd) under(lease *locking.Lease, t *target, sigs *signals, std stdio) error {
	runtime.LockOSThread() // the command's life is tied to this thread's
	defer runtime.UnlockOSThread()
	cmd := exec.Command(c.Command[0], c.Command[1:]...) //nolint:noctx // it ends by signals
	cmd.Stdin, cmd.Stdout, cmd.Stderr = std.in, std.out, std.err
	cmd.Env = t.environment(lease.Token())
	child := newChild(cmd)
	if err := cmd.Start(); err != nil {
		c.release(lease, std)
		return cannotRun(err)
	}
	err := c.attend(child, lease, sigs, std)
	lost := lease.Context().Err() != nil
	if !c.release(lease, std) || lost {
		return statusError{exitLost, errors.New("the lease was lost while the command ran")}
	}
	return passOn(cmd.ProcessState, err)
}

// attend passes signals on until the command has ended, and ends it when the lease is lost.
func (c *execCmd) attend(child *child, lease *locking.Lease, sigs *signals, std stdio) error {
	waited := make(chan error, 1)
	go func() { waited <- child.cmd.Wait() }()
	lost := lease.Context().Done()
	var kill <-chan time.Time
	for {
		select {
		case sig := <-sigs.c:
			child.forward(sig)
		case <-lost:
			lost = nil
			fmt.Fprintf(std.err, "fencegate: the lease on %s is lost: ending the command\n", c.Resource)
			child.end()
			timer := time.NewTimer(c.Grace)
			defer timer.Stop()
			kill = timer.C
		case <-kill:
			kill = nil
			child.kill()
		case err := <-waited:
			if lost == nil {
				child.sweep(kill) // what it started has the rest of the time
			}
			return err
		}
	}
}

// release ends the token and frees the lock. It is false if the hold had ended before: then
// others may have worked on the resource meanwhile.
func (c *execCmd) release(lease *locking.Lease, std stdio) bool {
	err := lease.Release(context.Background())
	if errors.Is(err, locking.ErrLost) {
		return false
	}
	if err != nil {
		fmt.Fprintln(std.err, "fencegate: the command has ended, but its lock may be held until its lease time is over:", reads.of(err))
	}
	return true
}

// passOn makes the command's end this process's.
func passOn(state *os.ProcessState, err error) error {
	if state == nil {
		return err
	}
	if status := childStatus(state); status != 0 {
		return statusError{status: status}
	}
	return nil
}

// cannotRun is for a command that could not be started.
func cannotRun(err error) error {
	status := exitCannotRun
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		status = exitNoCommand
	}
	return statusError{status, fmt.Errorf("the command was not run: %w", err)}
}
