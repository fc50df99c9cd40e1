package http

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// The kinds of backends.
const (
	inMemory   = "memory"
	onRedis    = "redis"
	onPostgres = "postgres"
	onSQLite   = "sqlite"
)

type backends struct {
	lock  locking.Backend
	store storage.Backend
}

// open opens what the server stands on. Its clients and pools are as large as the load is wide.
func (s setup) open(ctx context.Context, h *rig.Host, onBatch func(int)) (b backends, err error) {
	var client *redis.Client
	if s.Redis != "" {
		client = rig.Client(h, s.Redis, connections)
	}
	var pool *pgxpool.Pool
	if s.Postgres != "" {
		if pool, err = rig.Pool(ctx, h, s.Postgres, connections); err != nil {
			return b, err
		}
	}
	switch s.Lock {
	case inMemory:
		b.lock = memlock.New()
	case onRedis:
		b.lock, err = redislock.New(client, nil)
	case onPostgres:
		b.lock, err = pglock.New(ctx, pool, nil)
	default:
		err = fmt.Errorf("no lock store %q", s.Lock)
	}
	if err != nil {
		return b, err
	}
	switch s.Store {
	case inMemory:
		b.store = memstore.New(nil)
	case onRedis:
		b.store, err = redisstore.New(ctx, client, nil)
	case onPostgres:
		b.store, err = pgstore.New(ctx, pool, &pgstore.Options{OnBatch: onBatch})
	case onSQLite:
		var file *sqlitestore.Backend
		if file, err = sqlitestore.Open(ctx, filepath.Join(s.Dir, "bench.db"), &sqlitestore.Options{OnBatch: onBatch}); err == nil {
			h.Cleanup(func() { _ = file.Close() })
		}
		b.store = file
	default:
		err = fmt.Errorf("no store %q", s.Store)
	}
	return b, err
}

// known is the name of a resource that a server knows from its start.
func known(i int) string { return fmt.Sprintf("coupon:%07d", i) }

// fill grants every known resource once, and ends all of the grants but the first s.Held.
func (s setup) fill(ctx context.Context, desk locking.Issuer) error {
	g, ctx := errgroup.WithContext(ctx)
	const workers = 64 // a store that writes several at once gets several at once
	for w := range workers {
		g.Go(func() error {
			for i := w; i < s.Known; i += workers {
				granted, err := desk.Grant(ctx, locking.Request{Resource: known(i), Grant: fencing.NewGrant(), TTL: time.Hour})
				if err == nil && i >= s.Held {
					_, err = desk.Release(ctx, granted.Token)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
