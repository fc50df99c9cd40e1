// Package pgtxtest gives the tests of the Postgres backends databases with the schema, and
// pools on them.
package pgtxtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/migrations"
)

// patience is how long the server may take on a busy machine.
const patience = time.Minute

const objectInUse = "55006" // a template that has connections

// Migrate brings a database to the newest schema.
func Migrate(url string) error {
	ctx := context.Background()
	m, err := migrations.Open(ctx, url)
	if err != nil {
		return err
	}
	defer m.Close()
	_, err = m.Up(ctx)
	return err
}

// NewDatabase returns the URL of a new migrated database of the shared server, for tests that
// change its schema or its version.
func NewDatabase(tb testing.TB) string {
	tb.Helper()
	return testenv.SharedPostgres(tb).NewDatabaseFrom(tb, "fencegate", Migrate)
}

// Like the shared server, they live as long as the process.
var lent struct {
	mu       sync.Mutex // held while a database is made
	made     int
	template string
	idle     []string // URLs
}

// Database returns the URL of a migrated database of the shared server that is empty and that
// no other test uses meanwhile. To empty one is far quicker than to copy and drop one, so it
// is lent to the next test. One whose test failed is left to its end.
func Database(tb testing.TB) string {
	tb.Helper()
	server := testenv.SharedPostgres(tb)
	url, err := borrow(tb.Context(), server.URL(), server.Addr())
	if err != nil {
		tb.Fatalf("lend a database: %v", err)
	}
	tb.Cleanup(func() { // after the pools, which are opened later, have been closed
		if tb.Failed() {
			return
		}
		if err := clean(url); err != nil {
			tb.Errorf("empty a database: %v", err)
			return
		}
		lent.mu.Lock()
		defer lent.mu.Unlock()
		lent.idle = append(lent.idle, url)
	})
	return url
}

func borrow(ctx context.Context, admin, addr string) (string, error) {
	lent.mu.Lock()
	defer lent.mu.Unlock()
	if n := len(lent.idle); n > 0 {
		url := lent.idle[n-1]
		lent.idle = lent.idle[:n-1]
		return url, nil
	}
	if lent.template == "" {
		url, err := create(ctx, admin, addr, "template1")
		if err != nil {
			return "", err
		}
		if err := Migrate(url); err != nil {
			return "", err
		}
		lent.template = fmt.Sprintf("lent_%d", lent.made)
	}
	return create(ctx, admin, addr, lent.template)
}

func create(ctx context.Context, admin, addr, template string) (string, error) {
	lent.made++
	name := fmt.Sprintf("lent_%d", lent.made)
	url := "postgres://postgres@" + addr + "/" + name + "?sslmode=disable"
	for deadline := time.Now().Add(patience); ; {
		err := exec(ctx, admin, "create database "+name+" template "+template)
		// The connections that filled the template may still be about to close; the server waits 5 s for them.
		if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == objectInUse && time.Now().Before(deadline) {
			continue
		}
		return url, err
	}
}

// clean ends the sessions that the test left, for one that waits for a lock does not notice
// that its client is gone; then nothing can come late.
func clean(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return exec(ctx, url,
		"select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'",
		"delete from fencegate.records", "delete from fencegate.answers", "delete from fencegate.marks", "delete from fencegate.locks", "delete from fencegate.lock_waiters", "delete from fencegate.row_grants", "delete from fencegate.row_locks",
		"update fencegate.meta set floor = 0, base = 0, lock_floor = 0, plain = false where plain or floor + base + lock_floor <> 0")
}

func exec(ctx context.Context, url string, statements ...string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for _, sql := range statements {
		if _, err := c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// Open returns a pool of up to 20 connections; change may alter its configuration.
func Open(tb testing.TB, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	c.MaxConns = 20
	for _, f := range change {
		f(c)
	}
	pool, err := pgxpool.NewWithConfig(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

// ServerCrashed returns what a pooler tells its client when it loses the server: the words of
// pgbouncer, which says the same before COMMIT and after it.
func ServerCrashed() []byte {
	msg := &pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "server conn crashed?"}
	data, err := msg.Encode(nil)
	if err != nil {
		panic(err)
	}
	return data
}

// As makes a pool work as a role, as one that logged in with it.
func As(role string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["role"] = role }
}
