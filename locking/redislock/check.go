package redislock

import (
	"context"

	"github.com/fencegate/fencegate/internal/redisx"
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
	keys := b.both(redisx.ProbeResource)
	lock, counter := keys[0], keys[1]
	return redisx.Probe(ctx, b.client, keys, [][]string{
		{"HMGET", counter, "number"},
		{"HGET", counter, "number"},
		{"PTTL", lock},
		{"PEXPIRE", lock, "1000"},
		{"DEL", lock},
		{"HSET", lock, "number", "0"},
		{"DEL", lock},
		{"DEL", counter},
		{"HSET", counter, "number", "0"},
		{"DEL", counter},
	})
}

// Warnings says in one sentence each how this server may lose locks and numbers, or
// nothing if it keeps all. Strict stores refuse what follows from a loss, and numbers heal
// from them: nothing here makes a lock store unfit. An error says that the server could
// not be asked.
func (b *Backend) Warnings(ctx context.Context) ([]string, error) {
	return redisx.Warnings(ctx, b.client, "an evicted lock is granted twice, and an evicted counter begins again")
}
