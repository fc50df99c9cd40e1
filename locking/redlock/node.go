package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
)

var (
	// errQuarantine says that a node has lost, or may have lost, what it granted.
	errQuarantine = errors.New("in quarantine (see Init and Admit)")
	// errResting says that a node was not asked.
	errResting = errors.New("it did not answer a moment ago, and is left alone for a while")
)

const (
	// maxOwed bounds what is kept for a node that is down. What does not fit lasts until its TTL.
	maxOwed = 4096
	// maxRest is the longest time for which a node that does not answer is left alone.
	maxRest = 5 * time.Second
)

// node is one master.
type node struct {
	client *redis.Client
	addr   string
	why    func(run, marker string) string

	mu    sync.Mutex // guards what follows; nothing blocks under it
	owed  []debt
	until time.Time // the node is left alone until then; zero while it answers
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

// rests reports whether the node is to be left alone. Once in rest it lets one caller
// through, who finds out for the others whether the node is back.
func (n *node) rests(rest time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.until.IsZero() {
		return false
	}
	if time.Now().Before(n.until) {
		return true
	}
	n.until = time.Now().Add(rest)
	return false
}

// noticed draws conclusions from an answer: a node that let a whole NodeTimeout pass is left
// alone, one that answers is not.
func (n *node) noticed(err error, patient bool, rest time.Duration) {
	silent := err != nil && timedOut(err)
	if silent && !patient {
		return // the caller's own time was up
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case silent:
		n.until = time.Now().Add(rest)
	case err == nil || errors.Is(err, errQuarantine):
		n.until = time.Time{}
	}
}

func timedOut(err error) bool {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// run runs the script once for each call on this node.
func (n *node) run(ctx context.Context, s *redisx.Script, calls []redisx.Call) []redisx.Reply {
	n.pay(ctx)
	replies := s.RunEach(ctx, n.client, calls)
	for i, r := range replies {
		switch {
		case r.Err != nil:
			replies[i].Err = fmt.Errorf("node %s: %w", n.addr, r.Err)
		case r.Values[0] == "quarantine" && len(r.Values) == 3:
			replies[i].Err = fencing.AsFailed(fmt.Errorf("node %s: %w: %s", n.addr, errQuarantine, n.why(r.Values[1], r.Values[2])))
		}
	}
	return replies
}

// rest is how long a node is left alone that did not answer: it then costs the callers
// together a twentieth of their time, and not each of them a NodeTimeout a call.
func (b *Backend) rest() time.Duration { return min(20*b.o.NodeTimeout, maxRest) }

// askEach runs the script in parallel on every node for which calls returns calls, and
// waits for each at most for NodeTimeout.
func (b *Backend) askEach(ctx context.Context, s *redisx.Script, calls func(i int) []redisx.Call) [][]redisx.Reply {
	replies := make([][]redisx.Reply, len(b.nodes))
	b.askInto(ctx, s, calls, replies, func(int) bool { return true })
	return replies
}

// askFit is askEach but for nodes that rest: those are only asked if the others are no
// majority.
func (b *Backend) askFit(ctx context.Context, s *redisx.Script, calls func(i int) []redisx.Call) [][]redisx.Reply {
	replies := make([][]redisx.Reply, len(b.nodes))
	resting := make([]bool, len(b.nodes))
	for i, n := range b.nodes {
		resting[i] = n.rests(b.rest())
	}
	b.askInto(ctx, s, calls, replies, func(i int) bool { return !resting[i] })
	answered := 0
	for _, r := range replies {
		if len(r) > 0 && r[0].Err == nil {
			answered++
		}
	}
	if answered < b.quorum {
		b.askInto(ctx, s, calls, replies, func(i int) bool { return resting[i] })
	}
	for i, n := range b.nodes {
		for c := calls(i); len(replies[i]) < len(c); {
			replies[i] = append(replies[i], redisx.Reply{Err: fencing.AsFailed(fmt.Errorf("node %s: %w", n.addr, errResting))})
		}
	}
	return replies
}

func (b *Backend) askInto(ctx context.Context, s *redisx.Script, calls func(i int) []redisx.Call, replies [][]redisx.Reply, which func(i int) bool) {
	limited, cancel := context.WithTimeout(ctx, b.o.NodeTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i, n := range b.nodes {
		if c := calls(i); len(c) > 0 && which(i) {
			wg.Go(func() {
				replies[i] = n.run(limited, s, c)
				n.noticed(replies[i][0].Err, ctx.Err() == nil, b.rest())
			})
		}
	}
	wg.Wait()
}

// ask is askFit with the same call to every node.
func (b *Backend) ask(ctx context.Context, s *redisx.Script, call redisx.Call) []redisx.Reply {
	return firsts(b.askFit(ctx, s, func(int) []redisx.Call { return []redisx.Call{call} }))
}

// askAll is ask of nodes that rest, too.
func (b *Backend) askAll(ctx context.Context, s *redisx.Script, call redisx.Call) []redisx.Reply {
	return firsts(b.askEach(ctx, s, func(int) []redisx.Call { return []redisx.Call{call} }))
}

func firsts(replies [][]redisx.Reply) []redisx.Reply {
	list := make([]redisx.Reply, len(replies))
	for i, r := range replies {
		list[i] = r[0]
	}
	return list
}

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
func plain(err error) error { return errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")) }

func parse(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func parseMillis(s string) time.Duration { return time.Duration(parse(s)) * time.Millisecond }
