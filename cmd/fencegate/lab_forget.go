package main

import (
	"context"
	_ "embed"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/locking/memlock"
)

//go:embed sql/forget_lock.sql
var forgetLockSQL string

// lockPrefix begins the keys of the locks in Redis; the command line cannot change it.
const lockPrefix = "fencegate"

// forgetKeys makes servers of Redis forget a lock: its hold, its counter, and who waits for it.
func forgetKeys(ctx context.Context, resource string, nodes ...redis.UniversalClient) error {
	var err error
	for _, node := range nodes {
		var keys []string
		for _, kind := range []string{"lock", "counter", "queue", "waiters"} {
			keys = append(keys, redisx.Key(lockPrefix, resource, kind))
		}
		err = errors.Join(err, node.Del(ctx, keys...).Err())
	}
	return err
}

// labForget is how the lab makes the configured lock store lose one of its own resources, as a flush
// or a restored backup would.
func (f backendFlags) labForget(o *opened) (func(ctx context.Context, resource string) error, error) {
	switch f.Lock {
	case "memory":
		lock, ok := o.lock.(*memlock.Backend)
		if !ok {
			return nil, errors.New("the lock in memory is of another kind")
		}
		return func(_ context.Context, resource string) error { lock.Forget(resource); return nil }, nil
	case "redis":
		return func(ctx context.Context, resource string) error { return forgetKeys(ctx, resource, o.redis) }, nil
	case "redlock":
		var nodes []redis.UniversalClient
		for _, raw := range f.RedlockURLs {
			node, err := newRedis("--redlock-urls", strings.TrimSpace(raw))
			if err != nil {
				return nil, err
			}
			o.closers = append(o.closers, node.Close)
			nodes = append(nodes, node)
		}
		return func(ctx context.Context, resource string) error { return forgetKeys(ctx, resource, nodes...) }, nil
	}
	return func(ctx context.Context, resource string) error { return forgetRow(ctx, o.postgres, resource) }, nil
}

func forgetRow(ctx context.Context, pool *pgxpool.Pool, resource string) error {
	_, err := pool.Exec(ctx, forgetLockSQL, resource)
	return err
}
