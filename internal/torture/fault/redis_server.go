package fault

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// redisServer is a Redis of a rig, and what it is there for.
type redisServer struct {
	r           *rig.Rig
	server      *testenv.Redis // nil for the user's own
	lock, store bool
}

// redisServers returns those of a rig, the lock's first. Those of redlock are not among them.
func redisServers(r *rig.Rig) []redisServer {
	lock, store := lockInRedis(r.Spec), storeInRedis(r.Spec)
	var ofLock *testenv.Redis
	if lock && len(r.LockRedis) > 0 {
		ofLock = r.LockRedis[0]
	}
	if lock && store && ofLock == r.StoreRedis {
		return []redisServer{{r, ofLock, true, true}}
	}
	var list []redisServer
	if lock {
		list = append(list, redisServer{r, ofLock, true, false})
	}
	if store {
		list = append(list, redisServer{r, r.StoreRedis, false, true})
	}
	return list
}

// aRedis returns one of them.
func aRedis(r *rig.Rig, rnd *rand.Rand) redisServer {
	list := redisServers(r)
	return list[rnd.IntN(len(list))]
}

// name is that of its link, and what notes call it.
func (s redisServer) name() string {
	switch {
	case s.lock && s.store:
		return "server"
	case s.lock:
		return "lock"
	}
	return "store"
}

// loses says what is lost where the lock loses, and the store.
func (s redisServer) loses(lock, store history.Loss) (list []history.Loss) {
	if s.lock && lock != history.LosesNothing {
		list = append(list, lock)
	}
	if s.store && store != history.LosesNothing {
		list = append(list, store)
	}
	return list
}

// client returns a client that is the caller's to close.
func (s redisServer) client() (*redis.Client, error) {
	o := &redis.Options{}
	if s.server != nil {
		o.Addr = s.server.Addr()
	} else {
		var err error
		if o, err = redis.ParseURL(s.r.Spec.RedisURL); err != nil {
			return nil, err
		}
	}
	return redisClient(o), nil
}

func redisClient(o *redis.Options) *redis.Client {
	o.MaxRetries, o.ContextTimeoutEnabled, o.DisableIdentity = -1, true, true
	return redis.NewClient(o)
}

// ask gives f a client.
func (s redisServer) ask(f func(c *redis.Client) error) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := f(c); err != nil {
		return fmt.Errorf("redis of %s: %w", s.name(), err)
	}
	return nil
}

// try is rig.Try with a name in the error.
func (s redisServer) try(f func()) error {
	if err := s.r.Try(f); err != nil {
		return fmt.Errorf("redis of %s: %w", s.name(), err)
	}
	return nil
}

// config sets a setting, and returns what puts back the old one.
func (s redisServer) config(ctx context.Context, name, value string) (healing, error) {
	var old string
	err := s.ask(func(c *redis.Client) error {
		was, err := c.ConfigGet(ctx, name).Result()
		if err == nil {
			old = was[name]
			err = c.ConfigSet(ctx, name, value).Err()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return s.ask(func(c *redis.Client) error { return c.ConfigSet(ctx, name, old).Err() })
	}, nil
}

func pingRedis(ctx context.Context, s redisServer) error {
	return s.ask(func(c *redis.Client) error { return c.Ping(ctx).Err() })
}
