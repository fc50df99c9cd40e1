package lab

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
)

// naive is Redlock as it is often built: a lock on a majority of three small nodes, asked one after
// another until two have said yes, with the highest of their numbers. It is here to fail. What it
// lacks, and locking/redlock has: it does not confirm its number on the majority, so that a node may
// not know of it; a node that forgot everything is believed at once, where it should stay out until
// somebody has seen to it; and its nodes do not outlive the process.
type naive struct {
	mu    sync.Mutex // guards what follows; a node never blocks
	nodes [3]*memlock.Backend
	held  map[string]*spread // by grant
}

// spread is a hold as the nodes have it, each under a number of its own.
type spread struct {
	number int64
	parts  [3]fencing.Token // zero: not on this node
}

const majority = 2

func newNaive() *naive {
	n := &naive{held: map[string]*spread{}}
	for i := range n.nodes {
		n.nodes[i] = memlock.New()
	}
	return n
}

// restart lets a node, 1 to 3, forget everything.
func (n *naive) restart(node int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes[node-1] = memlock.New()
}

// forget lets all nodes forget one resource.
func (n *naive) forget(resource string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, node := range n.nodes {
		node.Forget(resource)
	}
}

// TryAcquire implements locking.Backend.
func (n *naive) TryAcquire(ctx context.Context, r locking.Request) (locking.Hold, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	s := &spread{}
	all := locking.Hold{Remaining: r.TTL}
	count := 0
	for i, node := range n.nodes {
		if count == majority {
			break
		}
		h, err := node.TryAcquire(ctx, r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		count++
		s.parts[i] = h.Token
		s.number = max(s.number, h.Token.Number)
		all.Drawn = all.Drawn || h.Drawn
		all.Remaining = min(all.Remaining, h.Remaining)
	}
	if count < majority {
		n.end(ctx, s)
		return locking.Hold{}, most(errs)
	}
	n.held[r.Grant] = s
	all.Token = fencing.Token{Resource: r.Resource, Number: s.number, Grant: r.Grant}
	return all, nil
}

// most is what the nodes that said no say together: that the lock is held, if one of them does.
func most(errs []error) error {
	for _, err := range errs {
		if errors.Is(err, locking.ErrHeld) {
			return err
		}
	}
	return errs[0]
}

func (n *naive) end(ctx context.Context, s *spread) (freed int) {
	for i, t := range s.parts {
		if t.Number == 0 {
			continue
		}
		if ok, err := n.nodes[i].Release(ctx, t); err == nil && ok {
			freed++
		}
	}
	return freed
}

// of returns what is known of a token's hold.
func (n *naive) of(t fencing.Token) *spread {
	if s := n.held[t.Grant]; s != nil && s.number == t.Number {
		return s
	}
	return nil
}

// where says which nodes a grant is on.
func (n *naive) where(grant string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var on []string
	if s := n.held[grant]; s != nil {
		for i, t := range s.parts {
			if t.Number > 0 {
				on = append(on, strconv.Itoa(i+1))
			}
		}
	}
	return strings.Join(on, " and ")
}

// Renew implements locking.Backend: a hold that a majority has no more is lost.
func (n *naive) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	verdicts := make([]error, len(held))
	for k, t := range held {
		count := 0
		if s := n.of(t); s != nil {
			for i, part := range s.parts {
				if part.Number > 0 && n.nodes[i].Renew(ctx, ttl, []fencing.Token{part})[0] == nil {
					count++
				}
			}
		}
		if count < majority {
			verdicts[k] = locking.ErrLost
		}
	}
	return verdicts
}

// Release implements locking.Backend.
func (n *naive) Release(ctx context.Context, t fencing.Token) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.of(t)
	if s == nil {
		return false, nil
	}
	delete(n.held, t.Grant)
	return n.end(ctx, s) > 0, nil
}

// Evict implements locking.Backend.
func (n *naive) Evict(ctx context.Context, resource string, number int64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for grant, s := range n.held {
		if s.number == number && slices.ContainsFunc(s.parts[:], func(t fencing.Token) bool { return t.Resource == resource }) {
			n.end(ctx, s)
			delete(n.held, grant)
		}
	}
	return nil
}

// Status implements locking.Backend: the newest hold that a majority of the nodes has.
func (n *naive) Status(ctx context.Context, resource string) (locking.Status, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := locking.Status{Resource: resource}
	var parts [3]locking.Status
	for i, node := range n.nodes {
		part, err := node.Status(ctx, resource)
		if err != nil {
			return st, err
		}
		parts[i] = part
		st.Number = max(st.Number, part.Number)
	}
	for _, s := range n.held {
		count, label, left := 0, "", time.Duration(0)
		for i, t := range s.parts {
			if t.Resource == resource && parts[i].Held && parts[i].Number == t.Number {
				count++
				label, left = parts[i].Label, max(left, parts[i].Remaining)
			}
		}
		if count >= majority && (!st.Held || s.number >= st.Number) {
			st.Held, st.Label, st.Remaining, st.Number = true, label, left, max(st.Number, s.number)
		}
	}
	return st, nil
}

// List implements locking.Backend: what the first node has.
func (n *naive) List(ctx context.Context, prefix, after string, limit int) ([]locking.Status, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[0].List(ctx, prefix, after, limit)
}
