package fault

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/link"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

const (
	onlySlower  = "everything takes longer; leases that cannot be trusted in time are not used, and nothing is lost"
	ambiguous   = "what was carried out without an answer is unknown to its client, and is found out by its key: applied once or not at all"
	lateRefused = "locks are granted to others meanwhile; what arrives late is refused if a newer token was raised"
	served      = "nobody who needs it is served meanwhile, and calls fail or are unknown; afterwards everybody is served again"
	onceOnly    = "a write that comes twice is refused, answered from its key's record or changes nothing; a repeated grant, renewal or release touches no other hold"
	heldFactor  = 3 // times the TTL, and half of that at least: a message is held beyond every lease
)

// held is a share of messages that arrive beyond the leases.
func held(share float64) func(time.Duration) link.Trouble {
	return func(ttl time.Duration) link.Trouble {
		return link.Trouble{HoldShare: share, HoldFor: heldFactor * ttl}
	}
}

// repeated is a share of requests that come again within two leases. Commits without an idempotency key are left
// out: while their token lasts they would be carried out again, and nothing but the key promises otherwise.
func repeated(share float64) func(time.Duration) link.Trouble {
	return func(ttl time.Duration) link.Trouble {
		return link.Trouble{RepeatShare: share, HoldFor: 2 * ttl, Repeat: repeatable}
	}
}

func repeatable(request []byte) bool {
	if request[0] == '*' { // a commit to Redis names the kinds of its operations, and cannot be told to have a key
		return !slices.ContainsFunc([]string{"$3\r\nput\r\n", "$3\r\nadd\r\n", "$6\r\ndelete\r\n"}, func(kind string) bool {
			return bytes.Contains(request, []byte(kind))
		})
	}
	q, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		return false
	}
	defer q.Body.Close()
	writes := strings.HasSuffix(q.URL.Path, "/commits") || strings.Contains(q.URL.Path, "/records/") && q.Method != http.MethodGet
	return !writes || q.Header.Get("Idempotency-Key") != ""
}

// delays are faults in which everything arrives, sometime.
func delays() []Fault {
	late := always(link.Trouble{Latency: 30 * time.Millisecond, Jitter: 20 * time.Millisecond})
	slow := always(link.Trouble{Bandwidth: 10_000})
	spikes := always(link.Trouble{Jitter: 500 * time.Millisecond})
	return faults(
		wire{
			name: "net-latency", what: "every message to and from the servers takes 30 ms longer, give or take 20", expect: onlySlower,
			on: serverLinks, requests: late, replies: late,
		},
		wire{
			name: "net-slow", what: "10,000 bytes a second pass on each connection to the servers", expect: onlySlower,
			on: serverLinks, requests: slow, replies: slow,
		},
		wire{
			name: "net-jitter-spikes", what: "half of the messages to and from the servers take up to 500 ms longer, more than a lease lasts",
			expect: onlySlower, on: serverLinks, requests: spikes, replies: spikes,
		},
		wire{
			name: "net-held", what: "some requests to the store are held beyond the leases, and delivered then", expect: lateRefused,
			on: storeLinks, requests: held(0.05),
		},
		wire{
			name: "net-held-lock", what: "some requests to the lock are held beyond the leases, and delivered then",
			expect: "a grant that comes too late is not used; a late release or renewal touches no other hold",
			on:     lockApart, requests: held(0.05),
		},
		wire{
			name: "net-duplicates", what: "every fifth command to Redis, but for commits, is delivered once more, up to two leases later", expect: onceOnly,
			on: redisLinks, requests: repeated(0.2),
		},
	)
}

// losses are faults in which a connection ends in the wrong moment.
func losses() []Fault {
	return append(faults(
		wire{
			name: "net-reply-loss", what: "connections to the store are reset instead of delivering an answer, one in five", expect: ambiguous,
			on: storeLinks, replies: always(link.Trouble{ResetShare: 0.2}), hold: 2 * time.Second,
		},
		wire{
			name: "net-reply-loss-lock", what: "connections to the lock are reset instead of delivering an answer, one in ten",
			expect: "a grant whose answer is lost is asked for again under its grant id, or runs out; no hold has two holders",
			on:     lockApart, replies: always(link.Trouble{ResetShare: 0.1}),
		},
		wire{
			name: "net-request-loss", what: "connections to the servers are reset instead of delivering a request, one in twenty",
			expect: "what was not delivered has no effect, whatever its client takes it for",
			on:     serverLinks, requests: always(link.Trouble{ResetShare: 0.05}),
		},
	), flap())
}

