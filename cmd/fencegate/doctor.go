package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/sqlitefile"
	"github.com/fencegate/fencegate/migrations"
)

//go:embed sql/standbys.sql
var standbysSQL string

type doctorCmd struct {
	gatewayFlags
	backendFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (doctorCmd) Help() string {
	return "It looks at the lock and the store as they are set up now, or asks a gateway about its own (--url), and says what may cost acknowledged writes, locks or numbers. " +
		"It changes nothing. A problem breaks a promise and must be mended; a warning is a choice that has a price, which docs/operations.md explains. " +
		"The exit status is 0 without problems, warnings or not, 69 if something does not answer, else 1."
}

// Run implements the command.
func (c *doctorCmd) Run(ctx context.Context, k *kong.Context, std stdio) error {
	byURL, err := c.byURL(k)
	if err != nil {
		return err
	}
	var rep checkup
	if byURL {
		rep.Parts, err = c.gatewayParts(ctx)
	} else {
		rep.Parts, err = c.serverParts(ctx)
	}
	if err != nil {
		return err
	}
	for _, p := range rep.Parts {
		if _, ok := errors.AsType[usageError](p.err); ok {
			return p.err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.Output == "json" {
		rep.OK = rep.err() == nil
		if err := writeJSON(std.out, rep); err != nil {
			return err
		}
	} else if err := rep.text(std.out); err != nil {
		return err
	}
	return rep.err()
}

// serverParts looks at the lock and the store themselves.
func (c *doctorCmd) serverParts(ctx context.Context) (_ []part, err error) {
	if c.backendFlags, err = c.settled(); err != nil {
		return nil, err
	}
	if c.SqlitePath == "" {
		c.SqlitePath = sqliteDefault
	}
	return []part{c.lockPart(ctx), c.storePart(ctx)}, nil
}

// checkup is what was found, of one part each.
type checkup struct {
	OK    bool   `json:"ok"`
	Parts []part `json:"parts"`
}

// part is what was found of the lock or of the store.
type part struct {
	Gateway  string   `json:"gateway,omitempty"` // whose it is, by its URL
	Part     string   `json:"part"`              // lock or store; gateway, of one that does not answer
	Kind     string   `json:"kind"`              // redis, postgres, ...
	Problems []string `json:"problems"`
	Warnings []string `json:"warnings"`
	Checked  []string `json:"checked"` // what was looked at

	err error // what kept it from being opened or asked: a problem, too
}

// breaking is how those warnings begin that tell of a broken promise: with these settings,
// what was acknowledged can be lost, or a mark forgotten, without a new incarnation.
var breaking = []string{
	"fsync is off", "full_page_writes is off",
	"Redis may evict keys", "Redis could not write its append-only file",
}

// checker is what locks and stores offer to operators, see locking.Checker.
type checker interface {
	Warnings(ctx context.Context) ([]string, error)
}

// examine asks an open backend how it may lose what it acknowledged, and adds it to what is
// known of the part. The error says that it could not be asked.
func (p *part) examine(ctx context.Context, backend any) error {
	c, ok := backend.(checker)
	if !ok {
		return nil
	}
	list, err := c.Warnings(ctx)
	for _, w := range list {
		p.add(w)
	}
	if err == nil {
		p.Checked = append(p.Checked, "durability")
	}
	return err
}

// add files a sentence under problems or warnings.
func (p *part) add(sentence string) {
	for _, begin := range breaking {
		if strings.HasPrefix(sentence, begin) {
			p.Problems = append(p.Problems, fullStop(sentence))
			return
		}
	}
	p.Warnings = append(p.Warnings, fullStop(sentence))
}

// fail files an error under problems; nil is none.
func (p *part) fail(err error) {
	if err == nil {
		return
	}
	p.err = err
	p.Problems = append(p.Problems, fullStop(strings.ReplaceAll(err.Error(), "\n", "; ")))
}

func fullStop(sentence string) string { return strings.TrimSuffix(sentence, ".") + "." }

func newPart(name, kind string) part {
	return part{Part: name, Kind: kind, Problems: []string{}, Warnings: []string{}, Checked: []string{}}
}

// lockPart opens the lock alone, so that what is wrong with the store does not hide it.
func (c *doctorCmd) lockPart(ctx context.Context) part {
	p := newPart("lock", c.Lock)
	f := c.backendFlags
	f.Store = "memory"
	p.open(ctx, f, func(ctx context.Context, o *opened) { p.fail(opening(p.examine(ctx, o.lock))) })
	return p
}

const inMemory = "the data is in memory and gone when the process ends"

func (c *doctorCmd) storePart(ctx context.Context) part {
	p := newPart("store", c.Store)
	f := c.backendFlags
	f.Lock = "memory"
	switch c.Store {
	case "memory":
		p.add(inMemory)
	case "sqlite":
		p.sqlite(ctx, c.SqlitePath)
	default:
		p.open(ctx, f, func(ctx context.Context, o *opened) {
			p.fail(opening(p.examine(ctx, o.store)))
			if f.Store == "postgres" {
				p.standbys(ctx, f, o)
			}
		})
	}
	return p
}

// open opens the backends and calls look, or files why they cannot be opened.
func (p *part) open(ctx context.Context, f backendFlags, look func(context.Context, *opened)) {
	o, err := f.open(ctx)
	if err != nil {
		p.fail(err)
		return
	}
	p.Checked = append(p.Checked, "it opens")
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	look(ctx, o)
	if err := o.close(); err != nil && p.err == nil {
		p.fail(err)
	}
}

// standbys looks at a Postgres store's replication: what a failover would lose.
func (p *part) standbys(ctx context.Context, f backendFlags, o *opened) {
	pool, err := f.postgres(ctx, o)
	if err != nil {
		p.fail(opening(err))
		return
	}
	p.replication(ctx, pool)
}

func (p *part) replication(ctx context.Context, pool *pgxpool.Pool) {
	var names string
	var receivers int
	if err := pool.QueryRow(ctx, standbysSQL).Scan(&names, &receivers); err != nil {
		p.fail(fmt.Errorf("look at the standbys: %w", err))
		return
	}
	p.Checked = append(p.Checked, "standbys")
	switch {
	case names == "" && receivers > 0:
		p.add("a standby follows, and synchronous_standby_names is empty: a failover to it loses the last acknowledged writes (no token of before is accepted afterwards)")
	case names != "" && receivers == 0:
		p.Problems = append(p.Problems, "synchronous_standby_names is set, and no standby is connected: every commit waits until one is.")
	}
}

// sqlite looks at a file without taking it from a running process, and without making it.
func (p *part) sqlite(ctx context.Context, path string) {
	if _, err := sqlitefile.Resolve(path); err != nil {
		p.fail(err)
		return
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		p.add(path + " is not there yet: it will be made")
		return
	}
	m, err := migrations.Open(ctx, "sqlite:"+path)
	if err != nil {
		p.fail(err)
		return
	}
	s, err := m.Version(ctx)
	if err = errors.Join(err, m.Close()); err != nil {
		p.fail(err)
		return
	}
	p.Checked = append(p.Checked, "it opens", "schema")
	// What keeps the store from opening.
	switch {
	case s.Current > s.Latest:
		p.fail(fmt.Errorf("%s: %w", path, &migrations.NewerError{Version: s.Current, Latest: s.Latest}))
	case s.Dirty:
		p.fail(fmt.Errorf("%s: a migration to version %d was killed on its way: run fencegate migrate up, which settles it or says what to do", path, s.Current))
	}
}

// err is nil if there is no problem.
func (c checkup) err() error {
	problems := 0
	silent := false
	for _, p := range c.Parts {
		problems += len(p.Problems)
		_, down := errors.AsType[unavailableError](p.err)
		silent = silent || down
	}
	if problems == 0 {
		return nil
	}
	err := fmt.Errorf("%s to be mended", plural(problems, "problem"))
	if silent {
		return unavailableError{err}
	}
	return err
}

func (c checkup) text(w io.Writer) error {
	for _, p := range c.Parts {
		state := "fine"
		if len(p.Problems)+len(p.Warnings) > 0 {
			state = plural(len(p.Problems), "problem") + ", " + plural(len(p.Warnings), "warning")
		}
		if len(p.Checked) > 0 {
			state += " (checked: " + strings.Join(p.Checked, ", ") + ")"
		}
		text := fmt.Sprintf("%s %s: %s\n", p.Part, p.Kind, state)
		if p.Gateway != "" {
			text = p.Gateway + " " + text
		}
		for _, s := range p.Problems {
			text += "  problem: " + s + "\n"
		}
		for _, s := range p.Warnings {
			text += "  warning: " + s + "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
