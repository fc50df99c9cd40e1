package workload_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgguard"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// tables is a lock in memory and a database with the tables.
func tables(t *testing.T) workload.Access {
	t.Helper()
	url := pgtxtest.NewDatabase(t)
	for range 2 { // twice is harmless
		if err := workload.PrepareTables(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	pgstore.Configure(cfg)
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	backend, err := pgstore.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := storage.New(backend, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := workload.Access{Store: store, Pool: pool}
	a.Issuer, a.Locker = desk(t, memlock.New(), store)
	return a
}

// TestTable: guarded tables hold what the others hold, and their transactions are written down before COMMIT.
func TestTable(t *testing.T) {
	t.Parallel()
	a := tables(t)
	report, err := pgguard.Status(t.Context(), a.Pool)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Guarded) != 2 {
		t.Fatalf("%v are guarded, want both tables", report.Guarded)
	}
	b, _, final := work(t, "table", a, options, time.Second, func(b *book) bool {
		return enough(b) && b.seen()["forged "+pgguard.CodeNoToken] > 0
	})
	b.answered(t)
	b.refused(t)
	b.trusted(t)
	if problem := fits("table", b, final); problem != "" {
		t.Error(problem)
	}
	at := map[string]string{}
	for _, c := range final {
		at[c.Resource+" "+c.Key] = c.Value
	}
	for _, op := range b.of(history.Commit) {
		if op.Outcome != "applied" {
			continue
		}
		if len(op.Cells) != 1 || len(op.Writes) != 2 {
			t.Fatalf("%s has cells %v and writes %v", op.ID, op.Cells, op.Writes)
		}
		if number(op.Writes[0].Value) != number(op.Cells[0].Value)+1 || op.Writes[0].Version != op.Cells[0].Version+1 {
			t.Errorf("%s read %v and wrote %v", op.ID, op.Cells[0], op.Writes[0])
		}
		if got := at[op.Group+" "+op.Writes[1].Key]; got != op.Writes[1].Value || !strings.HasSuffix(got, " "+op.ID) {
			t.Errorf("%s wrote %v, and there is %q", op.ID, op.Writes[1], got)
		}
	}
}

// TestNoPool: without a database the workload says so.
func TestNoPool(t *testing.T) {
	t.Parallel()
	w, _ := workload.Named("table")
	a := access(t, nil)
	if _, err := w.Seed(t.Context(), a, w.Resources("x", 0)); err == nil {
		t.Error("seed: no error")
	}
	if _, err := w.Final(t.Context(), a, w.Resources("x", 0)); err == nil {
		t.Error("final: no error")
	}
}
