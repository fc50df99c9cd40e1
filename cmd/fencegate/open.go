package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/locking/redlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// backendFlags choose the lock and the store.
type backendFlags struct {
	Lock        string   `enum:"memory,redis,redlock,postgres" default:"memory" env:"FENCEGATE_LOCK" help:"Where the lock is: ${enum}."`
	Store       string   `enum:"sqlite,memory,redis,postgres" default:"sqlite" env:"FENCEGATE_STORE" help:"Where the data is: ${enum}."`
	RedisURL    []string `name:"redis-url" placeholder:"URL" env:"FENCEGATE_REDIS_URL" help:"redis://HOST:PORT/DB, for --lock redis and --store redis. Several, given again or separated by commas, are the nodes of a redlock cluster: --lock redis is then redlock."`
	PostgresURL string   `placeholder:"URL" env:"FENCEGATE_POSTGRES_URL" help:"postgres://USER@HOST:PORT/NAME, for --lock postgres and --store postgres; see fencegate migrate."`
	SqlitePath  string   `placeholder:"FILE" env:"FENCEGATE_SQLITE_PATH" help:"The file of --store sqlite. Default: fencegate.db, here; of the demo: a temporary one, removed at the end."`
	redlockFlags
	RedlockNodeTimeout time.Duration `name:"redlock-node-timeout" default:"50ms" env:"FENCEGATE_REDLOCK_NODE_TIMEOUT" help:"How long a call waits for a node of --lock redlock (default: ${default})."`

	keyRetention time.Duration // of idempotency records; 0: the backends' default
	wiring       wiring
}

// wiring is what a long-lived command adds to what is opened for it. The zero value adds nothing.
type wiring struct {
	sqliteWait  time.Duration                     // for another process to give the file back
	connections int32                             // of the Postgres pool, where its URL says nothing; 0: the driver's default
	postgres    func(*pgxpool.Config)             // sees the pool's configuration before it is made
	redis       func(redis.UniversalClient) error // sees each client before it is used
	batch       func(int)                         // is told how many commits were applied together
}

// settled returns the flags with several --redis-url turned into the nodes of a redlock cluster.
func (f backendFlags) settled() (backendFlags, error) {
	lock := f.Lock == "redis" || f.Lock == "redlock"
	if len(f.RedisURL) < 2 || !lock && f.Store != "redis" {
		return f, nil
	}
	switch {
	case f.Store == "redis":
		return f, usageError{errors.New("--store redis is one server: give one --redis-url for it, and the nodes of --lock redlock as --redlock-urls")}
	case len(f.RedlockURLs) > 0:
		return f, usageError{errors.New("several --redis-url are the nodes of --lock redlock, and so are --redlock-urls: give one of the two")}
	}
	f.Lock, f.RedlockURLs, f.RedisURL = "redlock", f.RedisURL, nil
	return f, nil
}

// check says what cannot work, before anything is opened. f is settled.
func (f backendFlags) check() error {
	if f.Lock == "redis" || f.Store == "redis" {
		if len(f.RedisURL) == 0 || f.RedisURL[0] == "" {
			return usageError{errors.New("--redis-url is needed for --lock redis and --store redis")}
		}
		if _, err := redisOptions("--redis-url", f.RedisURL[0]); err != nil {
			return err
		}
	}
	if f.Lock == "postgres" || f.Store == "postgres" {
		if _, err := f.postgresConfig(); err != nil {
			return err
		}
	}
	if f.Lock == "redlock" {
		_, done, err := f.redlockFlags.open(redlock.Options{NodeTimeout: f.RedlockNodeTimeout}) // contacts nobody
		if err != nil {
			return err
		}
		return done()
	}
	return nil
}

// openTimeout is how long a server may take to answer before it counts as unavailable.
const openTimeout = 10 * time.Second

// opened is a lock and a store, and how to close what was opened for them.
type opened struct {
	lock    locking.Backend
	store   storage.Backend
	closers []func() error

	redis    *redis.Client // nil where neither is in one
	postgres *pgxpool.Pool // the same

	// Whether lock and store serve at this moment; nil where they are in this process.
	lockServes, storeServes func(context.Context) error
	// The version of the lock's and the store's schema; nil where there is none.
	lockSchema, storeSchema func(context.Context) (int, error)
}

func (o *opened) close() error {
	var err error
	for i := len(o.closers) - 1; i >= 0; i-- {
		err = errors.Join(err, o.closers[i]())
	}
	return err
}

// open turns the flags into backends. After an error nothing is open.
func (f backendFlags) open(ctx context.Context) (_ *opened, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*openTimeout)
	defer cancel()
	o := &opened{}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.close())
		}
	}()
	if f, err = f.settled(); err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	var client *redis.Client
	if f.Lock == "redis" || f.Store == "redis" {
		if client, err = f.redis(ctx, o); err != nil {
			return nil, err
		}
		o.redis = client
	}
	var pool *pgxpool.Pool
	if f.Lock == "postgres" || f.Store == "postgres" {
		if pool, err = f.postgres(ctx, o); err != nil {
			return nil, err
		}
		o.postgres = pool
	}
	switch f.Lock {
	case "memory":
		o.lock = memlock.New()
	case "redis":
		o.lock, err = openRedislock(ctx, client, o)
	case "redlock":
		o.lock, err = f.redlock(ctx, o)
	case "postgres":
		o.lock, err = pglock.New(ctx, pool, nil)
		o.lockServes = func(ctx context.Context) error { _, err := pglock.New(ctx, pool, nil); return err }
		o.lockSchema = schemaOf(pool)
	}
	if err != nil {
		return nil, fmt.Errorf("--lock %s: %w", f.Lock, opening(err))
	}
	switch f.Store {
	case "memory":
		o.store = memstore.New(&memstore.Options{KeyRetention: f.keyRetention})
	case "redis":
		o.store, err = openRedisstore(ctx, client, o, f.keyRetention)
	case "postgres":
		opt := &pgstore.Options{KeyRetention: f.keyRetention, OnBatch: f.wiring.batch}
		o.store, err = pgstore.New(ctx, pool, opt)
		o.storeServes = func(ctx context.Context) error { _, err := pgstore.New(ctx, pool, opt); return err }
		o.storeSchema = schemaOf(pool)
	case "sqlite":
		o.store, err = f.sqlite(ctx, o)
	}
	if err != nil {
		return nil, fmt.Errorf("--store %s: %w", f.Store, opening(err))
	}
	return o, nil
}

