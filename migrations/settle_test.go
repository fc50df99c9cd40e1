package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	migratedb "github.com/golang-migrate/migrate/v4/database"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/migrations"
)

// TestStepsWriteTheirVersion: by it a note that a step is half done is settled.
func TestStepsWriteTheirVersion(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d migrations.Dialect, base database) {
		wrote := func(step string, want uint) {
			t.Helper()
			var got uint
			if err := base.db.QueryRowContext(t.Context(), "SELECT version FROM "+meta(d)).Scan(&got); err != nil || got != want {
				t.Errorf("%s wrote version %d, %v, want %d", step, got, err, want)
			}
		}
		all := migrations.All(d)
		downs := make([]string, len(all))
		for i, m := range all {
			up, down, err := migrations.SQL(d, m.Name)
			if err != nil {
				t.Fatal(err)
			}
			downs[i] = down
			exec(t, base.db, up)
			wrote(m.Name+", up,", m.Version)
		}
		for i := len(all) - 1; i > 0; i-- {
			exec(t, base.db, downs[i])
			wrote(all[i].Name+", down,", all[i].Version-1)
		}
		exec(t, base.db, downs[0])
		if exists(t, base.db, meta(d)) {
			t.Errorf("%s, down, leaves %s", all[0].Name, meta(d))
		}
	})
}

// TestKilledWithinAStep: every note that a killed process can leave, before the effects of its
// step and after them, up and down. The next migrator goes on by itself.
func TestKilledWithinAStep(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d migrations.Dialect, base database) {
		m := open(t, base.url)
		latest := int(migrations.Latest(d))
		for has := range latest + 1 {
			for note := max(0, has-1); note <= min(has+1, latest); note++ {
				if _, err := m.Up(t.Context()); err != nil {
					t.Fatal(err)
				}
				if has < latest {
					if _, err := m.Down(t.Context(), latest-has, true); err != nil {
						t.Fatal(err)
					}
				}
				version := note
				if note == 0 {
					version = -1 // as golang-migrate notes the way down from step 1
				}
				exec(t, base.db, "DELETE FROM "+versionTable(d), fmt.Sprintf("INSERT INTO %s VALUES (%d, true)", versionTable(d), version))
				if got, err := m.Version(t.Context()); err != nil || !got.Dirty {
					t.Errorf("version %d, noted %d: looking = %+v, %v, want it in doubt", has, note, got, err)
				}
				done, err := m.Up(t.Context())
				if err != nil || len(done) != latest-has {
					t.Errorf("version %d, noted %d: up = %v, %v, want %d steps", has, note, names(done), err, latest-has)
				}
				if got, err := m.Version(t.Context()); err != nil || got.Dirty || int(got.Current) != latest {
					t.Errorf("version %d, noted %d: after up = %+v, %v, want a clean %d", has, note, got, err, latest)
				}
			}
		}
		exec(t, base.db, "UPDATE "+versionTable(d)+" SET dirty = true")
		if done, err := m.Down(t.Context(), 1000, true); err != nil || len(done) != latest {
			t.Errorf("down = %v, %v, want %d steps", names(done), err, latest)
		}
	})
}

// TestNoteFails: the step committed, and golang-migrate's note of it is refused. So is the
// second attempt; the next migrator settles it.
func TestNoteFails(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d migrations.Dialect, base database) {
		m := open(t, base.url)
		if _, err := m.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Down(t.Context(), 1, true); err != nil {
			t.Fatal(err)
		}
		latest := migrations.Latest(d)
		drop := "DROP TRIGGER no"
		if d == migrations.SQLite {
			exec(t, base.db, fmt.Sprintf("CREATE TRIGGER no BEFORE INSERT ON %s WHEN NEW.version = %d AND NOT NEW.dirty "+
				"BEGIN SELECT RAISE(ABORT, 'no space'); END", versionTable(d), latest))
		} else {
			refuseNotes(t, base, fmt.Sprintf("new.version = %d and not new.dirty", latest))
			drop += " ON " + versionTable(d)
		}
		done, err := m.Up(t.Context())
		if err == nil || len(done) != 0 || !strings.Contains(err.Error(), "no space") {
			t.Errorf("up = %v, %v, want the database's sentence", names(done), err)
		}
		exec(t, base.db, drop)
		if _, err := m.Up(t.Context()); err != nil {
			t.Errorf("up again: %v", err)
		}
		if got, err := m.Version(t.Context()); err != nil || got.Dirty || got.Current != latest {
			t.Errorf("after up again = %+v, %v, want a clean %d", got, err, latest)
		}
	})
}

