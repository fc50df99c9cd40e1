package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/migrations"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// database is one empty database of a dialect, and a plain connection to it.
type database struct {
	url string
	db  *sql.DB
}

// each runs a test on an empty database of every dialect.
func each(t *testing.T, fn func(t *testing.T, d migrations.Dialect, base database)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "a b%20#.db") // no character is special
		fn(t, migrations.SQLite, database{"sqlite:" + path, connect(t, "sqlite", path)})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := testenv.SharedPostgres(t).NewDatabase(t)
		fn(t, migrations.Postgres, database{url, connect(t, "pgx", url)})
	})
}

func connect(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	if driver == "sqlite" {
		dsn = "file:" + strings.NewReplacer("%", "%25", "#", "%23").Replace(dsn) + "?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func open(t *testing.T, url string) *migrations.Migrator {
	t.Helper()
	m, err := migrations.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return m
}

func names(steps []migrations.Migration) string {
	var s []string
	for _, m := range steps {
		s = append(s, m.Name)
	}
	return strings.Join(s, " ")
}

// versionTable is what a test reads past the package.
func versionTable(d migrations.Dialect) string {
	if d == migrations.SQLite {
		return "fencegate_migrations"
	}
	return "fencegate_migrations.version"
}

func marks(d migrations.Dialect) string {
	if d == migrations.SQLite {
		return "fencegate_marks"
	}
	return "fencegate.marks"
}

// meta is the table that the steps write their version to.
func meta(d migrations.Dialect) string {
	if d == migrations.SQLite {
		return "fencegate_meta"
	}
	return "fencegate.meta"
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%.60s: %v", s, err)
		}
	}
}

func exists(t *testing.T, db *sql.DB, table string) bool {
	t.Helper()
	_, err := db.ExecContext(t.Context(), "SELECT 1 FROM "+table+" WHERE false")
	return err == nil
}

func TestUpAndDown(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d migrations.Dialect, base database) {
		all := migrations.All(d)
		latest := migrations.Latest(d)
		m := open(t, base.url)
		done, err := m.Up(t.Context())
		if err != nil || names(done) != names(all) {
			t.Fatalf("up = %v, %v, want every step", names(done), err)
		}
		if done, err = m.Up(t.Context()); err != nil || len(done) != 0 {
			t.Errorf("a second up = %v, %v, want nothing", names(done), err)
		}
		if got, err := m.Version(t.Context()); err != nil || got != (migrations.Status{Current: latest, Latest: latest}) {
			t.Errorf("version = %+v, %v, want %d of %d", got, err, latest, latest)
		}
		if !exists(t, base.db, marks(d)) {
			t.Fatal("there is no table of marks after up")
		}

		// Not a word about destroying: nothing happens.
		_, err = m.Down(t.Context(), int(latest), false)
		if refused, ok := errors.AsType[*migrations.DestroysError](err); !ok || !strings.Contains(refused.Error(), "marks") {
			t.Errorf("down = %v, want a *DestroysError that names the marks", err)
		}
		if got, _ := m.Version(t.Context()); got.Current != latest || !exists(t, base.db, marks(d)) {
			t.Errorf("a refused down changed something: %+v", got)
		}

		if done, err = m.Down(t.Context(), 1, true); err != nil || names(done) != all[len(all)-1].Name {
			t.Errorf("down by 1 = %v, %v, want the last step", names(done), err)
		}
		if list, err := m.List(t.Context()); err != nil || list[len(list)-1].Applied || len(list) > 1 && !list[0].Applied {
			t.Errorf("list after down by 1 = %+v, %v", list, err)
		}
		if _, err = m.Down(t.Context(), 1000, true); err != nil {
			t.Errorf("down by 1000: %v", err)
		}
		if got, err := m.Version(t.Context()); err != nil || got.Current != 0 || exists(t, base.db, marks(d)) {
			t.Errorf("after all the way down: %+v, %v; marks there: %v", got, err, exists(t, base.db, marks(d)))
		}
		if done, err = m.Down(t.Context(), 1, true); err != nil || len(done) != 0 {
			t.Errorf("down from nothing = %v, %v, want nothing", names(done), err)
		}
		if done, err = m.Up(t.Context()); err != nil || len(done) != len(all) {
			t.Errorf("up again = %v, %v, want every step", names(done), err)
		}
	})
}

func TestLookingCreatesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d migrations.Dialect, base database) {
		if d == migrations.SQLite { // an empty database, not a missing file
			if _, err := base.db.ExecContext(t.Context(), "CREATE TABLE own (a)"); err != nil {
				t.Fatal(err)
			}
		}
		m := open(t, base.url)
		got, err := m.Version(t.Context())
		if want := (migrations.Status{Latest: migrations.Latest(d)}); err != nil || got != want {
			t.Errorf("version = %+v, %v, want %+v", got, err, want)
		}
		list, err := m.List(t.Context())
		if err != nil || len(list) != len(migrations.All(d)) || list[0].Applied {
			t.Errorf("list = %+v, %v, want every step, none applied", list, err)
		}
		if exists(t, base.db, versionTable(d)) {
			t.Error("looking created the version table")
		}
	})
}

func TestLookingAtNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none.db")
	_, err := open(t, "sqlite:"+path).Version(t.Context())
	if err == nil || !strings.Contains(err.Error(), path+" cannot be opened: no such file") {
		t.Errorf("got %v, want one sentence that names the file", err)
	}
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 0 {
		t.Errorf("looking created %v", list)
	}
}

// TestOwnTablesStay: a team uses golang-migrate itself, in the same database.
func TestOwnTablesStay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ migrations.Dialect, base database) {
		for _, q := range []string{"CREATE TABLE schema_migrations (version bigint, dirty boolean)", "INSERT INTO schema_migrations VALUES (99, false)"} {
			if _, err := base.db.ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		m := open(t, base.url)
		if _, err := m.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Down(t.Context(), 1000, true); err != nil {
			t.Fatal(err)
		}
		var got int
		if err := base.db.QueryRowContext(t.Context(), "SELECT version FROM schema_migrations").Scan(&got); err != nil || got != 99 {
			t.Errorf("the team's own version = %d, %v, want 99", got, err)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d migrations.Dialect, base database) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		applied := map[string]int{}
		for range 6 {
			wg.Go(func() {
				m, err := migrations.Open(t.Context(), base.url)
				if err != nil {
					t.Error(err)
					return
				}
				defer m.Close()
				done, err := m.Up(t.Context())
				if err != nil {
					t.Errorf("one of many: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, s := range done {
					applied[s.Name]++
				}
			})
		}
		wg.Wait()
		for _, s := range migrations.All(d) {
			if applied[s.Name] != 1 {
				t.Errorf("%s was applied %d times, want once", s.Name, applied[s.Name])
			}
		}
	})
}

// TestRefusedStepLeavesNothing: a table is in the way of the second half of a step.
func TestRefusedStepLeavesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d migrations.Dialect, base database) {
		block, unblock := "CREATE TABLE fencegate_records (a int)", "DROP TABLE fencegate_records"
		if d == migrations.Postgres {
			block, unblock = "CREATE SCHEMA fencegate", "DROP SCHEMA fencegate"
		}
		if _, err := base.db.ExecContext(t.Context(), block); err != nil {
			t.Fatal(err)
		}
		m := open(t, base.url)
		done, err := m.Up(t.Context())
		if err == nil || len(done) != 0 || !strings.Contains(err.Error(), "exists") || strings.Contains(err.Error(), "CHECK") {
			t.Errorf("up = %v, %v, want the database's own sentence, without the file", names(done), err)
		}
		if got, err := m.Version(t.Context()); err != nil || got.Current != 0 || got.Dirty || exists(t, base.db, marks(d)) {
			t.Errorf("after a refused step: %+v, %v, want a clean 0", got, err)
		}
		if _, err := base.db.ExecContext(t.Context(), unblock); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Up(t.Context()); err != nil {
			t.Errorf("up after the obstacle was removed: %v", err)
		}
	})
}

// TestDirtyAndForce: a note that a step is half done, and a version that no step can have left.
func TestDirtyAndForce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d migrations.Dialect, base database) {
		m := open(t, base.url)
		if _, err := m.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		exec(t, base.db, "UPDATE "+versionTable(d)+" SET dirty = true", "UPDATE "+meta(d)+" SET version = 900")
		for _, op := range []func() error{
			func() error { _, err := m.Up(t.Context()); return err },
			func() error { _, err := m.Down(t.Context(), 1, true); return err },
		} {
			dirty, ok := errors.AsType[*migrations.DirtyError](op())
			if !ok || dirty.Version != migrations.Latest(d) || !strings.Contains(dirty.Error(), "migrate force") {
				t.Errorf("got %v, want a *DirtyError that says what to do", dirty)
			}
		}
		if list, _ := m.List(t.Context()); list[len(list)-1].Applied {
			t.Error("the step in doubt is listed as applied")
		}
		if err := m.Force(t.Context(), migrations.Latest(d)); err != nil {
			t.Fatal(err)
		}
		if got, err := m.Version(t.Context()); err != nil || got.Dirty || got.Current != migrations.Latest(d) {
			t.Errorf("version after force = %+v, %v", got, err)
		}
		if err := m.Force(t.Context(), migrations.Latest(d)+1); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("force to a version that does not exist = %v, want ErrInvalid", err)
		}
	})
}

func TestNewerDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d migrations.Dialect, base database) {
		m := open(t, base.url)
		if _, err := m.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := base.db.ExecContext(t.Context(), "UPDATE "+versionTable(d)+" SET version = 999"); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Up(t.Context()); !isNewer(err) {
			t.Errorf("up = %v, want a *NewerError", err)
		}
		if _, err := m.Down(t.Context(), 1, true); !isNewer(err) {
			t.Errorf("down = %v, want a *NewerError", err)
		}
	})
}

func isNewer(err error) bool {
	_, ok := errors.AsType[*migrations.NewerError](err)
	return ok
}

func TestContextEndsBetweenSteps(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d migrations.Dialect, base database) {
		m := open(t, base.url)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.Up(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("up = %v, want context.Canceled", err)
		}
		if exists(t, base.db, marks(d)) {
			t.Error("a cancelled up migrated")
		}
	})
}

// TestWaitEndsWithContext: another process migrates, for long.
func TestWaitEndsWithContext(t *testing.T) {
	t.Parallel()
	url := testenv.SharedPostgres(t).NewDatabase(t)
	conn, err := connect(t, "pgx", url).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "SELECT pg_advisory_lock(x'66656e6365676174'::bigint)"); err != nil {
		t.Fatal(err)
	}
	m := open(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := m.Up(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("up = %v, want context.DeadlineExceeded", err)
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	addr := testenv.FreeAddress(t) // nobody listens there
	_, err := migrations.Open(t.Context(), "postgres://someone:secret@"+addr+"/db?sslmode=disable")
	if _, ok := errors.AsType[*migrations.UnavailableError](err); !ok {
		t.Errorf("got %v, want an *UnavailableError", err)
	}
	if strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("the error shows the password: %v", err)
	}
}

// TestAnsweringServerIsNotUnavailable: a server that says no is there.
func TestAnsweringServerIsNotUnavailable(t *testing.T) {
	t.Parallel()
	url := testenv.SharedPostgres(t).NewDatabase(t)
	_, err := migrations.Open(t.Context(), strings.Replace(url, "?", "_there_is_none?", 1))
	if _, ok := errors.AsType[*migrations.UnavailableError](err); ok || err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("got %v, want the server's own sentence", err)
	}
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "mysql://secret@host/db", "secret.db", "sqlite:", "sqlite::memory:", "postgres://u:secret@host:port/db", "sqlite:a?b=secret"} {
		_, err := migrations.Open(t.Context(), url)
		if !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("Open(%q) = %v, want ErrInvalid", url, err)
		}
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("Open(%q): the error shows the URL: %v", url, err)
		}
	}
}

// TestFiles reads every step: the rules of the package's doc comment.
func TestFiles(t *testing.T) {
	t.Parallel()
	for _, d := range []migrations.Dialect{migrations.Postgres, migrations.SQLite} {
		for i, m := range migrations.All(d) {
			if m.Version != uint(i+1) {
				t.Errorf("%s/%s: want version %d, without gaps", d, m.Name, i+1)
			}
			up, down, err := migrations.SQL(d, m.Name)
			if err != nil || !strings.HasPrefix(up, "-- ") || !strings.HasPrefix(down, "-- ") {
				t.Errorf("%s/%s: %v: want an up and a down file that begin with a comment", d, m.Name, err)
			}
			if again, _, err := migrations.SQL(d, fmt.Sprint(m.Version)); err != nil || again != up {
				t.Errorf("%s/%s is not found by its version: %v", d, m.Name, err)
			}
			if m.Destroys == "" && strings.Contains(strings.ToLower(down), "drop table") {
				t.Errorf("%s/%s drops a table, but does not begin with \"-- destroys: \"", d, m.Name)
			}
		}
	}
	if _, _, err := migrations.SQL(migrations.SQLite, "0099_none"); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("SQL of an unknown step = %v, want ErrInvalid", err)
	}
}

func TestFileInUse(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits as long as a migration waits")
	}
	path := filepath.Join(t.TempDir(), "used.db")
	hold(t, path)
	_, err := open(t, "sqlite:"+path).Up(t.Context())
	if !errors.Is(err, migrations.ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want ErrInUse with the file's name", err)
	}
}
