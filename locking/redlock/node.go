package redlock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
)

var (
	//go:embed common.lua
	commonLua string
	//go:embed grant.lua
	grantLua string
	//go:embed confirm.lua
	confirmLua string
	//go:embed abort.lua
	abortLua string
	//go:embed renew.lua
	renewLua string
	//go:embed release.lua
	releaseLua string
	//go:embed status.lua
	statusLua string
	//go:embed node.lua
	nodeLua string
	//go:embed mark.lua
	markLua string
	//go:embed counter.lua
	counterLua string
	//go:embed seed.lua
	seedLua string
)

var (
	grant   = redisx.NewScript(commonLua, grantLua)
	confirm = redisx.NewScript(commonLua, confirmLua)
	abort   = redisx.NewScript(commonLua, abortLua)
	renew   = redisx.NewScript(commonLua, renewLua)
	release = redisx.NewScript(commonLua, releaseLua)
	status  = redisx.NewReadScript(commonLua, statusLua)
	look    = redisx.NewReadScript(commonLua, nodeLua)
	mark    = redisx.NewScript(markLua)
	counter = redisx.NewReadScript(commonLua, counterLua)
	seed    = redisx.NewScript(commonLua, seedLua)
)

// errQuarantine says that a node has lost, or may have lost, what it granted.
var errQuarantine = errors.New("in quarantine, see Nodes and Admit")

// maxOwed bounds what is kept for a node that is down. What does not fit lasts until its TTL.
const maxOwed = 4096

// node is one master.
type node struct {
	client redis.UniversalClient
	addr   string

	mu   sync.Mutex // guards owed; nothing blocks under it
	owed []debt
}

// debt is a call that takes something back on a node that did not answer. It is sent before
// the next call to that node. Its order to other calls matters to no promise: it matches
// one attempt or one hold, and both are never made again.
type debt struct {
	script *redisx.Script
	call   redisx.Call
	until  time.Time // by then the lock has expired
}

func (n *node) owe(debts ...debt) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range debts {
		if len(n.owed) < maxOwed {
			n.owed = append(n.owed, d)
		}
	}
}

// pay sends what is owed, and keeps what had no answer.
func (n *node) pay(ctx context.Context) {
	n.mu.Lock()
	owed := n.owed
	n.owed = nil
	n.mu.Unlock()
	for _, script := range []*redisx.Script{abort, release} {
		var debts []debt
		var calls []redisx.Call
		for _, d := range owed {
			if d.script == script && time.Now().Before(d.until) {
				debts = append(debts, d)
				calls = append(calls, d.call)
			}
		}
		if len(calls) == 0 {
			continue
		}
		for i, r := range script.RunEach(ctx, n.client, calls) {
			if r.Err != nil {
				n.owe(debts[i])
			}
		}
	}
}

// run runs the script once for each call on this node.
func (n *node) run(ctx context.Context, s *redisx.Script, calls []redisx.Call) []redisx.Reply {
	n.pay(ctx)
	replies := s.RunEach(ctx, n.client, calls)
	for i, r := range replies {
		switch {
		case r.Err != nil:
			replies[i].Err = fmt.Errorf("node %s: %w", n.addr, r.Err)
		case r.Values[0] == "quarantine":
			replies[i].Err = fencing.AsFailed(fmt.Errorf("node %s: %w", n.addr, errQuarantine))
		}
	}
	return replies
}

// askEach runs the script on every node in parallel, with the calls that calls returns for
// it, and waits for each at most for NodeTimeout. A node without calls is not asked.
func (b *Backend) askEach(ctx context.Context, s *redisx.Script, calls func(i int) []redisx.Call) [][]redisx.Reply {
	ctx, cancel := context.WithTimeout(ctx, b.o.NodeTimeout)
	defer cancel()
	replies := make([][]redisx.Reply, len(b.nodes))
	var wg sync.WaitGroup
	for i, n := range b.nodes {
		if c := calls(i); len(c) > 0 {
			wg.Go(func() { replies[i] = n.run(ctx, s, c) })
		}
	}
	wg.Wait()
	return replies
}

// ask is askEach with the same call to every node.
func (b *Backend) ask(ctx context.Context, s *redisx.Script, call redisx.Call) []redisx.Reply {
	replies := make([]redisx.Reply, len(b.nodes))
	for i, r := range b.askEach(ctx, s, func(int) []redisx.Call { return []redisx.Call{call} }) {
		replies[i] = r[0]
	}
	return replies
}

// call makes a call on a resource. All but abort and grant have these keys.
func (b *Backend) call(resource string, args ...any) redisx.Call {
	return redisx.Call{
		Keys: []string{b.markerKey(), redisx.Key(b.prefix, resource, "lock"), redisx.Key(b.prefix, resource, "counter")},
		Args: append([]any{millis(b.o.MaxTTL)}, args...),
	}
}

// attemptCall is call with the tombstone of an attempt.
func (b *Backend) attemptCall(resource, attempt string, args ...any) redisx.Call {
	c := b.call(resource, args...)
	c.Keys = append(c.Keys, redisx.Key(b.prefix, resource, "ended:"+attempt))
	return c
}

// The name is outside the grammar of a resource.
func (b *Backend) markerKey() string { return redisx.Key(b.prefix, "-node", "marker") }

// errorsOf joins the errors of nodes that did not answer, and counts them.
func errorsOf(replies []redisx.Reply) (down int, err error) {
	for _, r := range replies {
		if r.Err != nil {
			down++
			err = errors.Join(err, r.Err)
		}
	}
	return down, err
}

// noMajority says that too few nodes answered.
func (b *Backend) noMajority(down int, err error) error {
	return fmt.Errorf("redlock: only %d of %d nodes answered: %w", len(b.nodes)-down, len(b.nodes), plain(err))
}

// plain keeps the text of err and drops its outcome: that of one node is not the outcome
// of a call to all.
func plain(err error) error { return errors.New(err.Error()) }

func parse(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func parseMillis(s string) time.Duration { return time.Duration(parse(s)) * time.Millisecond }
