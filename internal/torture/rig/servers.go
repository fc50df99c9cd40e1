package rig

import (
	"context"
	"errors"
	"slices"

	"github.com/fencegate/fencegate/internal/testenv"
)

// startServers starts what the spec names, side by side, and notes where it is.
func (r *Rig) startServers(ctx context.Context) error {
	var starts []func()
	if isRedis(r.Spec.Lock) || isRedis(r.Spec.Store) || r.Spec.Lock == "redlock" {
		starts = append(starts, r.inTB(ctx, r.startRedis))
	}
	if isPostgres(r.Spec.Lock) || isPostgres(r.Spec.Store) {
		starts = append(starts, r.inTB(ctx, r.startPostgres))
	}
	if err := r.tb.all(starts...); err != nil {
		return err
	}
	return r.nameServers()
}

// inTB is a step as bench.all wants it.
func (r *Rig) inTB(ctx context.Context, step func(context.Context) error) func() {
	return func() {
		if err := step(ctx); err != nil {
			r.tb.Fatalf("%w", err)
		}
	}
}

func (r *Rig) nameServers() error {
	lock, store := r.LockNames(), r.StoreName()
	for i, name := range lock {
		var addr string
		switch {
		case isPostgres(r.Spec.Lock):
			addr = r.postgres.addr
		case r.redis != nil:
			addr = r.redis.addr()
		default:
			addr = r.LockRedis[i].Addr()
		}
		if err := r.name(name, addr); err != nil {
			return err
		}
	}
	switch {
	case store == "" || slices.Contains(lock, store):
		return nil
	case isPostgres(r.Spec.Store):
		return r.name(store, r.postgres.addr)
	case r.redis != nil:
		return r.name(store, r.redis.addr())
	}
	return r.name(store, r.StoreRedis.Addr())
}

func (r *Rig) startRedis(ctx context.Context) error {
	s := r.Spec
	if s.RedisURL != "" {
		var err error
		if r.redis, err = openUserRedis(ctx, s.RedisURL); err != nil {
			return err
		}
		if s.Gateways == 0 && !r.redis.plain() {
			return errors.New("the Redis URL: want redis://HOST:PORT and no more, client processes know an address only (gateways take any URL)")
		}
		return nil
	}
	onStore := r.redisOptions()
	if s.SmallDisk > 0 && isRedis(s.Store) {
		mount, err := smallDisk(s.SmallDisk)
		if err != nil {
			return err
		}
		onStore.Mount = mount
	}
	start := func(o *testenv.RedisOptions, standby Standby) (primary, replica *testenv.Redis) {
		primary = testenv.StartRedis(r.tb, o)
		if standby != NoStandby {
			replica = testenv.StartRedis(r.tb, r.redisOptions())
			replica.Follow(primary.Addr())
		}
		return primary, replica
	}
	switch {
	case isRedis(s.Lock) && isRedis(s.Store):
		r.StoreRedis, r.StoreRedisStandby = start(onStore, max(s.LockStandby, s.StoreStandby))
		r.LockRedis, r.LockRedisStandby = []*testenv.Redis{r.StoreRedis}, r.StoreRedisStandby
		return nil
	case isRedis(s.Lock):
		node, replica := start(r.redisOptions(), s.LockStandby)
		r.LockRedis, r.LockRedisStandby = []*testenv.Redis{node}, replica
	case s.Lock == "redlock":
		for range s.Nodes {
			r.LockRedis = append(r.LockRedis, testenv.StartRedis(r.tb, r.redisOptions()))
		}
	}
	if isRedis(s.Store) {
		r.StoreRedis, r.StoreRedisStandby = start(onStore, s.StoreStandby)
	}
	return nil
}

func (r *Rig) redisOptions() *testenv.RedisOptions {
	return &testenv.RedisOptions{
		AppendOnly: !r.Spec.Volatile,
		// A replica is served at once, not after some seconds of waiting for more of them.
		Args: append([]string{"--repl-diskless-sync-delay", "0"}, r.Spec.RedisArgs...),
		Env:  r.Spec.RedisEnv,
	}
}

func (r *Rig) startPostgres(ctx context.Context) (err error) {
	s := r.Spec
	if s.PostgresURL != "" {
		r.postgres, err = createUserDatabase(ctx, s.PostgresURL, isPostgres(s.Store))
		return err
	}
	// With fsync, as in production: faults are about what lasts.
	o := &testenv.PostgresOptions{Settings: s.PostgresSettings, Env: s.PostgresEnv}
	if s.SmallDisk > 0 && isPostgres(s.Store) {
		if o.Mount, err = smallDisk(s.SmallDisk); err != nil {
			return err
		}
	}
	primary := testenv.StartPostgres(r.tb, o)
	if isPostgres(s.Lock) {
		r.LockPostgres = primary
	}
	if isPostgres(s.Store) {
		r.StorePostgres = primary
	}
	// Not by testenv's NewDatabase, which drops it at the end: a COMMIT that waits for a synchronous
	// standby, which has ended by then. The server goes with all its data anyway.
	if r.postgres, err = parseDatabase(primary.URL(), ownDatabase, isPostgres(s.Store)); err != nil {
		return err
	}
	if err := r.postgres.create(ctx); err != nil {
		return err
	}
	return r.NewPostgresStandby()
}

// Remake makes the run's database anew, with its schema and tables, on the private server that has none after
// RestartEmpty; clients go on by themselves. A database that is there is left alone.
func (r *Rig) Remake(ctx context.Context) error {
	if r.postgres == nil || r.Spec.PostgresURL != "" {
		return errors.New("there is no database of a private Postgres to make anew")
	}
	d := *r.postgres
	d.addr = r.Server(r.postgresName())
	return d.create(ctx)
}
