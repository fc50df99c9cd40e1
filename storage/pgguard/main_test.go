package pgguard_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage/pgguard"
	"github.com/fencegate/fencegate/storage/pgstore"
)

func TestMain(m *testing.M) {
	if u := os.Getenv(processEnv); u != "" {
		os.Exit(process(u))
	}
	testenv.Main(m)
}

// world is a database of its own with a table public.coupons, which is guarded, and a role
// that may enter and write, and nothing else.
type world struct {
	url   string // for the superuser, who owns the tables
	role  string
	admin *pgxpool.Pool
	fence *pgstore.Backend
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{role: role(tb), url: pgtxtest.NewDatabase(tb)}
	w.open(tb)
	w.exec(tb, "grant fencegate_app to "+w.role)
	w.exec(tb, "create table public.coupons (id text primary key, n int not null default 0)")
	w.exec(tb, "insert into coupons select g from generate_series(1, 9) g")
	w.grant(tb, "public.coupons")
	w.protect(tb, pgguard.Guard{Table: "public.coupons", Prefix: "coupon:", Column: "id"})
	return w
}

func (w *world) open(tb testing.TB) {
	tb.Helper()
	w.admin = pgtxtest.Open(tb, w.url)
	var err error
	if w.fence, err = pgstore.New(tb.Context(), w.admin, nil); err != nil {
		tb.Fatal(err)
	}
}

// role makes a role that may log in, and drops it after the test and its databases.
func role(tb testing.TB) string {
	tb.Helper()
	admin := testenv.SharedPostgres(tb).URL()
	name := strings.ReplaceAll(testenv.Unique(tb, "role"), "-", "_")
	once(tb, admin, "create role "+name+" login")
	tb.Cleanup(func() { once(tb, admin, "drop role "+name) })
	return name
}

// once runs statements on a connection of its own.
func once(tb testing.TB, url string, statements ...string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close(ctx)
	for _, sql := range statements {
		if _, err := c.Exec(ctx, sql); err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
	}
}

func (w *world) exec(tb testing.TB, statements ...string) {
	tb.Helper()
	for _, sql := range statements {
		if _, err := w.admin.Exec(tb.Context(), sql); err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
	}
}

func (w *world) grant(tb testing.TB, tables ...string) {
	tb.Helper()
	for _, table := range tables {
		w.exec(tb, "grant select, insert, update, delete on "+table+" to "+w.role)
	}
}

func (w *world) protect(tb testing.TB, g pgguard.Guard) {
	tb.Helper()
	if _, err := pgguard.Protect(tb.Context(), w.admin, g); err != nil {
		tb.Fatalf("protect %v: %v", g, err)
	}
}

// urlOf is the database for another role.
func (w *world) urlOf(role string) string {
	u, err := url.Parse(w.url)
	if err != nil {
		panic(err)
	}
	u.User = url.User(role)
	return u.String()
}

// app connects as the application.
func (w *world) app(tb testing.TB) *pgx.Conn { return connect(tb, w.urlOf(w.role)) }

func connect(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	c, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close(context.WithoutCancel(tb.Context())) })
	return c
}

// raise makes a new token the mark.
func (w *world) raise(tb testing.TB, resource string, n int64) fencing.Token {
	tb.Helper()
	t := fencing.Token{Resource: resource, Number: n, Grant: fencing.NewGrant()}
	if err := w.fence.Raise(tb.Context(), t); err != nil {
		tb.Fatalf("raise %v: %v", t, err)
	}
	return t
}

// in runs fn in a transaction and commits it.
func in(tb testing.TB, c *pgx.Conn, level pgx.TxIsoLevel, fn func(tx pgx.Tx) error) error {
	tb.Helper()
	tx, err := c.BeginTx(tb.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(tb.Context())) }()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit(tb.Context())
}

// fenced runs statements in a transaction that enters with raw SQL first, as any language does.
func fenced(tb testing.TB, c *pgx.Conn, tokens []fencing.Token, statements ...string) error {
	tb.Helper()
	return in(tb, c, pgx.ReadCommitted, func(tx pgx.Tx) error {
		for _, t := range tokens {
			if _, err := tx.Exec(tb.Context(), "select fencegate.enter($1, $2)", t.Resource, t.Text()); err != nil {
				return err
			}
		}
		return run(tb, tx, statements...)
	})
}

// byHand is fenced by somebody who sets the variable and does not enter.
func byHand(tb testing.TB, c *pgx.Conn, resource, text string, statements ...string) error {
	tb.Helper()
	return in(tb, c, pgx.ReadCommitted, func(tx pgx.Tx) error {
		if err := set(tb, tx, resource, text); err != nil {
			return err
		}
		return run(tb, tx, statements...)
	})
}

func set(tb testing.TB, tx pgx.Tx, resource, text string) error {
	tb.Helper()
	_, err := tx.Exec(tb.Context(), "select set_config('fencegate.tokens', $1, true)", ","+resource+"="+text+",")
	return err
}

func run(tb testing.TB, tx pgx.Tx, statements ...string) error {
	tb.Helper()
	for _, sql := range statements {
		if _, err := tx.Exec(tb.Context(), sql); err != nil {
			return err
		}
	}
	return nil
}

func wantCode(tb testing.TB, what string, err error, want string) {
	tb.Helper()
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.Code != want {
		tb.Errorf("%s: got %v, want SQLSTATE %s", what, err, want)
	}
}

func pgError(err error) *pgconn.PgError {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return &pgconn.PgError{}
	}
	return e
}

func wantNil(tb testing.TB, what string, err error) {
	tb.Helper()
	if err != nil {
		tb.Errorf("%s: got %v, want no error", what, err)
	}
}

// blocked waits until n sessions of the database wait for a lock.
func (w *world) blocked(tb testing.TB, n int) {
	tb.Helper()
	c := connect(tb, w.url)
	testenv.Eventually(tb, 20*time.Second, "sessions wait for a lock", func() bool {
		var got int
		err := c.QueryRow(tb.Context(), `select count(distinct pid) from pg_locks
			where not granted and pid in (select pid from pg_stat_activity where datname = current_database())`).Scan(&got)
		if err != nil {
			tb.Fatal(err)
		}
		return got >= n
	})
}

func value[T any](tb testing.TB, db pgguard.DB, sql string, args ...any) (v T) {
	tb.Helper()
	if err := db.QueryRow(tb.Context(), sql, args...).Scan(&v); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return v
}

func emptyDatabase(tb testing.TB) string {
	tb.Helper()
	return testenv.SharedPostgres(tb).NewDatabase(tb)
}
