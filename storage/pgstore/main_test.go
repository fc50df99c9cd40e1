package pgstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// holderEnv makes the test binary the holder of TestStoppedProcess: what it connects to.
const holderEnv = "FENCEGATE_TEST_HOLDER"

func TestMain(m *testing.M) {
	if url := os.Getenv(holderEnv); url != "" {
		os.Exit(hold(url, os.Args[1], os.Args[2]))
	}
	testenv.Main(m)
}

// hold is an update in a process of its own: it writes, says "in", and goes on until it is told to
// leave, idle or in the middle of an answer. Then it says what became of it.
func hold(url, place, text string) int {
	ctx := context.Background()
	tok, err := fencing.ParseToken("r", text)
	if err != nil {
		panic(err)
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		panic(err)
	}
	b, err := pgstore.New(ctx, pool, &pgstore.Options{MaxIdle: time.Second})
	if err != nil {
		panic(err)
	}
	in := bufio.NewReader(os.Stdin)
	err = b.Update(ctx, func(tx pgx.Tx) error {
		if err := write(ctx, tx, "undone"); err != nil {
			return err
		}
		if place == "idle" {
			fmt.Println("in")
			_, err := in.ReadString('\n')
			return err
		}
		rows, err := tx.Query(ctx, "select repeat('x', 100000) from generate_series(1, 2000)") // far more than the sockets hold
		if err != nil {
			return err
		}
		defer rows.Close()
		for n := 0; rows.Next(); n++ {
			if n == 0 {
				fmt.Println("in")
				_, _ = in.ReadString('\n')
			}
		}
		return rows.Err()
	}, tok)
	fmt.Println(fencing.OutcomeOf(err), err)
	return 0
}

func backend(tb testing.TB, pool *pgxpool.Pool, o *pgstore.Options) *pgstore.Backend {
	tb.Helper()
	b, err := pgstore.New(tb.Context(), pool, o)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// fresh returns a backend in a database of its own, with the gateway's rights only.
func fresh(tb testing.TB) (*pgstore.Backend, *pgxpool.Pool) {
	tb.Helper()
	pool := pgtxtest.Open(tb, pgtxtest.Database(tb), pgtxtest.As("fencegate_gateway"))
	return backend(tb, pool, nil), pool
}

func token(resource string, n int64) fencing.Token {
	return fencing.Token{Resource: resource, Number: n, Grant: fencing.NewGrant()}
}

func raise(tb testing.TB, b fencing.Fence, resource string, n int64) fencing.Token {
	tb.Helper()
	t := token(resource, n)
	if err := b.Raise(tb.Context(), t); err != nil {
		tb.Fatalf("raise %v: %v", t, err)
	}
	return t
}

func put(ctx context.Context, b storage.Backend, t fencing.Token, key, value string) error {
	return b.Apply(ctx, []storage.Commit{{
		Tokens: []fencing.Token{t},
		Ops:    []storage.Op{storage.Put(t.Resource, key, []byte(value))},
	}})[0].Err
}

func get(tb testing.TB, b storage.Backend, resource, key string) string {
	tb.Helper()
	rec, err := b.Get(tb.Context(), resource, key)
	if errors.Is(err, storage.ErrNotFound) {
		return "(none)"
	}
	if err != nil {
		tb.Fatalf("get %s/%s: %v", resource, key, err)
	}
	return string(rec.Value)
}

func wantStale(tb testing.TB, err error, reason fencing.Reason) {
	tb.Helper()
	if got, ok := asStale(err); !ok || got.Reason != reason {
		tb.Errorf("got %v, want a *StaleError because of %q", err, reason)
	}
}

func wantOutcome(tb testing.TB, err error, want fencing.Outcome) {
	tb.Helper()
	if got := fencing.OutcomeOf(err); got != want {
		tb.Errorf("got outcome %v (%v), want %v", got, err, want)
	}
}

// blocked waits until n sessions of the database wait for a lock.
func blocked(tb testing.TB, pool *pgxpool.Pool, n int) {
	tb.Helper()
	// On a connection of its own: the pool may be used up by those that wait.
	conn, err := pgx.ConnectConfig(tb.Context(), pool.Config().ConnConfig)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(tb.Context()))
	testenv.Eventually(tb, testPatience, "sessions wait for a lock", func() bool {
		var got int
		err := conn.QueryRow(tb.Context(),
			waitingSQL).Scan(&got)
		if err != nil {
			tb.Fatal(err)
		}
		return got >= n
	})
}

// freshOwner is fresh with the rights of the database's owner.
func freshOwner(tb testing.TB) (*pgstore.Backend, *pgxpool.Pool) {
	tb.Helper()
	pool := pgtxtest.Open(tb, pgtxtest.Database(tb))
	return backend(tb, pool, nil), pool
}
