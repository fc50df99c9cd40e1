package redislock_test

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"
)

// hook is told what a client does; its fields may be nil.
type hook struct {
	connects func() // before it connects
	sends    func() // before it sends a command
	hears    func() // before it delivers a reply
}

func (h hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		call(h.connects)
		return next(ctx, network, addr)
	}
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		call(h.sends)
		err := next(ctx, cmd)
		call(h.hears)
		return err
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for range cmds {
			call(h.sends)
		}
		return next(ctx, cmds)
	}
}

func call(f func()) {
	if f != nil {
		f()
	}
}
