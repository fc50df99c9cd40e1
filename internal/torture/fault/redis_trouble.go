package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

func killRedisClients(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	s := aRedis(r, rnd)
	c, err := s.client()
	if err != nil {
		return nil, err
	}
	var killed int64
	stop := repeat(ctx, rnd, 100*time.Millisecond, func(ctx context.Context, _ *rand.Rand) (bool, error) {
		for _, kind := range []string{"normal", "pubsub"} {
			n, err := c.ClientKillByFilter(ctx, "TYPE", kind, "SKIPME", "yes").Result()
			if err != nil {
				return false, err
			}
			killed += n
		}
		return true, nil
	})
	return func(context.Context) error {
		_, err := stop()
		note.Detail = fmt.Sprintf("%s: %d connections", s.name(), killed)
		return cmp.Or(errors.Join(err, c.Close()), atLeastOne(ctx, int(killed), "Redis had no other connections"))
	}, nil
}

func fillRedis(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	s := aRedis(r, rnd)
	note.Detail = s.name()
	return s.config(ctx, "maxmemory", "1")
}

func readonlyRedis(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	s := aRedis(r, rnd)
	note.Detail = s.name()
	heal := func(context.Context) error { return s.try(s.server.Promote) }
	return heal, s.ask(func(c *redis.Client) error { return detach(ctx, c) })
}

// detach makes a server a replica that never finds its primary, and keeps what it has.
func detach(ctx context.Context, c *redis.Client) error {
	return c.ReplicaOf(ctx, "127.0.0.1", "1").Err() // nobody listens on port 1
}

func occupyRedis(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	s := aRedis(r, rnd)
	note.Detail = s.name()
	reset, err := s.config(ctx, "lua-time-limit", "50") // ms until it answers BUSY
	if err != nil {
		return nil, err
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = s.ask(func(c *redis.Client) error {
			// It has written nothing, so it may be killed; else it ends with the server, which is ours.
			return c.WithTimeout(time.Minute).Eval(context.WithoutCancel(ctx), "while true do end", nil).Err()
		})
	}()
	heal := func(ctx context.Context) error {
		err := s.ask(func(c *redis.Client) error {
			return until(ctx, 5*time.Second, "the script is killed", func() (bool, error) {
				err := c.ScriptKill(ctx).Err()
				over := err == nil || strings.HasPrefix(err.Error(), "NOTBUSY")
				return over, err
			})
		})
		if err == nil {
			<-gone
		}
		return errors.Join(err, reset(ctx))
	}
	return heal, s.ask(func(c *redis.Client) error {
		return until(ctx, 5*time.Second, "Redis answers BUSY", func() (bool, error) {
			err := c.Ping(ctx).Err()
			return err != nil && strings.HasPrefix(err.Error(), "BUSY"), err
		})
	})
}
