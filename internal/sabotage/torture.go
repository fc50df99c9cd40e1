package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// patience is how long a run may look for a planted bug; it ends when it has found something.
	patience = time.Minute
	// calm is how long the same run is without a bug: it must find nothing.
	calm = 10 * time.Second
)

// The verdicts of a run, by its exit status.
const (
	held     = "held"
	violated = "violated"
	void     = "void"
)

// programs are the fault machine and the server, built with a bug or without one.
type programs struct{ machine, server string }

// build compiles both, with an overlay unless that is empty.
func build(ctx context.Context, dir, overlay string) (programs, error) {
	p := programs{filepath.Join(dir, "fencegate-torture"), filepath.Join(dir, "fencegate")}
	for path, pkg := range map[string]string{p.machine: "./cmd/fencegate-torture", p.server: "./cmd/fencegate"} {
		args := []string{"build", "-o", path}
		if overlay != "" {
			args = append(args, "-overlay", overlay)
		}
		if out, err := exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput(); err != nil {
			return p, fmt.Errorf("it does not compile: %w\n%s", err, out)
		}
	}
	return p, nil
}

// torture makes a run and returns its verdict and what it printed.
func (p programs) torture(ctx context.Context, duration time.Duration, args []string) (verdict, output string, err error) {
	args = append([]string{"run", "--quiet", "--server", p.server, "--duration", duration.String()}, args...)
	cmd := exec.CommandContext(ctx, p.machine, args...)
	// Interrupted, it heals and closes what it has started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return held, string(out), nil
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return violated, string(out), nil
	case errors.As(err, &exit) && exit.ExitCode() == 3:
		return void, string(out), nil
	}
	return "", string(out), fmt.Errorf("the run could not be made: %w", err)
}
