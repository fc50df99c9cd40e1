// Package redislock is a lock store on one Redis server, on a Redis that fails over
// (Sentinel), or on a Redis Cluster, with one line of waiters for all processes.
//
// Each call is one Lua script, so one atomic step. The keys of a resource have one hash
// tag: the lock, which expires with its hold; the counter, which never expires and keeps
// the last number and the last grant; and while somebody waits, queue and waiters, which
// expire when nobody has joined for a while. [Backend.Check] says whether a server is fit,
// [Backend.Warnings] what it may lose.
//
// # Guarantees
//
//   - Numbers of one resource increase strictly as long as the server forgets nothing.
//   - The grant, its number and the memory of the last grant are written in one step.
//   - Renew, Release and Evict match a hold by number and grant (Evict: by number) and
//     never touch another. Transfer ends exactly the hold that it names.
//   - A script is sent once; concurrent calls may share a pipeline. What has no answer is reported as unknown and not repeated.
//   - Who has a place in line is not overtaken, neither by those who came later nor by
//     attempts that do not wait: whoever finds the lock free serves the line first. Only a
//     Transfer passes it, which an issuer limits.
//
// # Waiting
//
// Release, Evict and Leave give the lock to the first in line whose place is alive, in the
// step that frees it: the lock is pushed, for locking.PushTTL at most or the waiter's TTL,
// and the waiter's next Join claims it. So a hand-over from process to process is two
// commands, a release and a claim, and the lock is never free between. Word of it comes by
// PUBLISH, on a channel of this Backend's own. The Backend subscribes when a Join is first
// refused because the lock is held, with one connection and one goroutine, and for as long
// as one of its callers waits and [locking.LookEvery] longer. The subscription is a hint:
// where it fails, the line moves on when its members look.
//
// Callers of Join call again after locking.LookEvery at the latest, woken or not. One
// grant per process and resource should do it for all that wait there (an issuer does):
// the order in line is that of these contenders.
//
// [MaxStall] is by how much dead waiters delay the others.
//
// # What is not guaranteed
//
// A server that fails over, is restored, flushed, or evicts keys may lose holds and
// counters: a lock is then granted twice and numbers begin again. That is what Request.Floor
// is for: the stores refuse the old number, and the issuer asks for a higher one. It may
// lose places in line, too; the next Join takes a new one. So does whoever has not called
// Join for locking.PlaceTTL, and a clock of the server that jumps may cost every place.
//
// List goes through all keys of the server (SCAN): it is for operators.
//
// MONITOR, SLOWLOG and the keys on the server show grant ids, which are secrets. Messages
// on channels do not.
//
// # Server
//
// Redis 6.2 or later. The user needs EVAL, EVALSHA and the commands that Check names, on
// the keys "<prefix>:*"; PUBLISH and SUBSCRIBE, on the channels "<prefix>:wake:*" (in an
// ACL "&<prefix>:wake:*"), else waiters are slow. In a Redis Cluster a word goes to all
// nodes, and the subscription to one of them.
//
// # Clocks
//
// The server's only. If it jumps forward, holds end early. If it jumps back, a hold's
// expiry lies further away than its TTL; the next attempt to take the lock, or renewal,
// cuts it to the TTL.
//
// # Errors
//
// Those of locking.Backend. Failed are errors before the call was sent (no connection, a
// busy pool, a context that had ended) and replies with which Redis refuses to run a
// script (LOADING, READONLY, OOM and their like). Everything else is unknown, except where
// the call only reads: then it failed. Unknown is also a script that was stopped at a
// command which the user may not run; [Backend.Check] refuses a user who lacks one. While
// memory is short nothing is granted to who comes new, but holds can be renewed and given
// back, and the line moves on.
//
// The client bounds a call by its own timeouts. It looks at the context's deadline only if
// its option ContextTimeoutEnabled is set, which is recommended.
package redislock

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/locking"
)

// Options tunes a [Backend]. The zero value is the default.
type Options struct {
	// Prefix begins all keys, "<prefix>:{<resource>}:lock", ":counter", ":queue" and
	// ":waiters", and all channels, "<prefix>:wake:...". It has the grammar of a resource. Default: "fencegate".
	Prefix string
}

// Backend is a locking.Backend on Redis. It is safe for concurrent use.
type Backend struct {
	client redis.UniversalClient
	sender *redisx.Sender // of what many callers do at once
	prefix string
	wakes  *subscription
}

var (
	_ locking.Backend     = (*Backend)(nil)
	_ locking.Waiter      = (*Backend)(nil)
	_ locking.Transferrer = (*Backend)(nil)
	_ locking.Checker     = (*Backend)(nil)
)

