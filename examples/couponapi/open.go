package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// backendFlags choose the lock and the store.
type backendFlags struct {
	lock, store, redisURL, postgresURL, sqlitePath string
}

func (b *backendFlags) add(f *flag.FlagSet) {
	f.StringVar(&b.lock, "lock", "memory", "where the lock is: memory (one process only), redis or postgres")
	f.StringVar(&b.store, "store", "sqlite", "where the data is: sqlite (one process only), redis or postgres")
	f.StringVar(&b.redisURL, "redis-url", "", "redis://HOST:PORT/DB, for --lock redis and --store redis")
	f.StringVar(&b.postgresURL, "postgres-url", "", "postgres://USER@HOST:PORT/NAME, for --lock postgres and --store postgres;\nits schema comes from: fencegate migrate up --database URL")
	f.StringVar(&b.sqlitePath, "sqlite-path", "", "the file of --store sqlite (default: a temporary one, removed at the end)")
}

// args returns the flags as a command line, for another process.
func (b backendFlags) args() []string {
	return []string{
		"--lock", b.lock, "--store", b.store,
		"--redis-url", b.redisURL, "--postgres-url", b.postgresURL, "--sqlite-path", b.sqlitePath,
	}
}

func (b backendFlags) uses(server string) bool { return b.lock == server || b.store == server }

// embedded reports whether a part is in the process: then one process alone can serve.
func (b backendFlags) embedded() bool { return b.lock == "memory" || b.store == "sqlite" }

func (b backendFlags) check() error {
	switch {
	case b.lock != "memory" && b.lock != "redis" && b.lock != "postgres":
		return usageError{fmt.Errorf("--lock %q: want memory, redis or postgres", b.lock)}
	case b.store != "sqlite" && b.store != "redis" && b.store != "postgres":
		return usageError{fmt.Errorf("--store %q: want sqlite, redis or postgres", b.store)}
	case b.uses("redis") && b.redisURL == "":
		return usageError{errors.New("--lock redis and --store redis need --redis-url redis://HOST:PORT/DB")}
	case b.uses("postgres") && b.postgresURL == "":
		return usageError{errors.New("--lock postgres and --store postgres need --postgres-url postgres://USER@HOST:PORT/NAME")}
	}
	return nil
}

// backends are an opened lock and store.
type backends struct {
	lock    locking.Backend
	store   storage.Backend
	closers []func() error
}

// Close closes what was opened, the last first.
func (o *backends) Close() error {
	var err error
	for i := len(o.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, o.closers[i]())
	}
	return err
}

// open opens what the flags name. After an error nothing is open.
func (b backendFlags) open(ctx context.Context) (_ *backends, err error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	o := &backends{}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	var client *redis.Client
	if b.uses("redis") {
		if client, err = o.openRedis(ctx, b.redisURL); err != nil {
			return nil, fmt.Errorf("--redis-url: %w", err)
		}
	}
	var pool *pgxpool.Pool
	if b.uses("postgres") {
		if pool, err = o.openPostgres(ctx, b.postgresURL); err != nil {
			return nil, fmt.Errorf("--postgres-url: %w", err)
		}
	}
	switch b.lock {
	case "memory":
		o.lock = memlock.New()
	case "redis":
		o.lock, err = redislock.New(client, nil)
	case "postgres":
		o.lock, err = pglock.New(ctx, pool, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("--lock %s: %w", b.lock, explain(err))
	}
	switch b.store {
	case "sqlite":
		o.store, err = o.openSQLite(ctx, b.sqlitePath)
	case "redis":
		o.store, err = redisstore.New(ctx, client, nil)
	case "postgres":
		o.store, err = pgstore.New(ctx, pool, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("--store %s: %w", b.store, explain(err))
	}
	return o, nil
}

// explain says what to do about a database without the schema: nothing migrates it silently.
func explain(err error) error {
	if errors.Is(err, pgstore.ErrSchema) || errors.Is(err, pglock.ErrSchema) {
		return fmt.Errorf("%w\nrun this once: fencegate migrate up --database URL", err)
	}
	return err
}

func (o *backends) openRedis(ctx context.Context, url string) (*redis.Client, error) {
	opt, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("want redis://HOST:PORT/DB: %w", err)
	}
	opt.MaxRetries = -1 // the client must not send a raise twice
	opt.ContextTimeoutEnabled = true
	client := redis.NewClient(opt)
	o.closers = append(o.closers, client.Close)
	return client, client.Ping(ctx).Err()
}

func (o *backends) openPostgres(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	pgstore.Configure(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	o.closers = append(o.closers, func() error { pool.Close(); return nil })
	return pool, pool.Ping(ctx)
}

func (o *backends) openSQLite(ctx context.Context, path string) (storage.Backend, error) {
	if path == "" {
		dir, err := os.MkdirTemp("", "couponapi-")
		if err != nil {
			return nil, err
		}
		o.closers = append(o.closers, func() error { return os.RemoveAll(dir) })
		path = filepath.Join(dir, "coupons.db")
	}
	b, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	o.closers = append(o.closers, b.Close)
	return b, nil
}
