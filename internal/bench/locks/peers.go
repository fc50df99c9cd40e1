package locks

import (
	"context"
	"errors"
	"testing"
	"time"

	bsm "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redislock"
)

// locker is what all locks here can do: take a lock and give it back. wait says whether to
// wait while it is held.
type locker func(ctx context.Context, resource string, wait bool) (unlock func() error, err error)

// fencegate is this project's lock as a process uses it: one client, one issuer.
func fencegate(tb testing.TB, addr string, pool int) (locker, error) {
	backend, err := redislock.New(rig.Client(tb, addr, pool), nil)
	if err != nil {
		return nil, err
	}
	desk, err := issuer(backend)
	return byIssuer(desk), err
}

func byIssuer(i locking.Issuer) locker {
	return func(ctx context.Context, resource string, wait bool) (func() error, error) {
		r := locking.Request{Resource: resource, TTL: ttl}
		if wait {
			r.Wait = -1
		}
		g, err := i.Grant(ctx, r)
		if err != nil {
			return nil, err
		}
		return func() error {
			freed, err := i.Release(context.WithoutCancel(ctx), g.Token)
			if err == nil && !freed {
				err = locking.ErrLost
			}
			return err
		}, nil
	}
}

// redsyncOn is redsync on one server or, with a quorum, on several. retry is the time
// between two attempts; 0 is redsync's own, 50 to 250 ms at random.
func redsyncOn(tb testing.TB, pool int, retry time.Duration, addrs ...string) locker {
	var pools []redsyncredis.Pool
	for _, addr := range addrs {
		pools = append(pools, goredis.NewPool(rig.Client(tb, addr, pool)))
	}
	rs := redsync.New(pools...)
	return func(ctx context.Context, resource string, wait bool) (func() error, error) {
		options := []redsync.Option{redsync.WithExpiry(ttl), redsync.WithTries(1 << 20)}
		if retry > 0 {
			options = append(options, redsync.WithRetryDelay(retry))
		}
		m := rs.NewMutex(resource, options...)
		lock := m.LockContext
		if !wait {
			lock = m.TryLockContext
		}
		if err := lock(ctx); err != nil {
			return nil, err
		}
		return func() error {
			ok, err := m.UnlockContext(context.WithoutCancel(ctx))
			if err == nil && !ok {
				err = errors.New("redsync: not unlocked")
			}
			return err
		}, nil
	}
}

// bsmOn is bsm/redislock. It does not wait unless it is told how: every millisecond.
func bsmOn(tb testing.TB, addr string, pool int) locker {
	c := bsm.New(rig.Client(tb, addr, pool))
	return func(ctx context.Context, resource string, wait bool) (func() error, error) {
		var o *bsm.Options
		if wait {
			o = &bsm.Options{RetryStrategy: bsm.LinearBackoff(time.Millisecond)}
		}
		l, err := c.Obtain(ctx, resource, ttl, o)
		if err != nil {
			return nil, err
		}
		return func() error { return l.Release(context.WithoutCancel(ctx)) }, nil
	}
}

// rueidisOn is rueidislock on one server: one key where it would take two of three.
func rueidisOn(tb testing.TB, addr string) (locker, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		KeyMajority: 1, KeyValidity: ttl,
		ClientOption: rueidis.ClientOption{
			InitAddress: []string{addr},
			// Half a megabyte each, by default, is too much for 64 processes in one.
			ReadBufferEachConn: 32 << 10, WriteBufferEachConn: 32 << 10,
		},
	})
	if err != nil {
		return nil, err
	}
	tb.Cleanup(l.Close)
	return func(ctx context.Context, resource string, wait bool) (func() error, error) {
		lock := l.WithContext
		if !wait {
			lock = l.TryWithContext
		}
		_, cancel, err := lock(ctx, resource)
		for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			_, cancel, err = lock(ctx, resource) // it gives Redis 20 ms, which a busy machine may miss
		}
		return func() error { cancel(); return nil }, err
	}, nil
}
