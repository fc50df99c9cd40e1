// Package redisstore is a storage backend on one Redis server, on a Redis that fails over
// (Sentinel), or on a Redis Cluster.
//
// Every operation is one Lua script, so the check and the write are one atomic step. A
// resource has up to three keys with one hash tag: its mark, its records, and the answers to
// its commits with an idempotency key.
//
// A call is one round trip. What many callers do at once shares round trips: while three are
// under way, calls gather for the next. Of these, up to 32 commits are carried out by one run of
// one script, which asks the server for its incarnation once, and judges and applies each commit
// on its own merits, after those before it: one that is refused, or stopped by an error, harms no
// other. Commits of more than 512 words or 256 KiB go alone, so no run keeps the server for long.
// A call alone waits for nobody.
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
// unless all of them are in one slot. Over a cluster calls share no round trips: one would wait
// for its slowest server. Nor do commits share scripts on a server that has once refused that for
// their keys: one of a cluster, or one whose user may not touch them all.
//
// A server that evicts keys when its memory is full may forget a mark, and then lets stale
// writes in. [New] and [Backend.Check] refuse every maxmemory-policy but noeviction. One that
// is set later is seen by nobody but the next Check and [Backend.Warnings]: call them now and
// then, or forbid CONFIG SET.
//
// Answers are kept until the retention is over and their token is not the mark any more. Those
// of earlier tokens go little by little with later commits that have a key, and all of a
// resource by themselves where it is not used any more. Those of the token that is the mark
// stay with it: also where its holder died, or the server was restarted, until the resource is
// raised, retired or evicted once more.
//
// List reads all keys of a resource in one step: it suits thousands of records, not
// millions. MONITOR and SLOWLOG on the server show grant ids, which are secrets.
//
// # Clocks
//
// The server's, for the retention of answers only: if it jumps forward, answers of earlier
// tokens go too early. Marks know no time.
//
// # Errors
//
// Those of storage.Backend. Failed are errors before the call was sent (no connection, a
// busy pool, a context that had ended) and replies with which Redis refuses to run a
// script (LOADING, READONLY, OOM and their like). Everything else is unknown, except where
// the call only reads: then it failed. Unknown is also a commit that was stopped at a
// command which the user may no longer run, unless it is known to have written nothing;
// [New] refuses a user who lacks one.
//
// The client bounds a call by its own timeouts. It looks at the context's deadline only if
// its option ContextTimeoutEnabled is set, which is recommended.
package redisstore

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/storage"
)

// Options tunes a [Backend]. The zero value is the default.
type Options struct {
	// Prefix begins all keys, "<prefix>:{<resource>}:mark", ":records" and ":answers". It has
	// the grammar of a resource. Default: "fencegate".
	Prefix string
	// KeyRetention is how long the answer to a commit with an idempotency key is kept, from
	// when it was given; for as long as its token is the mark it is kept in any case. 1 ms to
	// 366 days, in whole milliseconds. Default: 24 hours.
	KeyRetention time.Duration
}

// Backend is a storage.Backend on Redis. It is safe for concurrent use.
type Backend struct {
	client    redis.UniversalClient
	sender    *redisx.Sender // of what many callers do at once
	prefix    string
	retention time.Duration
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

//go:embed carry.lua
var carryLua string

//go:embed commit.lua
var commitLua string

//go:embed commits.lua
var commitsLua string

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
	commit    = redisx.NewScript(ruleLua, carryLua, commitLua).Joined(together)
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
	retention := o.KeyRetention
	if retention == 0 {
		retention = 24 * time.Hour
	}
	if retention < time.Millisecond || retention > 366*24*time.Hour || retention%time.Millisecond != 0 {
		return nil, &fencing.InvalidError{What: "KeyRetention", Got: retention.String(), Allowed: "1ms to 8784h, in whole milliseconds"}
	}
	b := &Backend{client: client, sender: redisx.NewSender(client), prefix: prefix, retention: retention}
	if err := b.Check(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Backend) mark(resource string) string { return redisx.Key(b.prefix, resource, "mark") }

func (b *Backend) records(resource string) string { return redisx.Key(b.prefix, resource, "records") }

func (b *Backend) answers(resource string) string { return redisx.Key(b.prefix, resource, "answers") }
