package pgstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencingtest"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/storagetest"
)

func asStale(err error) (*fencing.StaleError, bool) { return errors.AsType[*fencing.StaleError](err) }

// harness runs the suites in one database per mode, with the gateway's rights only.
func harness(change ...func(*pgxpool.Config)) storagetest.Harness {
	return storagetest.Harness{
		New: func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
			b := backend(tb, pgtxtest.Open(tb, pgtxtest.Database(tb), append(change, pgtxtest.As("fencegate_gateway"))...), nil)
			s, err := storage.New(b, &storage.Options{Mode: mode})
			if err != nil {
				tb.Fatal(err)
			}
			return storagetest.Subject{Store: s, Fence: s, Backend: b}
		},
		Update:     update,
		UpdateOnce: updateOnce,
		Aged:       aged,
		Sweep: func(ctx context.Context, s storagetest.Subject) (int, error) {
			return s.Backend.(*pgstore.Backend).Sweep(ctx)
		},
		Answered: storagetest.Answered,
		Checks:   60,
	}
}

// update writes the rows of fencegate.records by plain SQL, behind the fence.
func update(ctx context.Context, s storagetest.Subject,
	fn func(ctx context.Context, write func(resource, key string, value []byte) error) error,
	tokens ...fencing.Token,
) error {
	return s.Backend.(*pgstore.Backend).Update(ctx, func(tx pgx.Tx) error { return fn(ctx, writer(ctx, tx)) }, tokens...)
}

func updateOnce(ctx context.Context, s storagetest.Subject, key string,
	fn func(ctx context.Context, write func(resource, key string, value []byte) error) error,
	tokens ...fencing.Token,
) (replayed bool, err error) {
	return s.Backend.(*pgstore.Backend).UpdateOnce(ctx, key, func(tx pgx.Tx) error { return fn(ctx, writer(ctx, tx)) }, tokens...)
}

func writer(ctx context.Context, tx pgx.Tx) func(resource, key string, value []byte) error {
	return func(resource, key string, value []byte) error {
		if value == nil {
			value = []byte{}
		}
		_, err := tx.Exec(ctx, `insert into fencegate.records values ($1, $2, $3, 1)
			on conflict (resource, key) do update set value = excluded.value, version = records.version + 1`, resource, key, value)
		return err
	}
}

// aged needs the rights of the owner: nobody else changes idempotency records.
func aged(tb testing.TB, s storagetest.Subject, resource string) {
	tb.Helper()
	owner, err := pgx.Connect(tb.Context(), s.Backend.(*pgstore.Backend).URL())
	if err != nil {
		tb.Fatal(err)
	}
	defer owner.Close(context.WithoutCancel(tb.Context()))
	if _, err := owner.Exec(tb.Context(), "update fencegate.answers set created_at = created_at - interval '2 days' where resource = $1", resource); err != nil {
		tb.Fatal(err)
	}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, harness())
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	storagetest.Differential(t, harness())
}

// TestDefaults runs the suite with defaults of the session that would break it: only what is
// said explicitly may count. The query mode is that for transaction poolers.
func TestDefaults(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, harness(func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
		c.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
		c.ConnConfig.RuntimeParams["client_min_messages"] = "error"
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}))
}

// admin has, for each backend of TestRule, a pool that may write past the rule.
type admin struct {
	storage.Backend
	pool *pgxpool.Pool
}

func TestRule(t *testing.T) {
	t.Parallel()
	h := storagetest.Harness{New: func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
		url := pgtxtest.Database(tb)
		b := admin{backend(tb, pgtxtest.Open(tb, url, pgtxtest.As("fencegate_gateway")), nil), pgtxtest.Open(tb, url)}
		s, err := storage.New(b, &storage.Options{Mode: mode})
		if err != nil {
			tb.Fatal(err)
		}
		return storagetest.Subject{Store: s, Fence: s, Backend: b}
	}}
	storagetest.RunRule(t, h, storagetest.Rule{Set: setState, Floors: true, Incarnations: true})
}

func setState(tb testing.TB, s storagetest.Subject, resource string, state fencingtest.State) {
	tb.Helper()
	pool := s.Backend.(admin).pool
	if state.Floor != 0 {
		if _, err := pool.Exec(tb.Context(), "update fencegate.meta set floor = $1", state.Floor); err != nil {
			tb.Fatal(err)
		}
	}
	if state.Absent {
		return
	}
	m := state.Mark
	_, err := pool.Exec(tb.Context(), `insert into fencegate.marks (resource, number, grant_id, retired, incarnation)
		values ($1, $2, $3, $4, case when $5 then 'earlier' else fencegate.incarnation() end)`,
		resource, m.Number, m.Grant, m.Retired, state.Inherited)
	if err != nil {
		tb.Fatal(err)
	}
}
