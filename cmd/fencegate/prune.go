package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/migrations"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// pruneCmd drops what nobody needs any more from the SQL backends.
type pruneCmd struct {
	OlderThan    time.Duration `required:"" placeholder:"AGE" env:"FENCEGATE_PRUNE_OLDER_THAN" help:"How long nobody has used what is dropped: 720h, say, and 1h or more."`
	DryRun       bool          `env:"FENCEGATE_PRUNE_DRY_RUN" help:"Count, and change nothing."`
	KeyRetention time.Duration `placeholder:"AGE" env:"FENCEGATE_PRUNE_KEY_RETENTION" help:"Remove answers to idempotency keys that are older too: 24h, say, 1h or more, and not less than what any program opens the store with. Without it they stay."`
	Store        string        `enum:"none,postgres,sqlite,redis,memory," default:"none" env:"FENCEGATE_STORE" help:"Whose marks: postgres or sqlite."`
	Lock         string        `enum:"none,postgres,redis,redlock,memory," default:"none" env:"FENCEGATE_LOCK" help:"Whose counters: postgres."`
	PostgresURL  string        `placeholder:"URL" env:"FENCEGATE_POSTGRES_URL" help:"postgres://USER@HOST:PORT/NAME, for --store postgres and --lock postgres."`
	SqlitePath   string        `placeholder:"FILE" env:"FENCEGATE_SQLITE_PATH" help:"The file of --store sqlite."`
	outputFlag
}

// pruned is what is printed as JSON. What was left out is not in it.
type pruned struct {
	DryRun   bool       `json:"dry_run"` // dropped is then what could be
	Marks    *prunedOne `json:"marks,omitempty"`
	Counters *prunedOne `json:"counters,omitempty"`
	Keys     *int       `json:"idempotency_keys,omitempty"` // whose answers were removed
}

type prunedOne struct {
	Looked  int `json:"looked"`
	Dropped int `json:"dropped"`
}

// Help implements kong.HelpProvider.
func (pruneCmd) Help() string {
	return "Marks that are retired, and counters of locks that nobody holds or waits for, are dropped if they are old. " +
		"Floors stand in their place: no number that was dropped is granted again, and no token of then is accepted. " +
		"A store that has ever taken a plain number, as classic stores do from an outside lock service, is refused: that service cannot be " +
		"told of a floor, and its numbers below it would be refused for ever. Nor give a store that was pruned to one. " +
		"With --store and --key-retention the answers to idempotency keys go too that are older than that, and whose token is not the mark. " +
		"Only say it if no program promises to keep them for longer. " +
		"Records, live marks and locks that are held stay. It runs beside the gateways, in small steps, and may be " +
		"interrupted and repeated at any time; a SQLite file must be used by nobody else meanwhile. " +
		"Where --store and --lock come from the environment, none leaves one out. See docs/limits.md."
}

// unprunable says why a kind of backend cannot be pruned.
var unprunable = map[string]string{
	"memory":  "what it keeps ends with its process",
	"redis":   "it has no floor: one key cannot stand for those of all resources, which lie in different slots of a cluster",
	"redlock": "it has no floor: its nodes would have to raise one together",
}

// pruner is what can be pruned.
type pruner interface {
	Prune(ctx context.Context, olderThan time.Duration, progress func(looked, dropped int)) (dropped int, err error)
	Prunable(ctx context.Context, olderThan time.Duration, progress func(looked, dropped int)) (n int, err error)
}

// Run implements the command.
func (c *pruneCmd) Run(ctx context.Context, std stdio) (err error) {
	c.Store, c.Lock = cmp.Or(c.Store, "none"), cmp.Or(c.Lock, "none") // a variable may be set to nothing
	if err := c.check(); err != nil {
		return err
	}
	flags := backendFlags{Lock: "memory", Store: "memory", PostgresURL: c.PostgresURL, SqlitePath: c.SqlitePath, keyRetention: c.KeyRetention}
	if c.Lock != "none" {
		flags.Lock = c.Lock
	}
	if c.Store != "none" {
		flags.Store = c.Store
	}
	if c.Store == "sqlite" {
		if err := c.sqlite(ctx); err != nil {
			return err
		}
	}
	back, err := flags.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, back.close()) }()
	out := pruned{DryRun: c.DryRun}
	if c.Store != "none" {
		if out.Marks, err = c.prune(ctx, std, "marks", back.store); err != nil {
			return err
		}
		// Behind the marks: one that was pruned no longer keeps its own.
		if out.Keys, err = c.sweep(ctx, std, back.store); err != nil {
			return err
		}
	}
	if c.Lock != "none" {
		if out.Counters, err = c.prune(ctx, std, "counters", back.lock); err != nil {
			return err
		}
	}
	if c.Output != "json" {
		return nil
	}
	if err = writeJSON(std.out, out); c.DryRun {
		return err
	}
	return changes.printed(err)
}

