package redisstore

import (
	"context"

	"github.com/fencegate/fencegate/internal/redisx"
)

const evicts = "an evicted mark would let stale writes in"

// Check is what [New] asks of the server: that it is a primary, Redis 6.2 or later, with
// maxmemory-policy noeviction (of a cluster: every master), and that the user may run
// each command of the scripts. For that it writes and removes keys named
// "<prefix>:{-probe}:..." (of a cluster: on one server); where the server takes no writes
// just now, that is not found out. A refusal is a [*fencing.InvalidError]; other errors
// say that the server was not reached.
func (b *Backend) Check(ctx context.Context) error {
	err := redisx.CheckServers(ctx, b.client, func(info map[string]string) error {
		return redisx.CheckPolicy(info, evicts)
	})
	if err != nil {
		return err
	}
	mark, records, answers := b.mark(redisx.ProbeResource), b.records(redisx.ProbeResource), b.answers(redisx.ProbeResource)
	err = redisx.Probe(ctx, b.client, []string{mark, records, answers}, [][]string{
		{"INFO", "replication"},
		{"INFO", "server"},
		{"TIME"},
		{"HMGET", mark, "number"},
		{"HGET", records, "a"},
		{"HKEYS", records},
		{"HDEL", records, "a"},
		{"HSET", records, "a", "1:"},
		{"HDEL", records, "a"},
		{"HMGET", answers, "a"},
		{"HGET", answers, "a"},
		{"HDEL", answers, "a"},
		{"PEXPIREAT", answers, "1"},
		{"UNLINK", answers},
		{"PERSIST", answers},
		{"HSET", answers, "a", "1"},
		{"HDEL", answers, "a"},
		// A mark is never removed by a script; the probe's may be only where records may.
		{"HDEL", mark, "number"},
		{"HSET", mark, "number", "0"},
		{"HDEL", mark, "number"},
	})
	if err != nil {
		return err
	}
	// Does INFO, in a script, tell the incarnation? Some hosts hide parts of it.
	_, err = b.Mark(ctx, "fencegate-probe")
	return err
}

// Warnings says in one sentence each how this server may lose what it acknowledged, or
// nothing if it keeps all. An error says that the server could not be asked.
func (b *Backend) Warnings(ctx context.Context) ([]string, error) {
	return redisx.Warnings(ctx, b.client, evicts)
}
