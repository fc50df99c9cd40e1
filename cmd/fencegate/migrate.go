package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/migrations"
)

// migrateCmd moves a database's schema. Nothing else in this program migrates a server
// database; the embedded SQLite store does its own file when it opens it.
type migrateCmd struct {
	Up      migrateUpCmd      `cmd:"" help:"Apply every step that is missing."`
	Down    migrateDownCmd    `cmd:"" help:"Take back the newest steps."`
	Version migrateVersionCmd `cmd:"" help:"Show the version that the database has, and the newest one."`
	List    migrateListCmd    `cmd:"" help:"List every step, and whether the database has it."`
	Show    migrateShowCmd    `cmd:"" help:"Print the SQL of a step, or of all. Needs no database."`
	Force   migrateForceCmd   `cmd:"" help:"Write down a version and run nothing, where up cannot tell by itself."`
}

// Help implements kong.HelpProvider.
func (migrateCmd) Help() string {
	return "Several processes may migrate one database at the same time: one works, the others wait. " +
		"A step that the database refuses leaves nothing behind. An interrupt stops between two steps. " +
		"On Postgres, connect directly: a transaction pooler cannot hold the lock."
}

// databaseFlag names the database to migrate.
type databaseFlag struct {
	Database string `required:"" env:"FENCEGATE_DATABASE_URL" placeholder:"URL" help:"The database: postgres://USER@HOST:PORT/NAME or sqlite:PATH."`
}

// outputFlag is how data is printed.
type outputFlag struct {
	Output string `short:"o" enum:"text,json" default:"text" env:"FENCEGATE_OUTPUT" help:"How to print: ${enum}."`
}

// with opens the database for one command.
func (f databaseFlag) with(ctx context.Context, fn func(*migrations.Migrator) error) error {
	m, err := migrations.Open(ctx, f.Database)
	if err != nil {
		return migrateError(err)
	}
	err = fn(m)
	return migrateError(errors.Join(err, m.Close()))
}

// migrateError gives an error of package migrations the type that has its exit status.
func migrateError(err error) error {
	if _, ok := errors.AsType[*migrations.UnavailableError](err); ok {
		return unavailableError{err}
	}
	if errors.Is(err, fencing.ErrInvalid) {
		return usageError{err}
	}
	return err
}

type migrateUpCmd struct {
	databaseFlag
	outputFlag
}

// printSteps prints what was done as JSON, if that is wanted.
func (f outputFlag) printSteps(std stdio, what string, done []migrations.Migration) error {
	if f.Output != "json" {
		return nil
	}
	names := make([]string, len(done))
	for i, s := range done {
		names[i] = s.Name
	}
	return changes.printed(writeJSON(std.out, map[string][]string{what: names}))
}

// Run implements the command.
func (c *migrateUpCmd) Run(ctx context.Context, std stdio) error {
	return c.with(ctx, func(m *migrations.Migrator) error {
		done, err := m.Up(ctx)
		for _, s := range done {
			fmt.Fprintf(std.err, "applied %s\n", s.Name)
		}
		if err != nil {
			return err
		}
		if len(done) == 0 {
			fmt.Fprintf(std.err, "nothing to do: the database is at version %d, the newest\n", migrations.Latest(m.Dialect()))
		}
		return c.printSteps(std, "applied", done)
	})
}

type migrateDownCmd struct {
	databaseFlag
	outputFlag
	Steps   int  `default:"1" env:"FENCEGATE_MIGRATE_STEPS" help:"How many steps, at most (default: ${default})."`
	Destroy bool `env:"FENCEGATE_MIGRATE_DESTROY" help:"Take a step back also where that destroys marks, counters or records for good."`
}

// Help implements kong.HelpProvider.
func (migrateDownCmd) Help() string {
	return "Stop every gateway first. A step back that destroys data needs --destroy; without it, nothing is changed. " +
		"Where marks are destroyed, stale tokens are no longer known as stale. List shows what each step destroys."
}

// Run implements the command.
func (c *migrateDownCmd) Run(ctx context.Context, std stdio) error {
	return c.with(ctx, func(m *migrations.Migrator) error {
		done, err := m.Down(ctx, c.Steps, c.Destroy)
		for _, s := range done {
			fmt.Fprintf(std.err, "took back %s\n", s.Name)
		}
		if _, ok := errors.AsType[*migrations.DestroysError](err); ok {
			return fmt.Errorf("%w: add --destroy if that is what you want", err)
		}
		if err != nil {
			return err
		}
		if len(done) == 0 {
			fmt.Fprintln(std.err, "nothing to do: the database has no step")
		}
		return c.printSteps(std, "taken_back", done)
	})
}