// check is what can be said before anything is opened.
func (c *pruneCmd) check() error {
	if why := unprunable[c.Store]; why != "" {
		return usageError{fmt.Errorf("--store %s cannot be pruned: %s; postgres and sqlite can, and none leaves it out", c.Store, why)}
	}
	if why := unprunable[c.Lock]; why != "" {
		return usageError{fmt.Errorf("--lock %s cannot be pruned: %s; postgres can, and none leaves it out", c.Lock, why)}
	}
	if c.Store == "none" && c.Lock == "none" {
		return usageError{errors.New("what is to be pruned? --store postgres, --store sqlite, --lock postgres")}
	}
	if c.OlderThan < pgstore.MinPruneAge {
		return usageError{&fencing.InvalidError{What: "age", Got: c.OlderThan.String(), Allowed: "1h or more, the longest TTL of a lock"}}
	}
	if c.KeyRetention != 0 && c.KeyRetention < time.Hour {
		return usageError{&fencing.InvalidError{What: "key retention", Got: c.KeyRetention.String(), Allowed: "1h or more"}}
	}
	if c.Store != "sqlite" {
		return nil
	}
	if c.SqlitePath == "" {
		return usageError{errors.New("--sqlite-path is needed for --store sqlite")}
	}
	if _, err := os.Stat(c.SqlitePath); err != nil { // to open it would make it
		return fmt.Errorf("%s cannot be opened: %w", c.SqlitePath, cmp.Or(errors.Unwrap(err), err))
	}
	return nil
}

// sqlite looks whether the file is a store of this version, and writes nothing: to open it as a
// store would make one of it.
func (c *pruneCmd) sqlite(ctx context.Context) error {
	m, err := migrations.Open(ctx, "sqlite:"+c.SqlitePath)
	if err != nil {
		return err
	}
	s, err := m.Version(ctx)
	switch err = errors.Join(err, m.Close()); {
	case err != nil:
		return err
	case s.Current == 0:
		return fmt.Errorf("%s is not a store of fencegate: it has none of its tables", c.SqlitePath)
	case s.Current < s.Latest || s.Dirty:
		return fmt.Errorf("%s has version %d of the schema, want %d: run fencegate migrate up", c.SqlitePath, s.Current, s.Latest)
	}
	return nil
}

// prune prunes one backend, and says what came of it, also when that is not all.
func (c *pruneCmd) prune(ctx context.Context, std stdio, what string, backend any) (*prunedOne, error) {
	b, ok := backend.(pruner)
	if !ok {
		return nil, fmt.Errorf("these %s cannot be pruned", what)
	}
	tell := count(std.err, what+" looked at")
	looked := 0
	progress := func(l, _ int) {
		looked = l
		tell(l)
	}
	if c.DryRun {
		n, err := b.Prunable(ctx, c.OlderThan, progress)
		if err != nil {
			return nil, fmt.Errorf("count the %s: %w", what, err)
		}
		if c.Output == "text" {
			_, err = fmt.Fprintf(std.out, "%d of %d %s could be dropped\n", n, looked, what)
		}
		return &prunedOne{looked, n}, err
	}
	n, err := b.Prune(ctx, c.OlderThan, progress)
	if err != nil {
		fmt.Fprintf(std.err, "not done: %d of the first %d %s dropped, which stays so; run it again for the rest\n", n, looked, what)
		return nil, fmt.Errorf("prune the %s: %w", what, err)
	}
	fmt.Fprintf(std.err, "done: %d of %d %s dropped\n", n, looked, what)
	return &prunedOne{looked, n}, nil
}

// sweeper is what keeps answers to idempotency keys. A commit with a key removes those of its own
// resource; this is for resources that are no longer used.
type sweeper interface {
	Sweep(ctx context.Context) (n int, err error)
}

// sweep removes the answers that are overdue, if it was said when that is: what the stores were
// opened with, which promise it to their clients, is not known here.
func (c *pruneCmd) sweep(ctx context.Context, std stdio, backend any) (*int, error) {
	b, ok := backend.(sweeper)
	if !ok {
		return nil, errors.New("these answers to idempotency keys cannot be swept")
	}
	if c.DryRun {
		return nil, nil
	}
	if c.KeyRetention == 0 {
		fmt.Fprintln(std.err, "answers to idempotency keys stay: --key-retention was not given")
		return nil, nil
	}
	n, err := b.Sweep(ctx)
	if err != nil {
		fmt.Fprintf(std.err, "not done: %d answers to idempotency keys removed, which stays so; run it again for the rest\n", n)
		return nil, fmt.Errorf("sweep the answers to idempotency keys: %w", err)
	}
	fmt.Fprintf(std.err, "done: %d answers to idempotency keys removed\n", n)
	return &n, nil
}