// refuseNotes makes Postgres refuse the notes that the condition names.
func refuseNotes(t *testing.T, base database, condition string) {
	t.Helper()
	exec(t, base.db,
		"create function public.no() returns trigger language plpgsql as $$ begin if "+condition+
			" then raise 'no space' using errcode = '53100'; end if; return new; end $$",
		"create trigger no before insert on fencegate_migrations.version for each row execute function public.no()")
}

// TestNoteFailsOnce: the step committed, its note was refused, and written down a moment later.
func TestNoteFailsOnce(t *testing.T) {
	t.Parallel()
	url := testenv.SharedPostgres(t).NewDatabase(t)
	base := database{url, connect(t, "pgx", url)}
	m := open(t, url)
	if _, err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	rest := int(migrations.Latest(migrations.Postgres)) - 1
	if _, err := m.Down(t.Context(), rest, true); err != nil {
		t.Fatal(err)
	}
	exec(t, base.db, "create sequence public.once") // its numbers outlive a rollback
	refuseNotes(t, base, "new.version = 2 and not new.dirty and nextval('public.once') = 1")
	if done, err := m.Up(t.Context()); err != nil || len(done) != rest {
		t.Errorf("up = %v, %v, want %d steps", names(done), err, rest)
	}
	var refused int
	if err := base.db.QueryRowContext(t.Context(), "select last_value from public.once").Scan(&refused); err != nil || refused != 2 {
		t.Errorf("the note was written in attempt %d, %v, want 2", refused, err)
	}
}

// TestStepOfTheDeadRunsOn: a process died, and the server is still at work on its step, in a
// session that holds golang-migrate's lock. Whoever comes next waits for its end and judges
// what it left.
func TestStepOfTheDeadRunsOn(t *testing.T) {
	t.Parallel()
	url := testenv.SharedPostgres(t).NewDatabase(t)
	db := connect(t, "pgx", url)
	m := open(t, url)
	if _, err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Down(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	latest := migrations.Latest(migrations.Postgres)
	up, _, err := migrations.SQL(migrations.Postgres, fmt.Sprint(latest))
	if err != nil {
		t.Fatal(err)
	}
	var name string
	if err := db.QueryRowContext(t.Context(), "select current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	id, err := migratedb.GenerateAdvisoryLockId(name, "fencegate_migrations", "version")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, fmt.Sprintf("update fencegate_migrations.version set version = %d, dirty = true", latest))
	dead, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	for _, q := range []string{"select pg_advisory_lock(" + id + ")", "begin", up} {
		if _, err := dead.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}

	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := m.Up(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("up beside it = %v, want context.DeadlineExceeded", err)
	}
	type answer struct {
		done []migrations.Migration
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		done, err := m.Up(t.Context())
		answers <- answer{done, err}
	}()
	testenv.Eventually(t, 30*time.Second, "the next one waits", func() bool {
		var waits bool
		const q = "select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event = 'advisory'"
		return db.QueryRowContext(t.Context(), q).Scan(&waits) == nil && waits
	})
	for _, q := range []string{"commit", "select pg_advisory_unlock(" + id + ")"} {
		if _, err := dead.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-answers; got.err != nil || len(got.done) != 0 {
		t.Errorf("up after it = %v, %v, want nothing to do", names(got.done), got.err)
	}
}
