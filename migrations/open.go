package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	sqlitemigrate "github.com/golang-migrate/migrate/v4/database/sqlite"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/sqlitefile"
)

// Migrator moves one database. It is for one caller at a time.
type Migrator struct {
	dialect Dialect
	engine
}

// engine is what differs between the databases.
type engine interface {
	// lock keeps every other migrator out, waits for what one that died has left
	// running, and prepares a database for writing.
	lock(ctx context.Context) (unlock func() error, err error)
	// driver returns golang-migrate's view; called under the lock.
	driver() (database.Driver, error)
	// version reads the version, 0 for none, and whether its step was left half done.
	version(ctx context.Context) (v uint, dirty bool, err error)
	// applied reads the version that the steps themselves wrote, each in its own
	// transaction, 0 for none; called under the lock.
	applied(ctx context.Context) (uint, error)
	// refused reports whether err is the database's own answer: it is at work on
	// nothing of this migrator's any more.
	refused(err error) bool
	// explain gives a driver's error its type.
	explain(err error) error
	close() error
}

// DialectOf returns the kind of database that a URL names, without opening it.
func DialectOf(databaseURL string) (Dialect, error) {
	scheme, _, ok := strings.Cut(databaseURL, ":")
	switch {
	case !ok:
	case scheme == "postgres" || scheme == "postgresql":
		return Postgres, nil
	case scheme == "sqlite" || scheme == "file":
		return SQLite, nil
	}
	// The URL itself is not shown: it may hold a password.
	return "", &fencing.InvalidError{
		What:    "database URL",
		Allowed: "postgres://USER@HOST:PORT/NAME or sqlite:PATH",
	}
}

// Open connects to the database of a URL: postgres://, postgresql://, or sqlite:PATH
// (file:PATH is the same). It changes nothing yet. The caller closes the Migrator.
func Open(ctx context.Context, databaseURL string) (*Migrator, error) {
	d, err := DialectOf(databaseURL)
	if err != nil {
		return nil, err
	}
	if d == Postgres {
		e, err := openPostgres(ctx, databaseURL)
		if err != nil {
			return nil, err
		}
		return &Migrator{dialect: d, engine: e}, nil
	}
	path, err := filePath(databaseURL)
	if err != nil {
		return nil, err
	}
	return openSQLite(path, false)
}

// OpenLocked opens a SQLite file whose lock the caller holds, as sqlitestore does.
func OpenLocked(path string) (*Migrator, error) { return openSQLite(path, true) }

// Dialect returns the kind of the database.
func (m *Migrator) Dialect() Dialect { return m.dialect }

// Close closes the connections.
func (m *Migrator) Close() error { return m.close() }

// filePath takes the path out of the URL, as it is: nothing is unescaped.
func filePath(databaseURL string) (string, error) {
	_, path, _ := strings.Cut(databaseURL, ":")
	if strings.Contains(path, "?") {
		return "", &fencing.InvalidError{What: "database URL", Allowed: "sqlite:PATH, without parameters"}
	}
	return strings.TrimPrefix(path, "//"), nil
}

type sqliteEngine struct {
	path   string
	locked bool    // the caller holds the file's lock
	db     *sql.DB // nil until the file is written to
}

func openSQLite(path string, locked bool) (*Migrator, error) {
	path, err := sqlitefile.Resolve(path)
	if err != nil {
		return nil, err
	}
	return &Migrator{dialect: SQLite, engine: &sqliteEngine{path: path, locked: locked}}, nil
}

// fileWait is how long a migration waits for another one. It is far longer than one
// takes: who has the file after that is a running store.
const fileWait = 5 * time.Second

func (e *sqliteEngine) lock(ctx context.Context) (unlock func() error, err error) {
	unlock = func() error { return nil }
	if !e.locked {
		if unlock, err = sqlitefile.Lock(ctx, e.path, fileWait); err != nil {
			return nil, err
		}
	}
	if e.db == nil {
		e.db, err = sqlitefile.Open(ctx, e.path, sqlitefile.Write)
	}
	if err != nil {
		_ = unlock()
		return nil, err
	}
	return unlock, nil
}

func (e *sqliteEngine) driver() (database.Driver, error) {
	return sqlitemigrate.WithInstance(e.db, &sqlitemigrate.Config{MigrationsTable: "fencegate_migrations"})
}

func (e *sqliteEngine) version(ctx context.Context) (v uint, dirty bool, err error) {
	db := e.db
	if db == nil { // only looking: the file is neither created nor locked
		if db, err = sqlitefile.Open(ctx, e.path, sqlitefile.Read); err != nil {
			return 0, false, err
		}
		defer db.Close()
	}
	var has bool
	if err := db.QueryRowContext(ctx, query("sqlite_has_version")).Scan(&has); err != nil || !has {
		return 0, false, err
	}
	return scanVersion(db.QueryRowContext(ctx, query("sqlite_version")))
}

func (e *sqliteEngine) applied(ctx context.Context) (v uint, err error) {
	var has bool
	if err := e.db.QueryRowContext(ctx, query("sqlite_has_meta")).Scan(&has); err != nil || !has {
		return 0, err
	}
	err = e.db.QueryRowContext(ctx, query("sqlite_applied")).Scan(&v)
	return v, err
}

func (e *sqliteEngine) refused(err error) bool { return sqlitefile.IsError(err) }

func (e *sqliteEngine) explain(err error) error {
	if err == nil || strings.HasPrefix(err.Error(), e.path) {
		return err
	}
	return fmt.Errorf("%s: %w", e.path, err)
}

func (e *sqliteEngine) close() error {
	if e.db == nil {
		return nil
	}
	return e.db.Close()
}
