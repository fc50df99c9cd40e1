// Package redlock is a lock store on N independent Redis masters, none of which is a
// replica of another. A lock is held while a majority of them holds it, so a minority may
// be down. It is Redlock with tokens: its numbers increase.
//
// Each call sends one Lua script to every node, in parallel. TryAcquire has two phases:
//
//  1. Grant, on every node: if the node is fit and the lock is free there, its counter
//     goes up by one, and the lock is set to this attempt and that counter, for a window of
//     some seconds.
//  2. With a majority S granted, the number is max(highest counter of S, Floor+1).
//  3. Confirm, on the nodes of S where the lock is still exactly that granting: the counter
//     becomes the number if it is lower, and the lock keeps the number and gets its TTL.
//  4. It is a hold if a majority confirmed and time is left; else everything is taken back.
//
// A node stores, for each resource, the lock (grant, attempt, its own counter, the
// confirmed number, label, TTL) and the counter (its value, the last confirmed number and
// grant). So a repeat from any process finds the confirmed number on a majority. Where it
// finds the grant without such a majority, or a number up to Floor, it makes a new attempt
// for the same grant, which leaves the expiry of a confirmed lock alone.
//
// A new cluster is initialised once, by [Backend.Init]. It writes a marker into each node,
// which names the run of its server, the longest TTL and the number of nodes. A node whose
// marker is missing or does not fit (it was restarted, emptied, failed over; this process
// knows another cluster) is in quarantine: it counts as down until an operator calls
// [Backend.Admit]. A node that keeps everything (appendfsync always) may be marked as
// durable, and outlives restarts.
//
// # Guarantees
//
//   - Numbers of one resource are unique and increase from grant to grant, whatever is
//     delayed, lost, delivered twice or paused, and whatever clocks do, as long as no
//     majority forgets and nodes are admitted by Admit only. A model of the protocol
//     shows it in the tests, with the shortest counterexamples of weaker rules, which are
//     also played to this code on real nodes.
//   - While a minority of nodes is down, locks are granted. A node that does not answer
//     delays one call by Options.NodeTimeout, is then left alone for 20 times as long (at
//     most 5 s), and asked sooner only if there is no majority without it.
//   - Renew, Release and Evict match a hold by number and grant (Evict: by number).
//   - An attempt that was given up leaves no lock on a node that answers: what was sent to a
//     node that did not answer is taken back with the next call to it, and a request that
//     arrives even later finds a tombstone (for one minute). If the process dies first, what
//     it left lasts for the window between the phases, [Backend.MaxStall] at most.
//
// # What is not guaranteed
//
// That only one holder is at work: that needs clocks and nodes that behave, and is what
// tokens are for. A repeat of a grant whose majority cannot be read for certain may get a
// higher number; a holder of the lower one then loses it. Contending attempts can split the
// nodes between them: TryAcquire tries a few more times, after random pauses, and may then
// answer with a *HeldError (Number 0) although nobody holds the lock.
//
// There is no line of waiters: [Backend.Join] is woken by whatever ends a hold and tries
// again, at random, so a waiter may be overtaken any number of times by other processes.
//
// A durable marker is believed: if such a node loses data all the same (a restored file, a
// promoted replica, a flush that kept the marker), numbers may come twice; the stores then
// refuse them. To replace a machine by another, every process must have stopped using the old
// one before the new one is admitted: else there are two clusters, each with majorities.
//
// # Clocks
//
// Each node's own for its TTL, this process's monotonic clock for how long an attempt took.
// Options.Drift is taken from every Remaining. Numbers depend on no clock: what Admit waits
// for are holds that a node may have forgotten, and a counter that it takes over bars what was
// granted before. A clock that jumps back leaves a lock that lasts longer than its TTL; the next
// attempt or renewal cuts it.
//
// # Errors
//
// Those of locking.Backend. Failed: this attempt took nothing, because too few nodes
// answered or it took too long; a re-issue that failed leaves the hold it found, and may
// have numbered it anew. Unknown: it may have happened on a majority. The text names each
// node that did not answer, or why it is in quarantine. A TTL above Options.MaxTTL is a
// [*fencing.InvalidError] before anything is sent.
package redlock

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/locking"
)

