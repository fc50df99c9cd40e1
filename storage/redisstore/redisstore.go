// Package redisstore is a storage backend on one Redis server, on a Redis that fails over
// (Sentinel), or on a Redis Cluster.
//
// Every operation is one Lua script, so the check and the write are one atomic step. A
// resource has two keys with one hash tag: its mark and its records.
//
// # Guarantees
//
// Those of package storage, for what Redis keeps. What it may lose shows as a new
// incarnation: a mark counts as retired unless it was made in this run of this server
// (run_id) and under this replication history (master_replid). The first write or fenced
// read of a lease of before is then refused as retired, and its holder acquires anew.
// A script is sent once: what has no answer is reported as unknown and not repeated.
//
// # What ends every lease
//
// Each of these is a new incarnation, and ends the leases on all resources of the server:
//
//   - a restart, also on purpose and with nothing lost, and a restored copy;
//   - a failover: a replica that is promoted, and a former primary that takes over again;
//   - the first replica that attaches: Redis begins a new replication history then. Further
//     ones change nothing. An hour (repl-backlog-ttl) after the last one left Redis begins
//     a new history again, and the next to attach is a first one;
//   - a slot of a Redis Cluster that moves to another server, for the resources in it.
//
// So attach the first replica, and plan restarts, when few locks are held.
//
// # What is not guaranteed
//
// Durability is what the server is set to, see [Backend.Warnings]: without "appendfsync
// always" a crash loses acknowledged writes, and with replicas a failover does, always. No
// token of before is accepted afterwards, but the data is older than what was acknowledged.
//
// DEBUG RELOAD, RESTORE and edited keys show as no new incarnation.
//
// A commit over several resources is atomic on one server. On a Redis Cluster it is refused
// unless all of them are in one slot.
//
// List reads all keys of a resource in one step: it suits thousands of records, not
// millions. MONITOR and SLOWLOG on the server show grant ids, which are secrets.
//
// # Clocks
//
// None.
//
// # Errors
//
// Those of storage.Backend. Failed are errors before the call was sent (no connection, a
// busy pool, a context that had ended) and replies with which Redis refuses to run a
// script (LOADING, READONLY, OOM and their like). Everything else is unknown, except where
// the call only reads: then it failed. Unknown is also a script that was stopped at a
// command which the user may no longer run; [New] refuses a user who lacks one.
//
// The client bounds a call by its own timeouts. It looks at the context's deadline only if
// its option ContextTimeoutEnabled is set, which is recommended.
package redisstore

import (
	"context"
	_ "embed"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/storage"
)

// Options tunes a [Backend]. The zero value is the default.
type Options struct {
	// Prefix begins all keys, "<prefix>:{<resource>}:mark" and ":records". It has the
	// grammar of a resource. Default: "fencegate".
	Prefix string
}

// Backend is a storage.Backend on Redis. It is safe for concurrent use.
type Backend struct {
	client redis.UniversalClient
	prefix string
}

var _ storage.Backend = (*Backend)(nil)

//go:embed rule.lua
var ruleLua string

//go:embed raise.lua
var raiseLua string

//go:embed retire.lua
var retireLua string

//go:embed evict.lua
var evictLua string

//go:embed mark.lua
var markLua string

//go:embed commit.lua
var commitLua string

//go:embed get.lua
var getLua string

//go:embed getfenced.lua
var getFencedLua string

//go:embed list.lua
var listLua string

var (
	raise     = redisx.NewScript(ruleLua, raiseLua)
	retire    = redisx.NewScript(ruleLua, retireLua)
	evict     = redisx.NewScript(ruleLua, evictLua)
	commit    = redisx.NewScript(ruleLua, commitLua)
	mark      = redisx.NewReadScript(ruleLua, markLua)
	get       = redisx.NewReadScript(ruleLua, getLua)
	getFenced = redisx.NewReadScript(ruleLua, getFencedLua)
	list      = redisx.NewReadScript(ruleLua, listLua)
)

// New returns a backend on client, which stays the caller's to close, and makes one
// [Backend.Check]. The client must have retries off (MaxRetries: -1), must not read from
// replicas and must not be a ring. A refusal is a [*fencing.InvalidError]; other errors say
// that the server was not reached.
func New(ctx context.Context, client redis.UniversalClient, o *Options) (*Backend, error) {
	if err := redisx.CheckClient(client); err != nil {
		return nil, err
	}
	if o == nil {
		o = &Options{}
	}
	prefix, err := redisx.Prefix(o.Prefix)
	if err != nil {
		return nil, err
	}
	b := &Backend{client: client, prefix: prefix}
	if err := b.Check(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Backend) mark(resource string) string { return redisx.Key(b.prefix, resource, "mark") }

func (b *Backend) records(resource string) string { return redisx.Key(b.prefix, resource, "records") }
