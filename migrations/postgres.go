package migrations

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencegate/fencegate/fencing"
)

type postgresEngine struct {
	db *sql.DB
	d  database.Driver // holds a connection; nil until the first lock
}

func openPostgres(ctx context.Context, databaseURL string) (*postgresEngine, error) {
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		// The driver's text hides the password, in the shapes that it can read.
		return nil, &fencing.InvalidError{What: "database URL", Allowed: "postgres://USER@HOST:PORT/NAME"}
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "fencegate migrate"
	}
	e := &postgresEngine{db: stdlib.OpenDB(*cfg)}
	if err := e.db.PingContext(ctx); err != nil {
		_ = e.db.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, e.explain(err)
	}
	return e, nil
}

func (e *postgresEngine) lock(ctx context.Context) (unlock func() error, err error) {
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	// golang-migrate has a lock of its own, but waits for it without a context. This
	// one is taken first, so that the other is always free.
	if _, err := conn.ExecContext(ctx, query("postgres_lock")); err != nil {
		_ = conn.Close()
		return nil, err
	}
	// Giving the lock back by ending the session works even where the session is broken.
	unlock = func() error {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		return nil
	}
	if err = e.awaitSteps(ctx, conn); err == nil {
		err = e.ensureSchema(ctx, conn)
	}
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	return unlock, nil
}

// The names that golang-migrate's table and its lock have. The schema is fixed and not
// the role's search_path: two roles must find one table.
const (
	versionSchema = "fencegate_migrations"
	versionTable  = "version"
)

// awaitSteps waits until no step is running. The step of a process that died runs on in its
// server process, which keeps golang-migrate's lock until it ends.
func (e *postgresEngine) awaitSteps(ctx context.Context, conn *sql.Conn) error {
	var name string
	if err := conn.QueryRowContext(ctx, query("postgres_database")).Scan(&name); err != nil {
		return err
	}
	id, err := database.GenerateAdvisoryLockId(name, versionSchema, versionTable)
	if err != nil {
		return err
	}
	if _, err = conn.ExecContext(ctx, query("postgres_steps_lock"), id); err == nil {
		_, err = conn.ExecContext(ctx, query("postgres_steps_unlock"), id)
	}
	return err
}

func (e *postgresEngine) ensureSchema(ctx context.Context, conn *sql.Conn) error {
	var has bool
	if err := conn.QueryRowContext(ctx, query("postgres_has_schema")).Scan(&has); err != nil || has {
		return err
	}
	_, err := conn.ExecContext(ctx, query("postgres_schema"))
	return err
}

func (e *postgresEngine) driver() (database.Driver, error) {
	if e.d != nil {
		return e.d, nil
	}
	d, err := pgxmigrate.WithInstance(e.db, &pgxmigrate.Config{SchemaName: versionSchema, MigrationsTable: versionTable})
	if err != nil {
		return nil, err
	}
	e.d = d
	return d, nil
}

func (e *postgresEngine) version(ctx context.Context) (v uint, dirty bool, err error) {
	var has bool
	if err := e.db.QueryRowContext(ctx, query("postgres_has_version")).Scan(&has); err != nil || !has {
		return 0, false, err
	}
	return scanVersion(e.db.QueryRowContext(ctx, query("postgres_version")))
}

func (e *postgresEngine) applied(ctx context.Context) (v uint, err error) {
	var has bool
	if err := e.db.QueryRowContext(ctx, query("postgres_has_meta")).Scan(&has); err != nil || !has {
		return 0, err
	}
	err = e.db.QueryRowContext(ctx, query("postgres_applied")).Scan(&v)
	return v, err
}

func scanVersion(row *sql.Row) (uint, bool, error) {
	var v int64
	var dirty bool
	switch err := row.Scan(&v, &dirty); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	}
	return uint(max(v, 0)), dirty, nil // -1: half way down from step 1
}

func (e *postgresEngine) refused(err error) bool {
	_, ok := errors.AsType[*pgconn.PgError](err)
	return ok
}

// explain tells a server that does not answer from one that says no.
func (e *postgresEngine) explain(err error) error {
	if err == nil {
		return nil
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "57P01", "57P02", "57P03", "53300": // shutting down, crashed, starting up, too many connections
			return &UnavailableError{err}
		}
		return err
	}
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	lost := errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if (connect || network || lost) && !errors.Is(err, context.Canceled) {
		return &UnavailableError{err}
	}
	return err
}

func (e *postgresEngine) close() error {
	if e.d != nil {
		return e.d.Close() // its connection, and the pool
	}
	return e.db.Close()
}
