//go:build unix

package main

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestPruneScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script/prune",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": statusCmd, "postgres": postgresCmd, "migrated": migratedCmd, "closedport": closedPortCmd,
			"raise": raiseCmd, "old": oldCmd, "plain": plainCmd, "sqlite": sqliteCmd,
		},
		Setup: func(e *testscript.Env) error {
			e.Values[tbKey{}] = e.T()
			e.Setenv("GORACE", quickExit)
			return nil
		},
	})
}

// oldCmd is "old postgres" or "old sqlite": all marks of $PG or $SQLITE become a year older, and
// r:0 gets an answer to an idempotency key that is as old.
func oldCmd(ts *testscript.TestScript, _ bool, args []string) {
	driver, source := "pgx", ts.Getenv("PG")
	queries := []string{
		"update fencegate.marks set changed_at = changed_at - interval '1 year'",
		"insert into fencegate.answers values ('r:0', 'order-7', decode(repeat('00', 32), 'hex'), '', 33, now() - interval '1 year')",
	}
	if len(args) == 1 && args[0] == "sqlite" {
		driver, source = "sqlite", ts.Getenv("SQLITE")
		queries = []string{
			"UPDATE fencegate_marks SET changed_at = changed_at - 31536000",
			"INSERT INTO fencegate_answers VALUES ('r:0', 'order-7', zeroblob(32), x'', 33, 0)",
		}
	}
	db, err := sql.Open(driver, source)
	ts.Check(err)
	for _, q := range queries {
		_, err = db.Exec(q)
		ts.Check(err)
	}
	ts.Check(db.Close())
}

// plainCmd is "plain postgres" or "plain sqlite": a plain number is raised, as by a classic store.
func plainCmd(ts *testscript.TestScript, _ bool, args []string) {
	stored(ts, args[0], func(ctx context.Context, s fencing.Fence) error {
		return s.Raise(ctx, fencing.Token{Resource: "zk:A", Number: 1000000})
	})
}

// sqliteCmd is "sqlite FILE STATEMENT": it runs one, as another program does.
func sqliteCmd(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.Exec(args[1])
	ts.Check(err)
	ts.Check(db.Close())
}

// TestPruneInterrupted interrupts a prune that waits for a raise under way. Nothing is half
// done, it says so, and it can be run again.
func TestPruneInterrupted(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{
		"select fencegate.evict('r', 7, '')", "update fencegate.marks set changed_at = changed_at - interval '1 year'",
	} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "select fencegate.absent_floor()"); err != nil {
		t.Fatal(err)
	}
	run := func(during func(*os.Process)) (status int, stderr string) {
		cmd := exec.CommandContext(t.Context(), "fencegate", "prune", "--older-than", "720h", "--store", "postgres", "--postgres-url", url)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		during(cmd.Process)
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode(), errs.String()
	}
	status, stderr := run(func(p *os.Process) {
		testenv.Eventually(t, patience, "it waits", func() bool {
			var waits bool
			const q = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'relation'"
			return db.QueryRowContext(t.Context(), q).Scan(&waits) == nil && waits
		})
		if err := p.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	})
	if status != exitInterrupted || !strings.Contains(stderr, "not done: 0 of the first 0 marks dropped") {
		t.Errorf("exit status %d, want 130; stderr %q", status, stderr)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	var marks, floor int
	const q = "select (select count(*) from fencegate.marks), floor from fencegate.meta"
	if err := db.QueryRowContext(t.Context(), q).Scan(&marks, &floor); err != nil || marks != 1 || floor != 0 {
		t.Errorf("%d marks and the floor %d, %v, want 1 and 0", marks, floor, err)
	}
	if status, stderr := run(func(*os.Process) {}); status != exitOK || !strings.Contains(stderr, "done: 1 of 1 marks dropped") {
		t.Errorf("again: exit status %d, want 0; stderr %q", status, stderr)
	}
}
