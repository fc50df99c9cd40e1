//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fencegate/fencegate/internal/testenv"
)

// quickExit keeps the race detector from waiting a second at the end of each process.
const quickExit = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	_ = os.Setenv("GORACE", quickExit) // for the processes that the tests start
	testscript.Main(runner{m}, map[string]func(){"fencegate": main})
}

// runner stops the shared servers after the tests.
type runner struct{ m *testing.M }

func (r runner) Run() int {
	if signal.Ignored(syscall.SIGHUP) { // under nohup: the programs that the tests start would ignore it, too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	return testenv.Run(r.m)
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"postgres": postgresCmd, "status": statusCmd,
			"emptydir": emptyDirCmd, "closedport": closedPortCmd, "busyport": busyPortCmd, "silentport": silentPortCmd,
		},
		Setup: func(e *testscript.Env) error {
			e.Values[tbKey{}] = e.T()
			e.Setenv("GORACE", quickExit)
			return nil
		},
	})
}