// opening gives an error of a backend's New its exit status.
func opening(err error) error {
	_, refused := errors.AsType[*pgconn.PgError](err)
	_, denied := errors.AsType[redis.Error](err)
	if errors.Is(err, fencing.ErrFailed) && !refused && !denied {
		return unavailableError{err}
	}
	return err
}

func (f backendFlags) redis(ctx context.Context, o *opened) (*redis.Client, error) {
	client, err := newRedis("--redis-url", f.RedisURL[0]) // check has seen that it is there
	if err != nil {
		return nil, err
	}
	o.closers = append(o.closers, client.Close)
	if f.wiring.redis != nil {
		if err := f.wiring.redis(client); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		addr := client.Options().Addr
		if _, answered := errors.AsType[redis.Error](err); answered {
			return nil, fmt.Errorf("the Redis at %s refuses: %w", addr, err)
		}
		return nil, unavailableError{fmt.Errorf("the Redis at %s does not answer: %w", addr, err)}
	}
	return client, nil
}

// newRedis makes the client of one server, which it does not contact.
func newRedis(flag, raw string) (*redis.Client, error) {
	opt, err := redisOptions(flag, raw)
	if err != nil {
		return nil, err
	}
	redis.SetLogger(silent{})
	return redis.NewClient(opt), nil
}

func redisOptions(flag, raw string) (*redis.Options, error) {
	opt, err := redis.ParseURL(raw)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL, which may hold a password
		}
		return nil, usageError{fmt.Errorf("%s: want redis://HOST:PORT/DB: %w", flag, err)}
	}
	opt.MaxRetries = -1 // a raise must not be sent twice
	opt.DialerRetries = 1
	opt.ContextTimeoutEnabled = true
	return opt, nil
}

func openRedislock(ctx context.Context, client *redis.Client, o *opened) (locking.Backend, error) {
	b, err := redislock.New(client, nil)
	if err != nil {
		return nil, err
	}
	o.lockServes = b.Check
	return b, b.Check(ctx)
}

func openRedisstore(ctx context.Context, client *redis.Client, o *opened, retention time.Duration) (storage.Backend, error) {
	b, err := redisstore.New(ctx, client, &redisstore.Options{KeyRetention: retention})
	if err != nil {
		return nil, err
	}
	o.storeServes = b.Check
	return b, nil
}

// silent keeps go-redis from logging every failed dial: the error says it.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func (f backendFlags) postgresConfig() (*pgxpool.Config, error) {
	if f.PostgresURL == "" {
		return nil, usageError{errors.New("--postgres-url is needed for --lock postgres and --store postgres")}
	}
	cfg, err := pgxpool.ParseConfig(f.PostgresURL)
	if err != nil {
		return nil, usageError{fmt.Errorf("--postgres-url: %w", err)}
	}
	return cfg, nil
}

func (f backendFlags) postgres(ctx context.Context, o *opened) (*pgxpool.Pool, error) {
	cfg, err := f.postgresConfig()
	if err != nil {
		return nil, err
	}
	pgstore.Configure(cfg)
	if f.wiring.connections > 0 && !strings.Contains(f.PostgresURL, "pool_max_conns") {
		cfg.MaxConns = f.wiring.connections
	}
	if f.wiring.postgres != nil {
		f.wiring.postgres(cfg)
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	o.closers = append(o.closers, func() error { pool.Close(); return nil })
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := pool.Ping(ctx); err != nil {
		err = fmt.Errorf("the Postgres at %s:%d: %w", cfg.ConnConfig.Host, cfg.ConnConfig.Port, err)
		if _, answered := errors.AsType[*pgconn.PgError](err); answered {
			return nil, err
		}
		return nil, unavailableError{err}
	}
	return pool, nil
}

func (f backendFlags) sqlite(ctx context.Context, o *opened) (storage.Backend, error) {
	path := f.SqlitePath
	if path == "" {
		dir, err := os.MkdirTemp("", "fencegate-")
		if err != nil {
			return nil, err
		}
		o.closers = append(o.closers, func() error { return os.RemoveAll(dir) })
		path = filepath.Join(dir, "coupons.db")
	}
	b, err := sqlitestore.Open(ctx, path, &sqlitestore.Options{KeyRetention: f.keyRetention, Wait: f.wiring.sqliteWait, OnBatch: f.wiring.batch})
	if err != nil {
		return nil, err
	}
	o.closers = append(o.closers, b.Close)
	o.storeServes = func(ctx context.Context) error { _, err := b.Mark(ctx, "fencegate-ready"); return err }
	return b, nil
}

//go:embed sql/schema_version.sql
var schemaVersionSQL string

// schemaOf asks a database for the version of its schema.
func schemaOf(pool *pgxpool.Pool) func(context.Context) (int, error) {
	return func(ctx context.Context) (version int, err error) {
		err = pool.QueryRow(ctx, schemaVersionSQL).Scan(&version)
		return version, err
	}
}
