package rig

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Client returns a client as this project wants it (a call is never sent twice), which ends
// with tb. Its hooks, if any, see every call.
func Client(tb testing.TB, addr string, pool int, hooks ...redis.Hook) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: pool, ContextTimeoutEnabled: true})
	for _, hook := range hooks {
		c.AddHook(hook)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Trips is a hook that counts round trips: a call or a pipeline is one. What a client says
// when it connects does not count.
type Trips struct{ n atomic.Int64 }

var _ redis.Hook = (*Trips)(nil)

// Count returns how many there were so far.
func (t *Trips) Count() int64 { return t.n.Load() }

// DialHook implements redis.Hook.
func (*Trips) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (t *Trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.count(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (t *Trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.count(cmds...)
		return next(ctx, cmds)
	}
}

func (t *Trips) count(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if !uncounted[strings.ToUpper(cmd.Name())] {
			t.n.Add(1)
			return
		}
	}
}
