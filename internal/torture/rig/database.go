package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/migrations"
)

// ownDatabase is the name of the database on a private server.
const ownDatabase = "fencegate_torture"

// database is the run's database.
type database struct {
	server *url.URL // as it was given, with another database
	addr   string   // of the server
	name   string
	tables bool // those of workload table are in it
}

// parseDatabase takes the URL of a server.
func parseDatabase(server, name string, tables bool) (*database, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Hostname() == "" || strings.Contains(u.Host, ",") {
		return nil, errors.New("the Postgres URL: want postgres://USER@HOST:PORT/NAME, of one server") // without the URL, which may hold a password
	}
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	return &database{server: u, addr: net.JoinHostPort(u.Hostname(), port), name: name, tables: tables}, nil
}

// createUserDatabase makes a database on the user's own server.
func createUserDatabase(ctx context.Context, server string, tables bool) (*database, error) {
	d, err := parseDatabase(server, ownDatabase+"_"+strings.ToLower(rand.Text()[:10]), tables)
	if err != nil {
		return nil, err
	}
	if err := d.create(ctx); err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return nil, errors.Join(err, d.drop(clean))
	}
	return d, nil
}

// at is the URL of the database at an address.
func (d *database) at(addr, application string) string {
	u := *d.server
	u.Host, u.Path = addr, "/"+d.name
	q := u.Query()
	if application != "" {
		q.Set("application_name", application)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// create makes the database with its schema and tables.
func (d *database) create(ctx context.Context) error {
	err := d.exec(ctx, "CREATE DATABASE "+pgx.Identifier{d.name}.Sanitize())
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch refused.Code {
		case "42P04": // duplicate_database
			err = nil
		case "42501": // insufficient_privilege
			return fmt.Errorf("the role of the Postgres URL may not create a database, which the run needs for itself: want a role with CREATEDB: %w", err)
		}
	}
	if err != nil {
		return fmt.Errorf("create the database %s: %w", d.name, err)
	}
	m, err := migrations.Open(ctx, d.at(d.addr, ""))
	if err != nil {
		return fmt.Errorf("migrate the database %s: %w", d.name, err)
	}
	_, err = m.Up(ctx)
	if err := errors.Join(err, m.Close()); err != nil {
		return fmt.Errorf("migrate the database %s: %w", d.name, err)
	}
	if !d.tables {
		return nil
	}
	return workload.PrepareTables(ctx, d.at(d.addr, ""))
}

// drop removes it, with whoever is still connected.
func (d *database) drop(ctx context.Context) error {
	err := d.exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{d.name}.Sanitize()+" WITH (FORCE)")
	if err != nil {
		return fmt.Errorf("drop the database %s: %w", d.name, err)
	}
	return nil
}

// exec runs a statement in the database that the server's URL names.
func (d *database) exec(ctx context.Context, sql string) error {
	u := *d.server
	u.Host = d.addr
	c, err := pgx.Connect(ctx, u.String())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	_, err = c.Exec(ctx, sql)
	return err
}
