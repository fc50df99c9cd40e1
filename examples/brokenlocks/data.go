package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// data is where the counter lies. One that does not look at tokens takes every write: that is no
// simulation of an unfenced store but one.
type data interface {
	raise(ctx context.Context, t fencing.Token) error
	read(ctx context.Context, t fencing.Token) (int64, error)
	write(ctx context.Context, t fencing.Token, value int64) error
	last(ctx context.Context, resource string) (int64, error) // without a token: for whoever looks at the end
}

// fenced is a store of fencegate, in the classic mode: its numbers come from outside.
type fenced struct{ store *storage.Store }

func newFenced(b storage.Backend) (fenced, error) {
	s, err := storage.New(b, &storage.Options{Mode: fencing.Classic})
	return fenced{s}, err
}

func (f fenced) raise(ctx context.Context, t fencing.Token) error { return f.store.Raise(ctx, t) }

func (f fenced) read(ctx context.Context, t fencing.Token) (int64, error) {
	return number(f.store.GetFenced(ctx, t, count))
}

func (f fenced) last(ctx context.Context, resource string) (int64, error) {
	return number(f.store.Get(ctx, resource, count))
}

func number(rec storage.Record, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	n, ok := storage.ParseCounter(rec.Value)
	if !ok {
		return 0, fmt.Errorf("%s is no number: %q", count, rec.Value)
	}
	return n, nil
}

func (f fenced) write(ctx context.Context, t fencing.Token, value int64) error {
	_, err := f.store.Put(ctx, t, count, storage.Counter(value))
	return err
}

// count is the record of the counter, under the resource that is named like it.
const count = "count"

var errNoFence = errors.New("this store knows no tokens")

// plainRedis is a key of Redis: GET and SET.
type plainRedis struct{ client *redis.Client }

func (p plainRedis) raise(context.Context, fencing.Token) error { return errNoFence }

func (p plainRedis) read(ctx context.Context, t fencing.Token) (int64, error) {
	return p.client.Get(ctx, t.Resource).Int64()
}

func (p plainRedis) write(ctx context.Context, t fencing.Token, value int64) error {
	return p.client.Set(ctx, t.Resource, value, 0).Err()
}

func (p plainRedis) last(ctx context.Context, resource string) (int64, error) {
	return p.client.Get(ctx, resource).Int64()
}

// plainPostgres is a row of a table: SELECT and UPDATE.
type plainPostgres struct{ db *pgxpool.Pool }

func (p plainPostgres) raise(context.Context, fencing.Token) error { return errNoFence }

func (p plainPostgres) read(ctx context.Context, t fencing.Token) (n int64, err error) {
	err = p.db.QueryRow(ctx, "SELECT value FROM counters WHERE name = $1", t.Resource).Scan(&n)
	return n, err
}

func (p plainPostgres) write(ctx context.Context, t fencing.Token, value int64) error {
	_, err := p.db.Exec(ctx, `INSERT INTO counters (name, value) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, t.Resource, value)
	return err
}

func (p plainPostgres) last(ctx context.Context, resource string) (int64, error) {
	return p.read(ctx, fencing.Token{Resource: resource})
}
