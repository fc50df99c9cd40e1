package main

import (
	"bytes"
	"context"
	"encoding/json"
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

// torture makes a run and returns its verdict, and why. One that showed nothing, since a busy machine did not come to it,
// is made once more.
func (p programs) torture(ctx context.Context, duration time.Duration, args []string) (verdict, why string, err error) {
	verdict, why, err = p.once(ctx, duration, args)
	if (err != nil || verdict == void) && ctx.Err() == nil {
		return p.once(ctx, duration, args)
	}
	return verdict, why, err
}

// search makes a run, and once more if it has missed the bug: what is found by chance takes longer where the machine is
// busy. That is said.
func search(run func() (verdict, why string, err error)) (verdict, why string, err error) {
	verdict, why, err = run()
	if err != nil || verdict != held {
		return verdict, why, err
	}
	verdict, why, err = run()
	return verdict, "(in a second minute) " + why, err
}

func (p programs) once(ctx context.Context, duration time.Duration, args []string) (verdict, why string, err error) {
	args = append([]string{"run", "--quiet", "--output", "json", "--server", p.server, "--duration", duration.String()}, args...)
	cmd := exec.CommandContext(ctx, p.machine, args...)
	// Interrupted, it heals and closes what it has started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err = cmd.Run()
	var run struct {
		Verdict, Why string
		Violations   []struct{ Check, Text string }
	}
	if parsed := json.Unmarshal(out.Bytes(), &run); parsed != nil {
		return "", stderr.String(), fmt.Errorf("the run could not be made: %w", errors.Join(err, parsed))
	}
	// A run that is slow, or left something over, has not found the bug.
	for _, v := range run.Violations {
		if v.Check != "recovery" && v.Check != "leaks" && v.Check != "client" {
			return violated, v.Check + ": " + v.Text, nil
		}
	}
	if run.Verdict == violated {
		return void, run.Why, nil
	}
	return run.Verdict, run.Why, nil
}
