package workload

import (
	"context"
	_ "embed" // the statements
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/storage/pgguard"
)

//go:embed sql/tables.sql
var tablesSQL string

// PrepareTables makes the tables of workload table in a database that has the schema fencegate, and guards them;
// to do it twice is harmless. The role of the URL must own the database's schema fencegate.
func PrepareTables(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("prepare the tables: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, tablesSQL); err != nil {
		return fmt.Errorf("prepare the tables: %w", err)
	}
	for _, table := range []string{"torture_rows", "torture_audit"} {
		// The prefix is empty: the column holds the whole name of the resource.
		if _, err := pgguard.Protect(ctx, conn, pgguard.Guard{Table: table, Column: "resource"}); err != nil {
			return fmt.Errorf("guard %s: %w", table, err)
		}
	}
	return nil
}
