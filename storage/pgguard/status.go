package pgguard

import (
	"context"
	_ "embed" // the statements

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/tables.sql
	tablesSQL string
	//go:embed sql/findings.sql
	findingsSQL string
)

// Finding is a way past a guard, or a reason why it refuses what it should not.
type Finding struct {
	Table string // of it and its partitions; empty if it is about all guards
	Role  string // whose way it is; empty if everybody's
	What  string // in words, with the role as the subject where there is one
}

// String returns the finding as a line: "public.coupons: bob has TRIGGER, and can ...".
func (f Finding) String() string {
	s := f.What
	if f.Role != "" {
		s = f.Role + " " + s
	}
	if f.Table != "" {
		s = f.Table + ": " + s
	}
	return s
}

// Report is what [Status] found.
type Report struct {
	Guarded   []Guard   // by name
	Unguarded []string  // the other tables of the database, by name
	Findings  []Finding // what a guarded table is not guarded against
}

// Status tells which tables of a database are guarded, and what it knows of ways past the guards:
// triggers that are missing on a partition, disabled or not ALWAYS, columns that are gone or of
// another type than they were, privileges, and what the roles that may enter are or can become. Superusers and the owners of tables pass every guard, and
// are named only where they may enter as well. It reads the catalog only, and any role may call it.
func Status(ctx context.Context, db DB) (*Report, error) {
	r := &Report{}
	rows, err := db.Query(ctx, tablesSQL)
	if err != nil {
		return nil, explainDDL(err)
	}
	var table string
	var prefix, column *string
	var shadow *bool
	_, err = pgx.ForEachRow(rows, []any{&table, &prefix, &column, &shadow}, func() error {
		if prefix == nil || column == nil || shadow == nil {
			r.Unguarded = append(r.Unguarded, table)
			return nil
		}
		r.Guarded = append(r.Guarded, Guard{Table: table, Prefix: *prefix, Column: *column, Shadow: *shadow})
		return nil
	})
	if err != nil {
		return nil, explainDDL(err)
	}
	rows, err = db.Query(ctx, findingsSQL)
	if err != nil {
		return nil, explainDDL(err)
	}
	var f Finding
	_, err = pgx.ForEachRow(rows, []any{&f.Table, &f.Role, &f.What}, func() error {
		r.Findings = append(r.Findings, f)
		return nil
	})
	if err != nil {
		return nil, explainDDL(err)
	}
	return r, nil
}
