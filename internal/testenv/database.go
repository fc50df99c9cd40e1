package testenv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// templates are the databases of one server that others are copied from.
type templates struct {
	mu    sync.Mutex // held while a template is filled, so that it is filled once
	epoch int        // of the data that holds them
	names map[string]string
}

// NewDatabase creates an empty database and returns its URL for the superuser. It is dropped with the test, connections
// or not, unless the server is down then.
func (p *Postgres) NewDatabase(tb TB) string {
	tb.Helper()
	return p.newDatabase(tb, "template1")
}

// NewDatabaseFrom is NewDatabase with a database that begins as a copy of a template, which is quicker than to fill
// each one. The first call with a name fills the template; later ones, of other tests too, find it there. fill must close its
// connections.
func (p *Postgres) NewDatabaseFrom(tb TB, name string, fill func(url string) error) string {
	tb.Helper()
	template, err := p.template(name, fill)
	if err != nil {
		tb.Fatalf("testenv: template %s: %v", name, err)
	}
	return p.newDatabase(tb, template)
}

func (p *Postgres) newDatabase(tb TB, template string) string {
	tb.Helper()
	name, err := p.create(template)
	if err != nil {
		tb.Fatalf("testenv: create a database: %v", err)
	}
	tb.Cleanup(func() {
		if !p.answering() {
			return
		}
		if err := p.exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err != nil {
			tb.Logf("testenv: drop a database: %v", err)
		}
	})
	return postgresURL(p.s, name)
}

func (p *Postgres) template(name string, fill func(url string) error) (string, error) {
	t := p.templates
	t.mu.Lock()
	defer t.mu.Unlock()
	p.s.mu.Lock()
	epoch := p.s.epoch
	p.s.mu.Unlock()
	if t.names == nil || t.epoch != epoch {
		t.names, t.epoch = map[string]string{}, epoch
	}
	if db, ok := t.names[name]; ok {
		return db, nil
	}
	db, err := p.create("template1")
	if err != nil {
		return "", err
	}
	if err := fill(postgresURL(p.s, db)); err != nil {
		return "", errors.Join(err, p.exec("DROP DATABASE IF EXISTS "+db+" WITH (FORCE)"))
	}
	t.names[name] = db
	return db, nil
}

// create makes a database. The template may have connections that are about to close: it waits for them.
func (p *Postgres) create(template string) (string, error) {
	name := "db_" + strings.ReplaceAll(uniqueSuffix(), "-", "_")
	deadline := time.Now().Add(startTimeout)
	for {
		err := p.exec("CREATE DATABASE " + name + " TEMPLATE " + template)
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && pgErr.Code == "55006" && time.Now().Before(deadline) { // object_in_use
			continue // the server itself waits 5 s before it says so
		}
		return name, err
	}
}

func (p *Postgres) answering() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.proc != nil && !p.s.paused && !p.s.proc.exited()
}

// exec runs one statement on a connection of its own, which leaves nothing behind for tests that count connections.
func (p *Postgres) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	_, err = c.Exec(ctx, sql)
	return err
}
