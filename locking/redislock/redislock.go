// Package redislock is a lock store on one Redis server, on a Redis that fails over
// (Sentinel), or on a Redis Cluster.
//
// Each call is one Lua script, so one atomic step. A resource has two keys with one hash
// tag: the lock, which expires with its hold, and the counter, which never expires and
// keeps the last number and the last grant. [Backend.Check] says whether a server is fit,
// [Backend.Warnings] what it may lose.
//
// # Guarantees
//
//   - Numbers of one resource increase strictly as long as the server forgets nothing.
//   - The grant, its number and the memory of the last grant are written in one step.
//   - Renew, Release and Evict match a hold by number and grant (Evict: by number) and
//     never touch another.
//   - A script is sent once. What has no answer is reported as unknown and not repeated.
//
// # What is not guaranteed
//
// A server that fails over, is restored, flushed, or evicts keys may lose holds and
// counters: a lock is then granted twice and numbers begin again. That is what Request.Floor
// is for: the stores refuse the old number, and the issuer asks for a higher one. Nothing
// is waited for here: TryAcquire is one attempt, and a release tells nobody.
//
// List goes through all keys of the server (SCAN): it is for operators.
//
// MONITOR and SLOWLOG on the server show grant ids, which are secrets.
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
// command which the user may not run; [Backend.Check] refuses a user who lacks one.
//
// The client bounds a call by its own timeouts. It looks at the context's deadline only if
// its option ContextTimeoutEnabled is set, which is recommended.
package redislock

import (
	"context"
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
	// Prefix begins all keys, "<prefix>:{<resource>}:lock" and ":counter". It has the
	// grammar of a resource. Default: "fencegate".
	Prefix string
}

// Backend is a locking.Backend on Redis. It is safe for concurrent use.
type Backend struct {
	client redis.UniversalClient
	prefix string
}

var _ locking.Backend = (*Backend)(nil)

//go:embed hold.lua
var holdLua string

//go:embed acquire.lua
var acquireLua string

//go:embed renew.lua
var renewLua string

//go:embed release.lua
var releaseLua string

//go:embed evict.lua
var evictLua string

//go:embed status.lua
var statusLua string

var (
	acquire = redisx.NewScript(holdLua, acquireLua)
	renew   = redisx.NewScript(holdLua, renewLua)
	release = redisx.NewScript(holdLua, releaseLua)
	evict   = redisx.NewScript(holdLua, evictLua)
	status  = redisx.NewReadScript(holdLua, statusLua)
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
	return &Backend{client: client, prefix: prefix}, nil
}

func (b *Backend) lock(resource string) string { return redisx.Key(b.prefix, resource, "lock") }

func (b *Backend) both(resource string) []string {
	return []string{b.lock(resource), redisx.Key(b.prefix, resource, "counter")}
}

// TryAcquire implements locking.Backend.
func (b *Backend) TryAcquire(ctx context.Context, r locking.Request) (locking.Hold, error) {
	if err := r.Validate(); err != nil {
		return locking.Hold{}, err
	}
	reply, err := acquire.Run(ctx, b.client, redisx.Call{
		Keys: b.both(r.Resource),
		Args: []any{r.Grant, r.Label, millis(r.TTL), decimal(r.Floor)},
	})
	if err != nil {
		return locking.Hold{}, err
	}
	switch {
	case reply[0] == "hold" && len(reply) == 4:
		number, left, err := numberAndTime(reply[1], reply[3])
		if err != nil {
			return locking.Hold{}, err
		}
		return locking.Hold{
			Token:     fencing.Token{Resource: r.Resource, Number: number, Grant: r.Grant},
			Drawn:     reply[2] == "1",
			Remaining: left,
		}, nil
	case reply[0] == "held" && len(reply) == 4:
		number, left, err := numberAndTime(reply[1], reply[3])
		if err != nil {
			return locking.Hold{}, err
		}
		return locking.Hold{}, &locking.HeldError{Resource: r.Resource, Number: number, Label: reply[2], Remaining: left}
	case reply[0] == "lost":
		return locking.Hold{}, locking.ErrLost
	case reply[0] == "exhausted":
		return locking.Hold{}, locking.ErrExhausted
	}
	return locking.Hold{}, strange(reply[0])
}

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
	reply, err := release.Run(ctx, b.client, redisx.Call{
		Keys: []string{b.lock(t.Resource)}, Args: []any{decimal(t.Number), t.Grant},
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
	_, err := evict.Run(ctx, b.client, redisx.Call{Keys: []string{b.lock(resource)}, Args: []any{decimal(number)}})
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
