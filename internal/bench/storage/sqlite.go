package storage

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver, as a program without a fence uses it

	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

var (
	//go:embed sql/sqlite_table.sql
	sqliteTableSQL string
	//go:embed sql/sqlite_update.sql
	sqliteUpdateSQL string
)

var sqliteGoals = []report.Goal{
	{Name: "SQLite, fenced commit / raw autocommit, speed", Unit: "x", Target: 0.95, Better: report.Higher},
	{Name: "SQLite, 16 fenced commits at once / raw autocommit", Unit: "x", Target: 8, Better: report.Higher},
}

// sqlite compares commits to UPDATEs in autocommit, in two files of one directory.
func sqlite(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	dir, err := directory(h)
	if err != nil {
		return err
	}
	raw, inTransaction, err := rawSQLite(ctx, h, filepath.Join(dir, "raw.db"))
	if err != nil {
		return err
	}
	b, err := openSQLite(ctx, h, filepath.Join(dir, "fenced.db"))
	if err != nil {
		return err
	}
	alone, err := granted(ctx, b, resource)
	if err != nil {
		return err
	}
	speed := func(ours func(context.Context) error) ([]float64, error) {
		ratios, err := timed(ctx, s, 0.25, func(ctx context.Context) error { return raw(ctx, 0) }, ours)
		for i := range ratios {
			ratios[i] = 1 / ratios[i]
		}
		return ratios, err
	}
	ratios, err := speed(alone.put)
	if err != nil {
		return err
	}
	r.Reached(sqliteGoals[0], ratios...)
	if ratios, err = speed(inTransaction); err != nil {
		return err
	}
	r.Noted("SQLite, raw UPDATE between BEGIN and COMMIT / raw autocommit, speed", "x", ratios...)

	var fenced []holder
	for worker := range clients {
		one, err := granted(ctx, b, fmt.Sprintf("worker:%d", worker))
		if err != nil {
			return err
		}
		fenced = append(fenced, one)
	}
	ratios, bars, err := race(ctx, r, s, clients, []measure.Contender{
		{Name: "SQLite, raw autocommit, 16 goroutines", Op: raw},
		{Name: "SQLite, fenced commit, 16 goroutines", Op: func(ctx context.Context, worker int) error { return fenced[worker].put(ctx) }},
	})
	if err != nil {
		return err
	}
	r.Reached(sqliteGoals[1], ratios...)
	r.Chart(report.Bars{
		File: "storage-sqlite", Title: "16 goroutines of one process, SQLite, synchronous=FULL", Unit: "commits a second",
		Bars: bars, Target: sqliteGoals[1].Target * bars[0].Value, Goal: "8 times raw autocommit",
	})
	return nil
}

// directory returns a new one on the file system of the servers' data.
func directory(h *rig.Host) (string, error) {
	dir, err := os.MkdirTemp("", "fencegate-bench-")
	if err == nil {
		h.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	return dir, err
}

func openSQLite(ctx context.Context, h *rig.Host, path string) (*sqlitestore.Backend, error) {
	b, err := sqlitestore.Open(ctx, path, nil)
	if err == nil {
		h.Cleanup(func() { _ = b.Close() })
	}
	return b, err
}

// rawSQLite returns an UPDATE of a row of its own for each worker, and one of the first row in a
// transaction. There is one connection: with more, those that find the file locked sleep,
// and all are slower.
func rawSQLite(ctx context.Context, h *rig.Host, path string) (autocommit func(ctx context.Context, worker int) error, transaction func(context.Context) error, err error) {
	options := url.Values{"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+path+"?"+options.Encode())
	if err != nil {
		return nil, nil, err
	}
	h.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, sqliteTableSQL); err != nil {
		return nil, nil, err
	}
	for worker := range clients {
		if _, err := db.ExecContext(ctx, "insert into plain values (?, ?)", fmt.Sprintf("worker:%d", worker), value()); err != nil {
			return nil, nil, err
		}
	}
	update, err := db.PrepareContext(ctx, sqliteUpdateSQL)
	if err != nil {
		return nil, nil, err
	}
	h.Cleanup(func() { _ = update.Close() })
	autocommit = func(ctx context.Context, worker int) error {
		_, err := update.ExecContext(ctx, fmt.Sprintf("worker:%d", worker), value())
		return err
	}
	transaction = func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()                   //nolint:errcheck // after COMMIT it does nothing
		within := tx.StmtContext(ctx, update) //nolint:sqlclosecheck // it ends with tx
		if _, err := within.ExecContext(ctx, "worker:0", value()); err != nil {
			return err
		}
		return tx.Commit()
	}
	return autocommit, transaction, nil
}
