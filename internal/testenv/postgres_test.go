package testenv_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/internal/testenv"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = c.Close(context.WithoutCancel(t.Context())) })
	return c
}

func execSQL(t *testing.T, url, sql string) {
	t.Helper()
	if _, err := connect(t, url).Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func wantText(t *testing.T, url, sql, want string) {
	t.Helper()
	var got string
	if err := connect(t, url).QueryRow(t.Context(), sql).Scan(&got); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if got != want {
		t.Errorf("%s: got %q, want %q", sql, got, want)
	}
}

func exists(t *testing.T, url, table string) bool {
	t.Helper()
	var got bool
	if err := connect(t, url).QueryRow(t.Context(), "SELECT to_regclass($1) IS NOT NULL", table).Scan(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestPostgresThroughKillsAndCopies(t *testing.T) {
	t.Parallel()
	p := testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true})
	addr := p.Addr()
	fills := 0
	fill := func(string) error { fills++; return nil }
	p.NewDatabaseFrom(t, "empty", fill)
	execSQL(t, p.URL(), "CREATE TABLE stock (n int); INSERT INTO stock VALUES (10)")
	p.SaveCopy()
	execSQL(t, p.URL(), "UPDATE stock SET n = 9")

	busy := connect(t, p.URL())
	p.Kill()
	if err := busy.Ping(t.Context()); err == nil {
		t.Error("a connection of a killed server answered")
	}
	p.Restart()
	wantText(t, p.URL(), "SELECT n::text FROM stock", "9")

	p.RestoreCopy()
	wantText(t, p.URL(), "SELECT n::text FROM stock", "10")
	p.NewDatabaseFrom(t, "empty", fill)

	p.RestartEmpty()
	if exists(t, p.URL(), "stock") {
		t.Error("the table is still there after RestartEmpty")
	}
	p.NewDatabaseFrom(t, "empty", fill)
	p.NewDatabaseFrom(t, "empty", fill)
	if fills != 3 {
		t.Errorf("a template was filled %d times, want once in each of three data directories", fills)
	}
	if p.Addr() != addr {
		t.Errorf("the address changed: got %s, want %s", p.Addr(), addr)
	}
}

// In PostgreSQL a connection is a process: stopping the main process alone stops none of them.
func TestPostgresPauseStopsOpenConnectionsToo(t *testing.T) {
	t.Parallel()
	p := testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true})
	c := connect(t, p.URL())
	p.Pause()
	answer := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.WithoutCancel(t.Context()), "SELECT 1")
		answer <- err
	}()
	select {
	case err := <-answer:
		t.Fatalf("an open connection of a paused server answered: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	p.Resume()
	if err := <-answer; err != nil {
		t.Errorf("after Resume: %v", err)
	}
	p.Pause()
	p.Restart()
	wantText(t, p.URL(), "SELECT '1'", "1")
}

func TestPostgresSettings(t *testing.T) {
	t.Parallel()
	own := testenv.StartPostgres(t, &testenv.PostgresOptions{Settings: []string{"max_connections = 33"}})
	wantText(t, own.URL(), "SHOW max_connections", "33")
	wantText(t, own.URL(), "SHOW fsync", "on")
	wantText(t, own.URL(), "SHOW full_page_writes", "on")
	shared := testenv.SharedPostgres(t)
	for setting, want := range map[string]string{
		"fsync": "off", "full_page_writes": "off", "synchronous_commit": "on", "max_connections": "200", "wal_level": "replica",
		"listen_addresses": "127.0.0.1",
	} {
		wantText(t, shared.URL(), "SHOW "+setting, want)
	}
}

func TestPostgresStandbyFollows(t *testing.T) {
	t.Parallel()
	primary := testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true})
	standby := testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true, StandbyOf: primary})
	execSQL(t, primary.URL(), "CREATE TABLE stock (n int)")
	testenv.Eventually(t, time.Minute, "the standby has the table", func() bool { return exists(t, standby.URL(), "stock") })
	primary.Kill()
	execSQL(t, standby.URL(), "SELECT pg_promote()")
	execSQL(t, standby.URL(), "INSERT INTO stock VALUES (1)")
}

func TestDatabasesAreIsolatedAndDropped(t *testing.T) {
	t.Parallel()
	p := testenv.SharedPostgres(t)
	var first string
	t.Run("inside", func(t *testing.T) {
		first = p.NewDatabase(t)
		second := p.NewDatabase(t)
		if first == second {
			t.Fatalf("twice the same database: %s", first)
		}
		execSQL(t, first, "CREATE TABLE stock (n int)")
		if exists(t, second, "stock") {
			t.Error("a table of one database is seen in another")
		}
	})
	_, err := pgx.Connect(t.Context(), first)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "3D000" { // invalid_catalog_name
		t.Errorf("connect to the database of an ended test: got %v, want 3D000", err)
	}
}

func TestDatabaseFromATemplate(t *testing.T) {
	t.Parallel()
	p := testenv.SharedPostgres(t)
	fills := 0
	fill := func(url string) error {
		fills++
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			return err
		}
		_, err = c.Exec(t.Context(), "CREATE TABLE stock (n int); INSERT INTO stock VALUES (10)")
		return errors.Join(err, c.Close(t.Context()))
	}
	name := testenv.Unique(t, "template")
	got := record(t, func(tb testing.TB) {
		p.NewDatabaseFrom(tb, name, func(string) error { return errors.New("not today") })
	})
	if !strings.Contains(got.failed, "not today") {
		t.Errorf("a template that could not be filled: got %q", got.failed)
	}
	a, b := p.NewDatabaseFrom(t, name, fill), p.NewDatabaseFrom(t, name, fill)
	execSQL(t, a, "UPDATE stock SET n = 9")
	wantText(t, a, "SELECT n::text FROM stock", "9")
	wantText(t, b, "SELECT n::text FROM stock", "10")
	if fills != 1 {
		t.Errorf("the template was filled %d times, want once", fills)
	}
}

// A killed PostgreSQL must not leave its System V segment: the system has only so many.
func TestKilledPostgresLeavesNoSharedMemory(t *testing.T) {
	t.Parallel()
	segments := func() string {
		text, err := os.ReadFile("/proc/sysvipc/shm")
		if err != nil {
			t.Skipf("this system does not list its segments: %v", err)
		}
		return string(text)
	}
	p := testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true})
	text, err := os.ReadFile(filepath.Join(p.Dir(), "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Join(strings.Fields(strings.Split(string(text), "\n")[6]), " ")
	held := func() bool {
		for line := range strings.Lines(segments()) {
			if f := strings.Fields(line); len(f) > 1 && f[0]+" "+f[1] == id {
				return true
			}
		}
		return false
	}
	if !held() {
		t.Fatalf("segment %s of a running server is not listed", id)
	}
	p.Kill()
	if held() {
		t.Errorf("segment %s outlives the killed server", id)
	}
}
