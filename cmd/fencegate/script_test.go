//go:build unix

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) {
	testscript.Main(runner{m}, map[string]func(){"fencegate": main})
}

// runner stops the shared servers after the tests.
type runner struct{ m *testing.M }

func (r runner) Run() int { return testenv.Run(r.m) }

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
			return nil
		},
	})
}
