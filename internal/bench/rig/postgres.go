package rig

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/migrations"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// Migrated returns the URL of a new database with this project's schema.
func Migrated(ctx context.Context, tb testing.TB, server *testenv.Postgres) string {
	tb.Helper()
	return server.NewDatabaseFrom(tb, "migrated", func(url string) error {
		m, err := migrations.Open(ctx, url)
		if err != nil {
			return err
		}
		defer m.Close()
		_, err = m.Up(ctx)
		return err
	})
}

// Pool returns a pool of so many connections as this project wants it, which ends with tb.
func Pool(ctx context.Context, tb testing.TB, url string, size int32) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	c.MaxConns = size
	pgstore.Configure(c) // pglock's does the same
	p, err := pgxpool.NewWithConfig(ctx, c)
	if err == nil {
		tb.Cleanup(p.Close)
	}
	return p, err
}

// Through returns the address of a database as seen through a proxy.
func Through(database string, p *Proxy) (string, error) {
	u, err := url.Parse(database)
	if err != nil {
		return "", err
	}
	u.Host = p.Addr()
	return u.String(), nil
}
