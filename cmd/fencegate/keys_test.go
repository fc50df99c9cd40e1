//go:build unix

package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestKeysScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script/keys",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": statusCmd, "mode": modeCmd, "id": idCmd, "nosecret": noSecretCmd,
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", quickExit)
			return nil
		},
	})
}

// modeCmd is "mode FILE MODE": the file has the mode.
func modeCmd(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	want, err := strconv.ParseUint(args[1], 8, 32)
	ts.Check(err)
	if got := info.Mode().Perm(); got != os.FileMode(want) {
		ts.Fatalf("got %o, want %o", got, want)
	}
}

// idCmd is "id FILE": it puts the ID of the key in a file into $ID.
func idCmd(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv("ID", strings.Split(ts.ReadFile(args[0]), "_")[1])
}

// noSecretCmd is "nosecret KEY FILE": the file does not have the key's secret.
func noSecretCmd(ts *testscript.TestScript, _ bool, args []string) {
	secret := strings.TrimSpace(strings.Split(ts.ReadFile(args[0]), "_")[2])
	if strings.Contains(ts.ReadFile(args[1]), secret) {
		ts.Fatalf("%s has the secret", args[1])
	}
}
