package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/storagetest"
)

// TestThroughPooler runs the suite behind a pooler that gives every transaction another session,
// and has no prepared statements.
func TestThroughPooler(t *testing.T) {
	t.Parallel()
	h := harness()
	h.Aged, h.Sweep = nil, nil // they need a way past the pooler
	h.New = func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
		through := pgtxtest.Pooler(tb, pgtxtest.NewDatabase(tb))
		b := backend(tb, pgtxtest.Open(tb, through, func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		}), nil)
		s, err := storage.New(b, &storage.Options{Mode: mode})
		if err != nil {
			tb.Fatal(err)
		}
		return storagetest.Subject{Store: s, Fence: s, Backend: b}
	}
	storagetest.Run(t, h)
}
