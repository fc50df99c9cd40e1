package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/locking/redlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
)

// dialing is for a connection to a server, which is on this machine.
const dialing = time.Second

// ends is how this process reaches the lock and the store, and what was opened for that.
type ends struct {
	access  workload.Access
	write   func(history.Line)
	pools   map[string]*pgxpool.Pool // by what they are for
	clients map[string]*redis.Client // by address
	closers []func()                 // before the pools
}

// open opens what the config names. After an error nothing is open.
func open(ctx context.Context, c *Config, write func(history.Line)) (_ *ends, err error) {
	redis.SetLogger(silent{})
	e := &ends{write: write, pools: map[string]*pgxpool.Pool{}, clients: map[string]*redis.Client{}}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if slices.Contains(c.Workloads, "table") {
		if e.access.Pool, err = e.pool(ctx, c, "the tables", c.StorePostgres, c.Pool); err != nil {
			return nil, err
		}
		if err = e.access.Pool.Ping(ctx); err != nil {
			return nil, fmt.Errorf("the tables: %w", err)
		}
	}
	if len(c.Gateways) > 0 {
		err = e.gateways(c)
	} else {
		err = e.servers(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	e.access.Locker, err = locking.New(e.access.Issuer, &locking.Options{
		TTL: c.TTL, Wait: c.Wait, ReleaseTimeout: c.Call, Label: "client-" + strconv.Itoa(c.Process),
	})
	return e, err
}

// gateways reaches everything through gateways; processes begin with different ones.
func (e *ends) gateways(c *Config) error {
	at := c.Process % len(c.Gateways)
	urls := append(slices.Clone(c.Gateways[at:]), c.Gateways[:at]...)
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialing}).DialContext,
		MaxIdleConnsPerHost: 2 * c.Seats,
	}
	e.closers = append(e.closers, transport.CloseIdleConnections)
	g, err := client.New(urls[0], &client.Options{
		APIKey: c.APIKey, Others: urls[1:], HTTPClient: &http.Client{Transport: transport},
		// One that hangs leaves time for another.
		Timeout: max(10*time.Millisecond, c.Call/2), Cleanup: c.Call,
	})
	if err != nil {
		return err
	}
	store := g.Store()
	e.access.Issuer, e.access.Store = g.Issuer(), store
	e.access.Locked = func(ctx context.Context, commit storage.Commit) (storage.Result, error) {
		return store.CommitLocked(ctx, commit, &client.LockOptions{Wait: c.Call / 2, Label: "client-" + strconv.Itoa(c.Process)})
	}
	return nil
}

// servers reaches the lock and the store directly.
func (e *ends) servers(ctx context.Context, c *Config) error {
	lock, err := e.lock(ctx, c)
	if err != nil {
		return fmt.Errorf("lock %s: %w", c.Lock, err)
	}
	data, err := e.data(ctx, c)
	if err != nil {
		return fmt.Errorf("store %s: %w", c.Store, err)
	}
	store, err := storage.New(data, nil)
	if err != nil {
		return err
	}
	e.access.Store = store
	lock = watched(lock, c.Process, e.write)
	e.access.Issuer, err = locking.NewIssuer(lock, []fencing.Fence{store}, &locking.IssuerOptions{Cleanup: c.Call})
	return err
}

func (e *ends) lock(ctx context.Context, c *Config) (locking.Backend, error) {
	switch c.Lock {
	case "redis":
		if len(c.LockRedis) != 1 {
			return nil, &fencing.InvalidError{What: "LockRedis", Allowed: "one address"}
		}
		return redislock.New(e.redis(c, c.LockRedis[0]), nil)
	case "redlock":
		var nodes []redis.UniversalClient
		for _, addr := range c.LockRedis {
			nodes = append(nodes, e.redis(c, addr))
		}
		// A busy machine answers late: a node that is given up too soon is no fault of the lock's.
		return redlock.New(nodes, &redlock.Options{NodeTimeout: max(c.TTL/4, time.Millisecond).Truncate(time.Millisecond)})
	case "postgres":
		pool, err := e.pool(ctx, c, "lock and store", c.LockPostgres, c.Pool)
		if err != nil {
			return nil, err
		}
		return pglock.New(ctx, pool, nil)
	case "rowlock":
		return e.rowLocks(ctx, c)
	}
	return nil, &fencing.InvalidError{What: "lock", Got: strconv.QuoteToASCII(c.Lock), Allowed: "redis, redlock, postgres, rowlock"}
}

// rowLocks takes a connection for each lock that is held or waited for.
func (e *ends) rowLocks(ctx context.Context, c *Config) (locking.Backend, error) {
	pool, err := e.pool(ctx, c, "lock and store", c.LockPostgres, c.Pool)
	if err != nil {
		return nil, err
	}
	most := c.Pool
	if most == 0 {
		most = 2*c.Seats + 2 // a seat holds two locks at most
	}
	holders, err := e.pool(ctx, c, "holders", c.LockPostgres, most)
	if err != nil {
		return nil, err
	}
	b, err := pglock.NewRowLocks(ctx, pool, holders, nil)
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
		defer cancel()
		_ = b.Close(ctx) // what it could not end shows as a connection
	})
	return b, nil
}

func (e *ends) data(ctx context.Context, c *Config) (storage.Backend, error) {
	switch c.Store {
	case "redis":
		return redisstore.New(ctx, e.redis(c, c.StoreRedis), nil)
	case "postgres":
		name := "lock and store"
		if c.StorePostgres != c.LockPostgres {
			name = "store"
		}
		pool, err := e.pool(ctx, c, name, c.StorePostgres, c.Pool)
		if err != nil {
			return nil, err
		}
		return pgstore.New(ctx, pool, nil)
	}
	return nil, &fencing.InvalidError{What: "store", Got: strconv.QuoteToASCII(c.Store), Allowed: "redis, postgres"}
}

// redis returns the client of an address.
func (e *ends) redis(c *Config, addr string) *redis.Client {
	if e.clients[addr] == nil {
		e.clients[addr] = redis.NewClient(&redis.Options{
			Addr: addr, PoolSize: c.Pool, DialTimeout: dialing, ReadTimeout: c.Call, WriteTimeout: c.Call, PoolTimeout: c.Call,
			// A raise must not be sent twice.
			MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		})
	}
	return e.clients[addr]
}

// pool returns the pool of a name.
func (e *ends) pool(ctx context.Context, c *Config, name, url string, most int) (*pgxpool.Pool, error) {
	if e.pools[name] != nil {
		return e.pools[name], nil
	}
	if url == "" {
		return nil, &fencing.InvalidError{What: "Postgres URL", Allowed: "one, for " + name}
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, &fencing.InvalidError{What: "Postgres URL", Allowed: "one that can be read: " + err.Error()}
	}
	pgstore.Configure(cfg)
	cfg.ConnConfig.ConnectTimeout = dialing
	cfg.ConnConfig.RuntimeParams["application_name"] = "torture-client-" + strconv.Itoa(c.Process)
	if most > 0 {
		cfg.MaxConns = int32(min(most, 1000))
	}
	p, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	e.pools[name] = p
	return p, nil
}

// final reports whether to try again is pointless.
func final(err error) bool {
	return errors.Is(err, fencing.ErrInvalid) || errors.Is(err, pgstore.ErrSchema)
}

// silent keeps go-redis from logging every failed dial.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