// flap cuts and heals many times.
func flap() Fault {
	w := wire{
		name: "net-flap", what: "the connections to the servers are cut and possible again, many times a second", expect: ambiguous,
		on: serverLinks, requests: always(link.Trouble{Cut: true}),
	}
	f := w.fault()
	f.Inject = func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
		outer := ctx
		links, err := w.links(r, rnd, note)
		if err != nil {
			return nil, err
		}
		heal := healLinks(links)
		stop := repeat(ctx, rnd, 150*time.Millisecond, func(ctx context.Context, rnd *rand.Rand) (bool, error) {
			err := w.trouble(links, r, rnd)
			wait(ctx, about(rnd, 50*time.Millisecond))
			_ = heal(ctx) // it has nothing to say
			return err == nil, err
		})
		return func(ctx context.Context) error {
			n, err := stop()
			_ = heal(ctx)
			return cmp.Or(err, atLeastOne(outer, n, "no connection was cut"))
		}, nil
	}
	return f
}

// partitions are faults in which nothing passes, in one direction or both.
func partitions() []Fault {
	silent, cut, halfOpen := always(link.Trouble{Silent: true}), always(link.Trouble{Cut: true}), always(link.Trouble{HalfOpen: true})
	return faults(
		wire{
			name: "net-cut", what: "all connections to the servers are reset, and new ones refused", expect: served,
			on: serverLinks, requests: cut,
		},
		wire{
			name: "net-one-way-requests", what: "requests to the servers vanish; answers would pass, and nobody is told", expect: served,
			on: serverLinks, requests: silent,
		},
		wire{
			name: "net-one-way-replies", what: "requests reach the servers and are carried out, their answers vanish, and nobody is told", expect: ambiguous,
			on: serverLinks, replies: silent,
		},
		wire{
			name: "net-half-open", what: "the connections to the servers that are open pass nothing more, and nobody is told; new ones work",
			expect: "who waits on a dead connection is succeeded when his lease has run out; new connections serve everybody else",
			on:     serverLinks, requests: halfOpen, replies: halfOpen,
		},
		wire{
			name: "net-store-only", what: "the store cannot be reached, the lock can", expect: "no lock is granted, as its token cannot be raised; afterwards everybody is served again",
			on: storeApart, requests: silent, replies: silent,
		},
		wire{
			name: "net-lock-only", what: "the lock cannot be reached, the store can",
			expect: "leases cannot be renewed and run out; whoever has one writes until a newer token is raised",
			on:     lockApart, requests: silent, replies: silent,
		},
	)
}

// gatewayNetwork is between clients and gateways.
func gatewayNetwork() []Fault {
	silent := always(link.Trouble{Silent: true})
	return faults(
		wire{
			name: "net-gateway-reply-loss", what: "connections to the gateways are reset instead of delivering an answer, one in ten", expect: ambiguous,
			on: gatewayLinks, replies: always(link.Trouble{ResetShare: 0.1}),
		},
		wire{
			name: "net-gateway-cut", what: "a gateway cannot be reached, and all connections to it are reset",
			expect: "clients go on with another gateway, or wait; what was under way is unknown or failed",
			on:     gatewayLinks, some: one, requests: always(link.Trouble{Cut: true}),
		},
		wire{
			name: "net-gateway-one-way", what: "requests reach a gateway and are carried out, its answers vanish, and nobody is told", expect: ambiguous,
			on: gatewayLinks, some: one, replies: silent,
		},
		wire{
			name: "net-gateway-held", what: "some requests to the gateways are held beyond the leases, and delivered then", expect: lateRefused,
			on: gatewayLinks, requests: held(0.05),
		},
		wire{
			name: "net-gateway-duplicates", what: "every fifth request to the gateways, but for commits without a key, is delivered once more, up to two leases later", expect: onceOnly,
			on: gatewayLinks, requests: repeated(0.2),
		},
	)
}

// redlockNetwork is between clients and the nodes of redlock.
func redlockNetwork() []Fault {
	silent, cut := always(link.Trouble{Silent: true}), always(link.Trouble{Cut: true})
	return faults(
		wire{
			name: "net-redlock-minority", what: "the largest minority of the nodes cannot be reached", expect: "locks are granted by the others",
			on: nodeLinks, some: minorityOf, requests: cut,
		},
		wire{
			name: "net-redlock-majority", what: "a majority of the nodes cannot be reached", expect: "no lock is granted, and leases run out; afterwards everybody is served again",
			on: nodeLinks, some: majorityOf, requests: cut,
		},
		wire{
			name: "net-redlock-one-way", what: "requests reach a minority of the nodes and are carried out, their answers vanish",
			expect: "locks are granted by the others; grants that nobody knows of are not counted, and run out",
			on:     nodeLinks, some: minorityOf, replies: silent,
		},
		wire{
			name: "net-redlock-duplicates", what: "every fifth command to a node is delivered once more, up to two leases later, as a client library that sends again would do",
			expect: "two may be granted the same lock, as redlock needs requests that come once; the store refuses the older one",
			loses:  []history.Loss{history.LosesLocks},
			on:     nodeLinks, requests: repeated(0.2),
		},
	)
}
