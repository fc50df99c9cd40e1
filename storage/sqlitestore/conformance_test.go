package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencingtest"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
	"github.com/fencegate/fencegate/storage/storagetest"
)

type updater = func(ctx context.Context, write func(resource, key string, value []byte) error) error

// own writes to a table of the test's own.
func own(ctx context.Context, fn updater) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		return fn(ctx, func(resource, key string, value []byte) error {
			_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO own VALUES (?1, ?2, ?3)", resource, key, value)
			return err
		})
	}
}

// harness runs the suites. Update writes to a table of the test's own.
func harness() storagetest.Harness {
	return storagetest.Harness{
		New: func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
			b := openNew(tb)
			b.Exec(tb, "CREATE TABLE own (resource TEXT, key TEXT, value BLOB, PRIMARY KEY (resource, key))")
			s, err := storage.New(b, &storage.Options{Mode: mode})
			if err != nil {
				tb.Fatal(err)
			}
			return storagetest.Subject{Store: s, Fence: s, Backend: b}
		},
		Update: func(ctx context.Context, s storagetest.Subject, fn updater, tokens ...fencing.Token) error {
			return s.Backend.(*sqlitestore.Backend).Update(ctx, own(ctx, fn), tokens...)
		},
		UpdateOnce: func(ctx context.Context, s storagetest.Subject, key string, fn updater, tokens ...fencing.Token) (bool, error) {
			return s.Backend.(*sqlitestore.Backend).UpdateOnce(ctx, key, own(ctx, fn), tokens...)
		},
		Aged: func(tb testing.TB, s storagetest.Subject, resource string) {
			tb.Helper()
			s.Backend.(*sqlitestore.Backend).Age(tb, resource)
		},
		Sweep: func(ctx context.Context, s storagetest.Subject) (removed int, err error) {
			return s.Backend.(*sqlitestore.Backend).Sweep(ctx)
		},
		Answered: storagetest.Answered,
		Read: func(ctx context.Context, s storagetest.Subject, resource, key string) (value []byte, found bool, err error) {
			err = s.Backend.(*sqlitestore.Backend).Reader().
				QueryRowContext(ctx, "SELECT value FROM own WHERE resource = ?1 AND key = ?2", resource, key).Scan(&value)
			if errors.Is(err, sql.ErrNoRows) {
				return nil, false, nil
			}
			return value, err == nil, err
		},
		Checks: 40,
	}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, harness())
}

// quick is harness without waiting for the disk: thousands of cases about what is judged,
// none about what a crash keeps.
func quick() storagetest.Harness {
	h := harness()
	h.New = func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
		s := harness().New(tb, mode)
		s.Backend.(*sqlitestore.Backend).Exec(tb, "PRAGMA synchronous = OFF")
		return s
	}
	return h
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	storagetest.Differential(t, quick())
}

func TestRule(t *testing.T) {
	t.Parallel()
	storagetest.RunRule(t, quick(), storagetest.Rule{
		Set: func(tb testing.TB, s storagetest.Subject, resource string, state fencingtest.State) {
			tb.Helper()
			s.Backend.(*sqlitestore.Backend).SetState(tb, resource, state)
		},
		Floors: true, Incarnations: true,
	})
}
