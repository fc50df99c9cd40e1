package rig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/locking/redlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
)

// parentName is what the parent's own connections call themselves.
const parentName = "fencegate-torture-parent"

// redlockMaxTTL is in the markers of redlock's nodes, and so the same for everybody.
const redlockMaxTTL = time.Minute

// patientNode is how long the parent waits for a node: it is in no hurry, and the machine may be busy.
const patientNode = 2 * time.Second

// parentConnections is how many connections the parent has to Postgres at most, for each of its pools.
const parentConnections = 8

// access is the parent's way in, and where that leads.
type access struct {
	workload.Access
	to      map[string]string
	closers []func()
}

// Access is the parent's own way to the lock and the store, past links and gateways; through a gateway where
// the lock or the store is in it. It outlives restarts. After a Switch another call is needed, which closes what the
// one before has returned.
func (r *Rig) Access(ctx context.Context) (workload.Access, error) {
	r.mu.Lock()
	to := maps.Clone(r.to)
	r.mu.Unlock()
	if r.access != nil && maps.Equal(r.access.to, to) {
		return r.access.Access, nil
	}
	r.closeAccess()
	a := &access{to: to}
	if err := r.open(ctx, a); err != nil {
		a.close()
		return workload.Access{}, fmt.Errorf("the run's own access: %w", err)
	}
	r.access = a
	return a.Access, nil
}

func (r *Rig) closeAccess() {
	if r.access != nil {
		r.access.close()
		r.access = nil
	}
}

func (a *access) close() {
	for _, f := range slices.Backward(a.closers) {
		f()
	}
}

func (r *Rig) open(ctx context.Context, a *access) (err error) {
	s := r.Spec
	var pool *pgxpool.Pool
	if isPostgres(s.Lock) || isPostgres(s.Store) {
		if pool, err = r.openPool(ctx, a); err != nil {
			return err
		}
	}
	if isPostgres(s.Store) {
		a.Pool = pool
	}
	if len(r.Gateways) > 0 {
		c, err := client.New(r.Gateways[0].URL(), nil)
		if err != nil {
			return err
		}
		a.closers = append(a.closers, c.Close)
		a.Issuer, a.Store = c.Issuer(), c.Store()
		a.Locked = func(ctx context.Context, commit storage.Commit) (storage.Result, error) {
			return c.Store().CommitLocked(ctx, commit, nil)
		}
	}
	if s.Lock != "memory" && s.Store != "memory" && s.Store != "sqlite" {
		if err := r.openDirect(ctx, a, pool); err != nil {
			return err
		}
	}
	a.Locker, err = locking.New(a.Issuer, &locking.Options{TTL: s.Client.TTL, Label: parentName})
	return err
}

// openDirect opens a lock and a store that are both on servers.
func (r *Rig) openDirect(ctx context.Context, a *access, pool *pgxpool.Pool) error {
	var data storage.Backend
	var lock locking.Backend
	var err error
	if isPostgres(r.Spec.Store) {
		data, err = pgstore.New(ctx, pool, nil)
	} else {
		data, err = redisstore.New(ctx, r.openRedis(a, r.StoreName()), nil)
	}
	if err != nil {
		return err
	}
	switch r.Spec.Lock {
	case "redis":
		lock, err = redislock.New(r.openRedis(a, r.LockNames()[0]), nil)
	case "redlock":
		lock, err = r.openRedlock(a, redlock.Options{NodeTimeout: patientNode})
	case "postgres":
		lock, err = pglock.New(ctx, pool, nil)
	case "rowlock":
		lock, err = r.openRowLocks(ctx, a, pool)
	}
	if err != nil {
		return err
	}
	store, err := storage.New(data, nil)
	if err != nil {
		return err
	}
	a.Store = store
	a.Issuer, err = locking.NewIssuer(lock, []fencing.Fence{store}, nil)
	return err
}

// openRedis returns a client of a server, past its link.
func (r *Rig) openRedis(a *access, name string) *redis.Client {
	opt := redis.Options{}
	if r.redis != nil {
		opt = *r.redis.opt
	}
	opt.Addr, opt.ClientName = a.to[name], parentName
	opt.MaxRetries, opt.DialerRetries, opt.ContextTimeoutEnabled = -1, 1, true
	c := redis.NewClient(&opt)
	a.closers = append(a.closers, func() { _ = c.Close() })
	return c
}

func (r *Rig) openRedlock(a *access, o redlock.Options) (*redlock.Backend, error) {
	var nodes []redis.UniversalClient
	for _, name := range r.LockNames() {
		nodes = append(nodes, r.openRedis(a, name))
	}
	o.MaxTTL = redlockMaxTTL
	return redlock.New(nodes, &o)
}

// openPool returns a pool on the run's database, past its link.
func (r *Rig) openPool(ctx context.Context, a *access) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(r.postgres.at(a.to[r.postgresName()], parentName))
	if err != nil {
		return nil, err
	}
	pgstore.Configure(cfg)
	cfg.MaxConns = parentConnections
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, pool.Close)
	return pool, nil
}

func (r *Rig) openRowLocks(ctx context.Context, a *access, pool *pgxpool.Pool) (*pglock.RowLocks, error) {
	holders, err := r.openPool(ctx, a)
	if err != nil {
		return nil, err
	}
	lock, err := pglock.NewRowLocks(ctx, pool, holders, nil)
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = lock.Close(ctx) // its connections end with the pool
	})
	return lock, nil
}

// Redlock gives f a redlock cluster of this rig as an operator has it, for Nodes, Admit and Init, past the
// links. Nodes have markers that outlive restarts unless Spec.Volatile.
func (r *Rig) Redlock(f func(*redlock.Backend) error) error {
	if r.Spec.Lock != "redlock" {
		return errors.New("there is no redlock cluster in this rig")
	}
	r.mu.Lock()
	a := &access{to: maps.Clone(r.to)}
	r.mu.Unlock()
	defer a.close()
	b, err := r.openRedlock(a, redlock.Options{NodeTimeout: patientNode, Durable: !r.Spec.Volatile})
	if err != nil {
		return err
	}
	return f(b)
}

func (r *Rig) initRedlock(ctx context.Context) error {
	if r.Spec.Lock != "redlock" {
		return nil
	}
	return r.Redlock(func(b *redlock.Backend) error { return b.Init(ctx, nil) })
}
