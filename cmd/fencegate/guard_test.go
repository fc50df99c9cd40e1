//go:build unix

package main

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestGuardScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script/guard",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"postgres": postgresCmd, "status": statusCmd, "sql": sqlCmd,
		},
		Setup: func(e *testscript.Env) error {
			e.Values[tbKey{}] = e.T()
			e.Setenv("GORACE", quickExit)
			return nil
		},
	})
}

// sqlCmd is "sql STATEMENT": it runs it in the database $PG; "! sql CODE STATEMENT" wants it to
// fail with an SQLSTATE.
func sqlCmd(ts *testscript.TestScript, neg bool, args []string) {
	tb := ts.Value(tbKey{}).(testing.TB)
	conn, err := pgx.Connect(tb.Context(), ts.Getenv("PG"))
	ts.Check(err)
	defer conn.Close(tb.Context())
	_, err = conn.Exec(tb.Context(), args[len(args)-1])
	if !neg {
		ts.Check(err)
		return
	}
	var code string
	if e, ok := err.(interface{ SQLState() string }); ok {
		code = e.SQLState()
	}
	if code != args[0] {
		ts.Fatalf("got %v, want SQLSTATE %s", err, args[0])
	}
}
