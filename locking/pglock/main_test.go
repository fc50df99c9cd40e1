package pglock_test

import (
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
)

// testPatience is how long something may take on a slow machine.
const testPatience = 30 * time.Second

func TestMain(m *testing.M) {
	if url := os.Getenv(processEnv); url != "" {
		os.Exit(process(url))
	}
	testenv.Main(m)
}

// gateway makes the pool work with the rights of the gateway's role, and no other.
var gateway = pgtxtest.As("fencegate_gateway")

func backend(tb testing.TB, pool *pgxpool.Pool) *pglock.Backend {
	tb.Helper()
	b, err := pglock.New(tb.Context(), pool, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// fresh returns a backend with the gateway's rights, and the pool of the database's owner.
func fresh(tb testing.TB, change ...func(*pgxpool.Config)) (b *pglock.Backend, owner *pgxpool.Pool) {
	tb.Helper()
	url := pgtxtest.Database(tb)
	return backend(tb, pgtxtest.Open(tb, url, append(change, gateway)...)), pgtxtest.Open(tb, url)
}

// own is fresh with a database that no later test gets: requests that still wait at the end, as
// those of the suite, go on listening there.
func own(tb testing.TB, change ...func(*pgxpool.Config)) (b *pglock.Backend, owner *pgxpool.Pool) {
	tb.Helper()
	url := pgtxtest.NewDatabase(tb)
	return backend(tb, pgtxtest.Open(tb, url, append(change, gateway)...)), pgtxtest.Open(tb, url)
}

func request(tb testing.TB) locking.Request {
	tb.Helper()
	return locking.Request{Resource: testenv.Unique(tb, "lock"), Grant: fencing.NewGrant(), Label: "test", TTL: time.Minute}
}

func next(r locking.Request) locking.Request {
	r.Grant = fencing.NewGrant()
	return r
}

func acquire(tb testing.TB, b locking.Backend, r locking.Request) locking.Hold {
	tb.Helper()
	h, err := b.TryAcquire(tb.Context(), r)
	if err != nil {
		tb.Fatalf("acquire %v: %v", r, err)
	}
	return h
}

func exec(tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatal(err)
	}
}
