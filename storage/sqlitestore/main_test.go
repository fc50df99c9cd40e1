package sqlitestore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/migrations"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// childEnv makes this test program a child that writes until it is killed: the value is
// the path of the database.
const childEnv = "FENCEGATE_TEST_SQLITESTORE_CHILD"

// limitEnv makes that child one whose files may not grow.
const limitEnv = "FENCEGATE_TEST_SQLITESTORE_LIMIT"

// lookEnv makes that child one that looks at its own file in another way, see lookAt,
// before it writes.
const lookEnv = "FENCEGATE_TEST_SQLITESTORE_LOOK"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		work := writeForEver
		if os.Getenv(limitEnv) != "" {
			work = writeToTheLimit
		}
		if os.Getenv(lookEnv) != "" {
			work = writeAfterALook
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

// writeAfterALook writes 10, looks, says so, waits for a line, writes 9, says so, and waits to
// be killed.
func writeAfterALook(path string) error {
	ctx := context.Background()
	b, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	t := token("child", 1)
	put := func(value string) error {
		_, err := commit(ctx, b, t, storage.Put("child", "a", []byte(value)))
		return err
	}
	if err := errors.Join(b.Raise(ctx, t), put("10"), lookAt(ctx, path, os.Getenv(lookEnv))); err != nil {
		return err
	}
	fmt.Println("looked")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	if err := put("9"); err != nil {
		return err
	}
	fmt.Println("acknowledged")
	select {}
}

// lookAt does what a program may do beside its store.
func lookAt(ctx context.Context, path, how string) error {
	if how == "a second Open" {
		if _, err := sqlitestore.Open(ctx, path, nil); !errors.Is(err, sqlitestore.ErrInUse) {
			return fmt.Errorf("a second open = %w, want ErrInUse", err)
		}
		return nil
	}
	m, err := migrations.Open(ctx, "sqlite:"+path)
	if err != nil {
		return err
	}
	if how == "a migration" {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if _, err := m.Up(short); err == nil {
			return errors.New("migrated under a running store")
		}
		return m.Close()
	}
	_, err = m.Version(ctx)
	return errors.Join(err, m.Close())
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

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