// Options tunes a [Backend]. The zero value is the default.
type Options struct {
	// Prefix begins all keys. It has the grammar of a resource. Default: "fencegate".
	Prefix string
	// NodeTimeout is how long a call waits for a node, 1ms to 1m. It should be far below the
	// TTLs in use. Default: 50ms.
	NodeTimeout time.Duration
	// Drift is how much sooner than on its nodes a hold is taken to end, 0 to 1m, for
	// clocks that do not run alike. Default: 1% of the TTL and 2ms.
	Drift time.Duration
	// MaxTTL is the longest TTL that is granted or renewed to, and how long Admit waits:
	// locking.MinTTL..locking.MaxTTL in whole milliseconds. It is part of the markers: to a
	// process that has another one every node is in quarantine. Default: 1m.
	MaxTTL time.Duration
	// Durable makes Init and Admit write markers that outlive a restart of the node. They
	// then refuse a node without appendfsync always or with replicas. Default: false.
	Durable bool
	// FewNodes allows fewer than three nodes, with which no node may fail. Default: false.
	FewNodes bool
}

// Backend is a locking.Backend on several Redis masters. It is safe for concurrent use.
type Backend struct {
	nodes  []*node
	quorum int
	prefix string
	o      Options
	took   atomic.Int64 // how long a grant takes, smoothed, in ns
	bell   bell
}

var (
	_ locking.Waiter  = (*Backend)(nil)
	_ locking.Checker = (*Backend)(nil)
)

// New returns a backend on nodes, one client each, which stay the caller's to close. It
// contacts nobody. Each must be a *redis.Client with MaxRetries: -1 and
// ContextTimeoutEnabled: true, and an address of its own. The error is a
// [*fencing.InvalidError].
func New(nodes []redis.UniversalClient, o *Options) (*Backend, error) {
	b := &Backend{quorum: len(nodes)/2 + 1}
	if o != nil {
		b.o = *o
	}
	var err error
	if b.prefix, err = redisx.Prefix(b.o.Prefix); err != nil {
		return nil, err
	}
	if b.o.NodeTimeout == 0 {
		b.o.NodeTimeout = 50 * time.Millisecond
	}
	if b.o.MaxTTL == 0 {
		b.o.MaxTTL = time.Minute
	}
	if b.o.NodeTimeout < time.Millisecond || b.o.NodeTimeout > time.Minute {
		return nil, &fencing.InvalidError{What: "NodeTimeout", Got: b.o.NodeTimeout.String(), Allowed: "1ms to 1m"}
	}
	if b.o.Drift < 0 || b.o.Drift > time.Minute {
		return nil, &fencing.InvalidError{What: "Drift", Got: b.o.Drift.String(), Allowed: "0 to 1m"}
	}
	if err := locking.ValidateTTL(b.o.MaxTTL); err != nil {
		return nil, fmt.Errorf("MaxTTL: %w", err)
	}
	if len(nodes) < 3 && (!b.o.FewNodes || len(nodes) == 0) {
		return nil, &fencing.InvalidError{
			What: "number of nodes", Got: strconv.Itoa(len(nodes)),
			Allowed: "3 or more; 1 or 2 with the option FewNodes",
		}
	}
	seen := map[string]bool{}
	for _, c := range nodes {
		one, err := checkNode(c)
		if err != nil {
			return nil, err
		}
		addr := one.Options().Addr
		if seen[addr] {
			return nil, &fencing.InvalidError{What: "node", Got: addr + " twice", Allowed: "independent masters, each once"}
		}
		seen[addr] = true
		b.nodes = append(b.nodes, &node{client: one, addr: addr, why: b.why})
	}
	return b, nil
}

func checkNode(c redis.UniversalClient) (*redis.Client, error) {
	if err := redisx.CheckClient(c); err != nil {
		return nil, err
	}
	one, ok := c.(*redis.Client)
	if !ok || one.Options().Addr == "FailoverClient" {
		// A cluster or a failover would move a node's keys to a server that never promised them.
		return nil, &fencing.InvalidError{What: "Redis client", Got: fmt.Sprintf("%T", c), Allowed: "*redis.Client of one server"}
	}
	if !one.Options().ContextTimeoutEnabled {
		return nil, &fencing.InvalidError{
			What: "Redis client", Got: "without ContextTimeoutEnabled",
			Allowed: "ContextTimeoutEnabled: true in its options: else a node that does not answer holds up the others",
		}
	}
	return one, nil
}

// drift is what to take from a hold's time.
func (b *Backend) drift(ttl time.Duration) time.Duration {
	if b.o.Drift > 0 {
		return b.o.Drift
	}
	return ttl/100 + 2*time.Millisecond
}

func (b *Backend) validateTTL(ttl time.Duration) error {
	if err := locking.ValidateTTL(ttl); err != nil {
		return err
	}
	if ttl > b.o.MaxTTL {
		return &fencing.InvalidError{What: "TTL", Got: ttl.String(), Allowed: "up to the option MaxTTL, " + b.o.MaxTTL.String()}
	}
	return nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func millis(d time.Duration) string { return decimal(d.Milliseconds()) }
