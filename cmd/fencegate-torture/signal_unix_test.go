//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// TestMain is a process that waits for its first signal, where its parent asks for one.
func TestMain(m *testing.M) {
	if os.Getenv("FENCEGATE_TORTURE_TEST_WAITS") == "" {
		if signal.Ignored(syscall.SIGHUP) { // under nohup: the processes that the tests start would ignore it, too
			signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		}
		os.Exit(m.Run())
	}
	if os.Getenv("FENCEGATE_TORTURE_TEST_WAITS") == "nohup" {
		signal.Ignore(syscall.SIGHUP)
	}
	ctx, stop := untilSignal()
	defer stop()
	for s := range strings.SplitSeq(os.Getenv("FENCEGATE_TORTURE_TEST_SIGNALS"), ",") {
		number := map[string]syscall.Signal{"hup": syscall.SIGHUP, "int": syscall.SIGINT, "term": syscall.SIGTERM}[s]
		if err := syscall.Kill(os.Getpid(), number); err != nil {
			panic(err)
		}
	}
	<-ctx.Done()
	_, _ = os.Stdout.WriteString(context.Cause(ctx).Error())
}

// TestSignals: a hangup ends a run as SIGTERM does, unless it is ignored.
func TestSignals(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ how, signals, want string }{
		{"plain", "hup", "hangup signal received"},
		{"plain", "term", "terminated signal received"},
		{"plain", "int", "interrupt signal received"},
		{"nohup", "hup,term", "terminated signal received"},
	} {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), "FENCEGATE_TORTURE_TEST_WAITS="+c.how, "FENCEGATE_TORTURE_TEST_SIGNALS="+c.signals)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != c.want {
			t.Errorf("%s, %s: %q, %v, want %q", c.how, c.signals, out, err, c.want)
		}
	}
}
