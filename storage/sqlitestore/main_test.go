package sqlitestore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// childEnv makes this test program a child that writes until it is killed: the value is
// the path of the database.
const childEnv = "FENCEGATE_TEST_SQLITESTORE_CHILD"

// limitEnv makes that child one whose files may not grow.
const limitEnv = "FENCEGATE_TEST_SQLITESTORE_LIMIT"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		work := writeForEver
		if os.Getenv(limitEnv) != "" {
			work = writeToTheLimit
		}
		if err := work(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// writeForEver prints the version of every commit that was acknowledged.
func writeForEver(path string) error {
	ctx := context.Background()
	b, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	s, err := storage.New(b, nil)
	if err != nil {
		return err
	}
	m, err := s.Mark(ctx, "child")
	if err != nil {
		return err
	}
	t := fencing.Token{Resource: "child", Number: m.Number + 1, Grant: fencing.NewGrant()}
	if err := s.Raise(ctx, t); err != nil {
		return err
	}
	for {
		v, err := s.Put(ctx, t, "a", []byte("x"))
		if err != nil {
			return err
		}
		fmt.Println(v)
	}
}

func open(tb testing.TB, path string) *sqlitestore.Backend {
	tb.Helper()
	b, err := sqlitestore.Open(tb.Context(), path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return b
}

func openNew(tb testing.TB) *sqlitestore.Backend {
	tb.Helper()
	return open(tb, filepath.Join(tb.TempDir(), "store.db"))
}

func token(resource string, number int64) fencing.Token {
	return fencing.Token{Resource: resource, Number: number, Grant: fencing.NewGrant()}
}

func raised(tb testing.TB, b *sqlitestore.Backend, resource string, number int64) fencing.Token {
	tb.Helper()
	t := token(resource, number)
	if err := b.Raise(tb.Context(), t); err != nil {
		tb.Fatal(err)
	}
	return t
}

// commit is one commit of one token, by the backend itself.
func commit(ctx context.Context, b *sqlitestore.Backend, t fencing.Token, ops ...storage.Op) (storage.Result, error) {
	out := b.Apply(ctx, []storage.Commit{{Tokens: []fencing.Token{t}, Ops: ops}})
	return out[0].Result, out[0].Err
}
