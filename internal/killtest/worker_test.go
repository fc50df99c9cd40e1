//go:build unix

package killtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
)

// The environment of a worker process.
const (
	lockEnv     = "KILLTEST_LOCK" // redis or postgres; the store is on the other one
	redisEnv    = "KILLTEST_REDIS"
	postgresEnv = "KILLTEST_POSTGRES"
)

const (
	resource = "coupon:42"
	record   = "taken"
	ttl      = time.Second
)

// work takes the lock again and again, each time adds one to a counter by reading and
// writing it, and says in a line what it does: see scene.said.
func work(ctx context.Context) error {
	client, pool, err := connect(ctx, os.Getenv(redisEnv), os.Getenv(postgresEnv))
	if err != nil {
		return err
	}
	var locker *locking.Locker
	var store *storage.Store
	for locker == nil { // the servers may be down just now
		if locker, store, err = open(ctx, os.Getenv(lockEnv), client, pool); err != nil {
			fmt.Printf("0 down %q\n", err)
			time.Sleep(20 * time.Millisecond)
		}
	}
	for seat := range seats - 1 {
		go sit(ctx, seat+1, locker, store)
	}
	sit(ctx, 0, locker, store)
	return nil
}

// sit takes turns as one of the process's goroutines.
func sit(ctx context.Context, seat int, locker *locking.Locker, store *storage.Store) {
	for {
		turn(ctx, func(format string, args ...any) { fmt.Printf("%d "+format+"\n", append([]any{seat}, args...)...) }, locker, store)
		time.Sleep(rand.N(5 * time.Millisecond))
	}
}

func connect(ctx context.Context, redisURL, postgresURL string) (*redis.Client, *pgxpool.Pool, error) {
	opt, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, nil, err
	}
	opt.MaxRetries, opt.DialerRetries, opt.ContextTimeoutEnabled = -1, 1, true
	cfg, err := pgxpool.ParseConfig(postgresURL)
	if err != nil {
		return nil, nil, err
	}
	pgstore.Configure(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	return redis.NewClient(opt), pool, err
}

func open(ctx context.Context, name string, client *redis.Client, pool *pgxpool.Pool) (*locking.Locker, *storage.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var lock locking.Backend
	var data storage.Backend
	var err error
	if name == "redis" {
		if lock, err = redislock.New(client, nil); err == nil {
			data, err = pgstore.New(ctx, pool, nil)
		}
	} else {
		if lock, err = pglock.New(ctx, pool, nil); err == nil {
			data, err = redisstore.New(ctx, client, nil)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	store, err := storage.New(data, nil)
	if err != nil {
		return nil, nil, err
	}
	issuer, err := locking.NewIssuer(lock, []fencing.Fence{store}, nil)
	if err != nil {
		return nil, nil, err
	}
	locker, err := locking.New(issuer, &locking.Options{TTL: ttl, Label: fmt.Sprint(os.Getpid())})
	return locker, store, err
}

func turn(ctx context.Context, say func(string, ...any), locker *locking.Locker, store *storage.Store) {
	say("wait")
	lease, err := locker.Acquire(ctx, resource)
	if err != nil {
		say("error %q", err)
		return
	}
	say("granted %d", lease.Token().Number)
	defer func() { _ = lease.Release(ctx) }()
	ctx, cancel := context.WithTimeout(lease.Context(), 5*time.Second)
	defer cancel()
	rec, err := store.GetFenced(ctx, lease.Token(), record)
	n := int64(0)
	switch {
	case err == nil:
		n, _ = storage.ParseCounter(rec.Value)
	case !errors.Is(err, storage.ErrNotFound):
		say("unread %q", err)
		return
	}
	time.Sleep(rand.N(20 * time.Millisecond))
	// Not the lease's context: a holder that was paused does not look, and the store is to
	// refuse it.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	say("writing %d", n+1)
	_, err = store.Put(ctx, lease.Token(), record, storage.Counter(n+1))
	say("%v %d", fencing.OutcomeOf(err), n+1)
}
