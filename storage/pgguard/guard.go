package pgguard

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
)

var (
	//go:embed sql/protect.sql
	protectSQL string
	//go:embed sql/unprotect.sql
	unprotectSQL string
)

// ErrSchema says that the database lacks the schema, or has one without guards.
var ErrSchema = pgtx.ErrSchema

// DB is what this package needs to look after guards: a pool, a connection or a transaction.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Guard says how a table is guarded.
type Guard struct {
	// Table is the table, as SQL writes it: public.coupons, or public."Coupons".
	Table string
	// Prefix and the text of Column are the name of a row's resource: coupon: and 42 make coupon:42.
	// The prefix may be empty. Tables may share prefixes, and so resources.
	Prefix string
	// Column is the name of a column of type text, varchar, char, integer, numeric, uuid, boolean or
	// enum, unquoted. A row in which it is null can no longer be written, and none at all where the
	// type of the column is changed, until the table is protected again.
	Column string
	// Shadow lets everything pass, and notes in the server's log and in the view fencegate.shadow
	// what would have been refused.
	Shadow bool
}

// Validate checks the guard as far as that is possible without the database. The error is a
// [*fencing.InvalidError].
func (g Guard) Validate() error {
	if g.Table == "" || strings.ContainsRune(g.Table, 0) {
		return &fencing.InvalidError{What: "table", Got: fmt.Sprintf("%q", g.Table), Allowed: "the name of a table, like public.coupons"}
	}
	if g.Column == "" || strings.ContainsRune(g.Column, 0) {
		return &fencing.InvalidError{What: "column", Got: fmt.Sprintf("%q", g.Column), Allowed: "the name of a column"}
	}
	if fencing.ValidateResource(g.Prefix+"x") != nil {
		return &fencing.InvalidError{
			What: "prefix", Got: fmt.Sprintf("%.60q", g.Prefix),
			Allowed: "up to 199 characters of A-Z a-z 0-9 . _ : @ -, the first a letter or a digit",
		}
	}
	return nil
}

// Protect guards a table, or changes how it is guarded; to do it twice is harmless. It works with
// the rights of db's role, which must own the table, and may execute fencegate.protect and what that
// calls. It locks the table against writes for a moment. done says in words what was done; the
// server tells by notices whose privileges were revoked.
func Protect(ctx context.Context, db DB, g Guard) (done string, err error) {
	if err := g.Validate(); err != nil {
		return "", err
	}
	err = db.QueryRow(ctx, protectSQL, g.Table, g.Prefix, g.Column, g.Shadow).Scan(&done)
	return done, explainDDL(err)
}

// Unprotect takes the guard of a table away; that there is none is no error. It locks the table
// for a moment. Privileges that Protect revoked stay revoked.
func Unprotect(ctx context.Context, db DB, table string) (done string, err error) {
	err = db.QueryRow(ctx, unprotectSQL, table).Scan(&done)
	return done, explainDDL(err)
}

// SQL returns the guard as the steps of a migration, up and down, for a tool of your own.
func SQL(g Guard) (up, down string, err error) {
	if err := g.Validate(); err != nil {
		return "", "", err
	}
	shadow := ""
	if g.Shadow {
		shadow = ", shadow => true"
	}
	up = fmt.Sprintf("select fencegate.protect(%s, %s, %s%s);\n", quote(g.Table), quote(g.Prefix), quote(g.Column), shadow)
	down = fmt.Sprintf("select fencegate.unprotect(%s);\n", quote(g.Table))
	return up, down, nil
}

// quote writes a literal that is one whatever standard_conforming_strings says.
func quote(s string) string {
	s = strings.ReplaceAll(s, "'", "''")
	if strings.Contains(s, `\`) {
		return "E'" + strings.ReplaceAll(s, `\`, `\\`) + "'"
	}
	return "'" + s + "'"
}

// explainDDL finds out whether the schema is what is missing.
func explainDDL(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	missing := ok && slices.Contains([]string{"3F000", "42883"}, e.Code) && strings.Contains(e.Message, "fencegate")
	if missing {
		return fmt.Errorf("%w (%w)", ErrSchema, err)
	}
	return err
}
