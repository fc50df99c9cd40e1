package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage/pgguard"
)

// guardCmd is for tables of your own.
type guardCmd struct {
	Install guardInstallCmd `cmd:"" default:"withargs" help:"Guard a table, or change how it is guarded."`
	Status  guardStatusCmd  `cmd:"" help:"List guarded and unguarded tables, and known ways past the guards."`
	Remove  guardRemoveCmd  `cmd:"" help:"Take the guard of a table away."`
}

// Help implements kong.HelpProvider.
func (guardCmd) Help() string {
	return "A guarded table takes writes only from transactions whose first statement is " +
		"select fencegate.enter('coupon:42', '34.<grant id>'), with the token of the row's resource. " +
		"The resource is the prefix and the text of a column. The database needs the schema, see fencegate migrate."
}

// guardFlags name the database.
type guardFlags struct {
	PostgresURL string `name:"postgres-url" placeholder:"URL" env:"FENCEGATE_POSTGRES_URL" help:"postgres://USER@HOST:PORT/NAME. To change guards, USER must own the table."`
}

// with connects for one command. Notices of the server go to std.err.
func (f guardFlags) with(ctx context.Context, std stdio, fn func(*pgx.Conn) error) error {
	if f.PostgresURL == "" {
		return usageError{errors.New("--postgres-url is needed")}
	}
	cfg, err := pgx.ParseConfig(f.PostgresURL)
	if err != nil {
		return usageError{errors.New("--postgres-url: want postgres://USER@HOST:PORT/NAME")}
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		fmt.Fprintln(std.err, strings.TrimPrefix(n.Message, "fencegate: "))
	}
	dial, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(dial, cfg)
	if err != nil {
		err = fmt.Errorf("the Postgres at %s:%d: %w", cfg.Host, cfg.Port, err)
		if _, answered := errors.AsType[*pgconn.PgError](err); answered {
			return err
		}
		return unavailableError{err}
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return guardError(fn(conn))
}

// guardError says in words what the server says, and what is the caller's fault.
func guardError(err error) error {
	if errors.Is(err, fencing.ErrInvalid) {
		return usageError{err}
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || errors.Is(err, pgguard.ErrSchema) {
		return err
	}
	message := strings.TrimPrefix(pg.Message, "fencegate: ")
	if pg.Hint != "" {
		return fmt.Errorf("%s: %s", message, pg.Hint)
	}
	return errors.New(message)
}

type guardInstallCmd struct {
	guardFlags
	Table  string `required:"" placeholder:"NAME" env:"FENCEGATE_GUARD_TABLE" help:"The table, as SQL writes it: public.coupons."`
	Column string `required:"" placeholder:"NAME" env:"FENCEGATE_GUARD_COLUMN" help:"The column whose text is the end of the resource's name."`
	Prefix string `placeholder:"TEXT" env:"FENCEGATE_GUARD_PREFIX" help:"The beginning of the resource's name: coupon:. Default: none."`
	Shadow bool   `env:"FENCEGATE_GUARD_SHADOW" help:"Refuse nothing: note what would be refused, in the server's log and in the view fencegate.shadow."`
	Print  bool   `env:"FENCEGATE_GUARD_PRINT" help:"Print the SQL, for a migration tool of your own. Needs no database."`
}

// Help implements kong.HelpProvider.
func (guardInstallCmd) Help() string {
	return "To run it again is harmless; without --shadow it makes a guard in shadow mode strict. " +
		"The table is locked against writes for a moment, and TRUNCATE and TRIGGER on it are revoked from everybody but its owner. " +
		"Run it again after a partition was added: only then TRUNCATE of that partition alone is refused."
}

// Run implements the command.
func (c *guardInstallCmd) Run(ctx context.Context, std stdio) error {
	g := pgguard.Guard{Table: c.Table, Prefix: c.Prefix, Column: c.Column, Shadow: c.Shadow}
	if c.Print {
		up, down, err := pgguard.SQL(g)
		if err != nil {
			return guardError(err)
		}
		_, err = fmt.Fprintf(std.out, "-- up\n%s\n-- down\n%s", up, down)
		return err
	}
	return c.with(ctx, std, func(conn *pgx.Conn) error {
		done, err := pgguard.Protect(ctx, conn, g)
		if err == nil {
			fmt.Fprintln(std.err, done)
		}
		return err
	})
}

type guardRemoveCmd struct {
	guardFlags
	Table string `required:"" placeholder:"NAME" env:"FENCEGATE_GUARD_TABLE" help:"The table, as SQL writes it: public.coupons."`
}

// Run implements the command.
func (c *guardRemoveCmd) Run(ctx context.Context, std stdio) error {
	return c.with(ctx, std, func(conn *pgx.Conn) error {
		done, err := pgguard.Unprotect(ctx, conn, c.Table)
		if err == nil {
			fmt.Fprintln(std.err, done)
		}
		return err
	})
}

type guardStatusCmd struct {
	guardFlags
	outputFlag
	Check bool `env:"FENCEGATE_GUARD_CHECK" help:"Exit with 1 if there is a known way past a guard."`
}

// guardedTable, guardFinding and guardReport are the report in JSON.
type guardedTable struct {
	Table  string `json:"table"`
	Prefix string `json:"prefix"`
	Column string `json:"column"`
	Shadow bool   `json:"shadow"`
}

type guardFinding struct {
	Table string `json:"table,omitempty"`
	Role  string `json:"role,omitempty"`
	What  string `json:"what"`
}

type guardReport struct {
	Guarded   []guardedTable `json:"guarded"`
	Unguarded []string       `json:"unguarded"`
	Findings  []guardFinding `json:"findings"`
}

// Run implements the command.
func (c *guardStatusCmd) Run(ctx context.Context, std stdio) error {
	return c.with(ctx, std, func(conn *pgx.Conn) error {
		r, err := pgguard.Status(ctx, conn)
		if err != nil {
			return err
		}
		if c.Output == "json" {
			err = c.json(std, r)
		} else {
			err = c.text(std, r)
		}
		if err == nil && c.Check && len(r.Findings) > 0 {
			err = fmt.Errorf("%d known ways past the guards", len(r.Findings))
		}
		return err
	})
}

func (*guardStatusCmd) json(std stdio, r *pgguard.Report) error {
	out := guardReport{Guarded: []guardedTable{}, Unguarded: append([]string{}, r.Unguarded...), Findings: []guardFinding{}}
	for _, g := range r.Guarded {
		out.Guarded = append(out.Guarded, guardedTable(g))
	}
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, guardFinding(f))
	}
	return json.NewEncoder(std.out).Encode(out)
}

func (*guardStatusCmd) text(std stdio, r *pgguard.Report) error {
	w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TABLE\tRESOURCE\tMODE")
	for _, g := range r.Guarded {
		mode := "strict"
		if g.Shadow {
			mode = "shadow"
		}
		fmt.Fprintf(w, "%s\t%s<%s>\t%s\n", g.Table, g.Prefix, g.Column, mode)
	}
	for _, t := range r.Unguarded {
		fmt.Fprintf(w, "%s\t-\tunguarded\n", t)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, f := range r.Findings {
		fmt.Fprintln(std.out, "warning:", f)
	}
	return nil
}
