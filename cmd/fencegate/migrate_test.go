package main

import (
	"bytes"
	"database/sql"
	"os"
	"os/exec"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fencegate/fencegate/internal/testenv"
)

// TestMigrateInterrupted interrupts a migration that waits for another one.
func TestMigrateInterrupted(t *testing.T) {
	t.Parallel()
	url := testenv.SharedPostgres(t).NewDatabase(t)
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "SELECT pg_advisory_lock(x'66656e6365676174'::bigint)"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "fencegate", "migrate", "up", "--database", url)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, time.Minute, "the migration waits", func() bool {
		var waits bool
		const q = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"
		return db.QueryRowContext(t.Context(), q).Scan(&waits) == nil && waits
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 130 || out.Len() != 0 {
		t.Errorf("exit status %d, want 130; stdout %q, stderr %q", got, &out, &stderr)
	}
	var there bool
	if err := db.QueryRowContext(t.Context(), "SELECT to_regnamespace('fencegate') IS NOT NULL").Scan(&there); err != nil || there {
		t.Errorf("an interrupted migration migrated: %v, %v", there, err)
	}
}
