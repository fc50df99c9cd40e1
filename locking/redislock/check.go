package redislock

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/locking"
)

// Check refuses a server that this backend cannot work on: a replica, a Redis older than
// 6.2 (of a cluster: any master that is one), and a user who may not run each command of
// the scripts. For that it writes and removes keys named "<prefix>:{-probe}:..." (of a
// cluster: on one server); where the server takes no writes just now, that is not found
// out. It is to be called once, before the first lock is taken. A refusal is a
// [*fencing.InvalidError]; other errors say that the server was not reached.
func (b *Backend) Check(ctx context.Context) error {
	if err := redisx.CheckServers(ctx, b.client, nil); err != nil {
		return err
	}
	keys := b.keys(redisx.ProbeResource)
	lock, counter, queue, waiters := keys[0], keys[1], keys[2], keys[3]
	return redisx.Probe(ctx, b.client, keys, [][]string{
		{"TIME"},
		{"HMGET", counter, "number"},
		{"HGET", waiters, "grant"},
		{"LLEN", queue},
		{"LPOS", queue, "grant"},
		{"PTTL", lock},
		{"PEXPIRE", lock, "1000"},
		{"DEL", lock},
		{"GET", lock},
		{"SET", lock, "", "PX", "1000"},
		{"DEL", lock},
		{"HDEL", counter, "number"},
		{"HSET", counter, "number", "0"},
		{"HDEL", counter, "number"},
		{"LPOP", queue},
		{"LREM", queue, "0", "grant"},
		{"RPUSH", queue, "grant"},
		{"LPOP", queue},
	})
}

// Warnings says in one sentence each how this server may lose locks and numbers, and
// whether waiters are slow because its user may not use the channels; nothing if all is
// well. Strict stores refuse what follows from a loss, and numbers heal from them: nothing
// here makes a lock store unfit. An error says that the server could not be asked.
func (b *Backend) Warnings(ctx context.Context) ([]string, error) {
	list, err := redisx.Warnings(ctx, b.client, "an evicted lock is granted twice, and an evicted counter begins again")
	if err != nil {
		return nil, err
	}
	err = errors.Join(b.mayPublish(ctx), b.maySubscribe(ctx))
	if redis.HasErrorPrefix(err, "NOPERM") || errors.Is(err, fencing.ErrInvalid) {
		list = append(list, "Waiters look for their turn once in "+locking.LookEvery.String()+
			" instead of being woken: let the Redis user run PUBLISH (in scripts, too) and SUBSCRIBE on the channels "+channels(b.prefix)+"*.")
	} else if err != nil {
		return nil, err
	}
	return list, nil
}

func (b *Backend) mayPublish(ctx context.Context) error {
	return redisx.Probe(ctx, b.client, b.keys(redisx.ProbeResource), [][]string{{"PUBLISH", channels(b.prefix) + "probe", ""}})
}

func (b *Backend) maySubscribe(ctx context.Context) error {
	sub := b.client.Subscribe(ctx)
	defer func() { _ = sub.Close() }()
	if err := sub.Subscribe(ctx, channels(b.prefix)+"probe"); err != nil {
		return fencing.AsFailed(err)
	}
	if _, err := sub.ReceiveTimeout(ctx, silence); err != nil {
		return fencing.AsFailed(err)
	}
	return nil
}
