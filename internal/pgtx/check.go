package pgtx

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
)

// The errors of [Check].
var (
	ErrSchema  = errors.New("the fencegate schema is missing or too old: run \"fencegate migrate up\" on it")
	ErrStandby = errors.New("the server is a standby")
)

// Check refuses a pool whose default is the simple protocol, which would put grant ids, which
// are secrets, into the text of statements; then it looks at the database: [ErrStandby], or
// [ErrSchema] if its schema is older than version.
func Check(ctx context.Context, pool *pgxpool.Pool, version int) error {
	if pool == nil {
		return &fencing.InvalidError{What: "pool", Allowed: "one, not nil"}
	}
	c := pool.Config().ConnConfig
	if c.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return &fencing.InvalidError{
			What: "DefaultQueryExecMode of the pool", Got: "simple protocol",
			Allowed: "any mode with bind parameters (behind a transaction pooler: exec)",
		}
	}
	var standby, schema bool
	if err := pool.QueryRow(ctx, serverSQL).Scan(&standby, &schema); err != nil {
		return fencing.AsFailed(fmt.Errorf("look at the database: %w", err))
	}
	if standby {
		return ErrStandby
	}
	if !schema {
		return fmt.Errorf("the database %s has no schema fencegate: %w", c.Database, ErrSchema)
	}
	var got int
	if err := pool.QueryRow(ctx, versionSQL).Scan(&got); err != nil {
		return fencing.AsFailed(fmt.Errorf("look at the schema: %w", err))
	}
	if got < version {
		return fmt.Errorf("the database %s has version %d of the schema, want %d: %w", c.Database, got, version, ErrSchema)
	}
	return nil
}