type migrateVersionCmd struct {
	databaseFlag
	outputFlag
}

// Run implements the command.
func (c *migrateVersionCmd) Run(ctx context.Context, std stdio) error {
	return c.with(ctx, func(m *migrations.Migrator) error {
		s, err := m.Version(ctx)
		if err != nil {
			return err
		}
		state := "current"
		switch {
		case s.Dirty:
			state = "half done"
		case s.Current < s.Latest:
			state = "behind"
		case s.Current > s.Latest:
			state = "newer"
		}
		if c.Output == "json" {
			return json.NewEncoder(std.out).Encode(struct {
				Current uint   `json:"current"`
				Latest  uint   `json:"latest"`
				State   string `json:"state"`
			}{s.Current, s.Latest, state})
		}
		_, err = fmt.Fprintf(std.out, "%d of %d, %s\n", s.Current, s.Latest, state)
		return err
	})
}

type migrateListCmd struct {
	databaseFlag
	outputFlag
}

// migrateStep is a step in JSON.
type migrateStep struct {
	Version  uint   `json:"version"`
	Name     string `json:"name"`
	Applied  bool   `json:"applied"`
	Destroys string `json:"destroys,omitempty"`
}

// Run implements the command.
func (c *migrateListCmd) Run(ctx context.Context, std stdio) error {
	return c.with(ctx, func(m *migrations.Migrator) error {
		list, err := m.List(ctx)
		if err != nil {
			return err
		}
		if c.Output == "json" {
			steps := make([]migrateStep, 0, len(list))
			for _, s := range list {
				steps = append(steps, migrateStep(s))
			}
			return json.NewEncoder(std.out).Encode(steps)
		}
		w := tabwriter.NewWriter(std.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tAPPLIED\tDOWN DESTROYS")
		for _, s := range list {
			applied := map[bool]string{true: "yes", false: "no"}[s.Applied]
			fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, applied, s.Destroys)
		}
		return w.Flush()
	})
}

type migrateShowCmd struct {
	Name     string `arg:"" optional:"" help:"The step, by its name or version. Default: every step."`
	Dialect  string `enum:",postgres,sqlite" default:"" env:"FENCEGATE_MIGRATE_DIALECT" help:"postgres or sqlite. Default: that of --database, else postgres."`
	Database string `env:"FENCEGATE_DATABASE_URL" placeholder:"URL" help:"Names the dialect; it is not opened."`
	Down     bool   `env:"FENCEGATE_MIGRATE_DOWN" help:"The way back instead of the way there."`
}

// Run implements the command.
func (c *migrateShowCmd) Run(_ context.Context, std stdio) error {
	d := migrations.Dialect(c.Dialect)
	if d == "" && c.Database != "" {
		var err error
		if d, err = migrations.DialectOf(c.Database); err != nil {
			return migrateError(err)
		}
	}
	if d == "" {
		d = migrations.Postgres
	}
	names := []string{c.Name}
	if c.Name == "" {
		names = nil
		for _, s := range migrations.All(d) {
			names = append(names, s.Name)
		}
	}
	for _, name := range names {
		up, down, err := migrations.SQL(d, name)
		if err != nil {
			return migrateError(err)
		}
		if c.Down {
			up = down
		}
		if _, err := fmt.Fprint(std.out, up); err != nil {
			return err
		}
	}
	return nil
}

type migrateForceCmd struct {
	databaseFlag
	outputFlag
	To uint `arg:"" name:"version" help:"The version that the database really has; 0 for none."`
}

// Help implements kong.HelpProvider.
func (migrateForceCmd) Help() string {
	return "A step is one transaction and writes its version, so up and down go on by themselves after a migration was killed. " +
		"Where they cannot, because the database was changed by hand, look whether the step took effect (show prints its SQL), " +
		"and write down the version: the step's if it did, the one before if it did not. A wrong version breaks the next up."
}

// Run implements the command.
func (c *migrateForceCmd) Run(ctx context.Context, std stdio) error {
	return c.with(ctx, func(m *migrations.Migrator) error {
		if err := m.Force(ctx, c.To); err != nil {
			return err
		}
		fmt.Fprintf(std.err, "the database is written down as version %d\n", c.To)
		if c.Output == "json" {
			return changes.printed(writeJSON(std.out, map[string]uint{"current": c.To}))
		}
		return nil
	})
}