//go:embed hold.lua
var holdLua string

//go:embed line.lua
var lineLua string

//go:embed free.lua
var freeLua string

//go:embed acquire.lua
var acquireLua string

//go:embed renew.lua
var renewLua string

//go:embed release.lua
var releaseLua string

//go:embed evict.lua
var evictLua string

//go:embed next.lua
var nextLua string

//go:embed leave.lua
var leaveLua string

//go:embed transfer.lua
var transferLua string

//go:embed status.lua
var statusLua string

// times are the beginning of line.lua.
var times = fmt.Sprintf("local PLACE, PUSH = %d, %d\n", locking.PlaceTTL.Milliseconds(), locking.PushTTL.Milliseconds())

var (
	acquire  = redisx.NewScript(freeLua, holdLua, times+lineLua, acquireLua)
	renew    = redisx.NewScript(holdLua, renewLua)
	release  = redisx.NewScript(releaseLua, holdLua, times+lineLua, nextLua)
	evict    = redisx.NewScript(evictLua, holdLua, times+lineLua, nextLua)
	leave    = redisx.NewScript(holdLua, times+lineLua, leaveLua)
	transfer = redisx.NewScript(transferLua)
	status   = redisx.NewReadScript(holdLua, statusLua)
)

// New returns a backend on client, which stays the caller's to close. It contacts nobody:
// whether the server is fit is for [Backend.Check] to say. The client must have retries off
// (MaxRetries: -1), must not read from replicas and must not be a ring. The error is a
// [*fencing.InvalidError].
func New(client redis.UniversalClient, o *Options) (*Backend, error) {
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
	return &Backend{
		client: client, sender: redisx.NewSender(client), prefix: prefix,
		wakes: newSubscription(client, channels(prefix)+rand.Text()),
	}, nil
}

func (b *Backend) lock(resource string) string { return redisx.Key(b.prefix, resource, "lock") }

// keys returns the lock, the counter, the queue and the waiters.
func (b *Backend) keys(resource string) []string {
	return []string{
		b.lock(resource), redisx.Key(b.prefix, resource, "counter"),
		redisx.Key(b.prefix, resource, "queue"), redisx.Key(b.prefix, resource, "waiters"),
	}
}

// channels is how the names of channels begin.
func channels(prefix string) string { return prefix + ":wake:" }

// Renew implements locking.Backend.
func (b *Backend) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	verdicts := make([]error, len(held))
	ttlErr := locking.ValidateTTL(ttl)
	var calls []redisx.Call
	var asked []int // the token of each call
	for i, t := range held {
		if verdicts[i] = ttlErr; ttlErr == nil {
			verdicts[i] = t.Validate()
		}
		if verdicts[i] == nil {
			asked = append(asked, i)
			calls = append(calls, redisx.Call{
				Keys: []string{b.lock(t.Resource)},
				Args: []any{decimal(t.Number), t.Grant, millis(ttl)},
			})
		}
	}
	for k, reply := range renew.RunEach(ctx, b.client, calls) {
		verdict := reply.Err
		switch {
		case verdict != nil || reply.Values[0] == "held":
		case reply.Values[0] == "lost":
			verdict = locking.ErrLost
		default:
			verdict = strange(reply.Values[0])
		}
		verdicts[asked[k]] = verdict
	}
	return verdicts
}

// Release implements locking.Backend.
func (b *Backend) Release(ctx context.Context, t fencing.Token) (bool, error) {
	if err := t.Validate(); err != nil {
		return false, err
	}
	reply, err := b.sender.Run(ctx, release, redisx.Call{
		Keys: b.keys(t.Resource), Args: []any{decimal(t.Number), t.Grant},
	})
	return err == nil && reply[0] == "freed", err
}

// Evict implements locking.Backend.
func (b *Backend) Evict(ctx context.Context, resource string, number int64) error {
	if err := fencing.ValidateResource(resource); err != nil {
		return err
	}
	if err := fencing.ValidateNumber(number); err != nil {
		return err
	}
	_, err := evict.Run(ctx, b.client, redisx.Call{Keys: b.keys(resource), Args: []any{decimal(number)}})
	return err
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func millis(d time.Duration) string { return decimal(d.Milliseconds()) }

func numberAndTime(number, left string) (int64, time.Duration, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, 0, strange(number)
	}
	ms, err := strconv.ParseInt(left, 10, 64)
	if err != nil {
		return 0, 0, strange(left)
	}
	return n, time.Duration(ms) * time.Millisecond, nil
}

// strange is the error for an answer that no script of this package gives.
func strange(answer string) error {
	return fencing.AsUnknown(fmt.Errorf("redis: a script answered %.40q", answer))
}
