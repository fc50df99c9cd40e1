package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
)

// NodeState says whether a node takes part.
type NodeState string

// The states of a node.
const (
	NodeOK         NodeState = "ok"
	NodeQuarantine NodeState = "quarantine" // it has lost, or may have lost, what it granted
	NodeDown       NodeState = "down"       // it did not answer
)

// NodeStatus describes a node.
type NodeStatus struct {
	Addr    string
	State   NodeState
	Durable bool  // its marker outlives a restart
	Err     error // why it is down

	run string
}

// Nodes returns the state of every node, in the order in which New was given them.
func (b *Backend) Nodes(ctx context.Context) []NodeStatus {
	list := make([]NodeStatus, len(b.nodes))
	for i, r := range b.ask(ctx, look, redisx.Call{Keys: []string{b.markerKey()}, Args: []any{millis(b.o.MaxTTL)}}) {
		list[i] = NodeStatus{Addr: b.nodes[i].addr, State: NodeDown, Err: r.Err}
		switch {
		case errors.Is(r.Err, errQuarantine):
			list[i].State, list[i].Err, list[i].run = NodeQuarantine, nil, r.Values[1]
		case r.Err == nil:
			list[i].State, list[i].Durable = NodeOK, strings.HasPrefix(r.Values[2], "durable:")
			list[i].run = r.Values[1]
		}
	}
	return list
}

// Warnings names what is unwise about this cluster, in one sentence each.
func (b *Backend) Warnings() []string {
	var list []string
	n := len(b.nodes)
	if n%2 == 0 {
		list = append(list, fmt.Sprintf("An even number of nodes, %d, outlives the loss of no more nodes than %d do.", n, n-1))
	}
	if n < 3 {
		list = append(list, "With fewer than 3 nodes no lock is granted while one is down.")
	}
	return list
}

// Init initialises a new cluster: it marks every node as fit. Every node must answer and
// have no counter yet; otherwise nothing is marked, and the error is a
// [*fencing.InvalidError] or says which node did not answer. It may be repeated until the
// first grant. Never call it to repair a cluster: that is for Admit.
func (b *Backend) Init(ctx context.Context) error {
	states := b.Nodes(ctx)
	for i, st := range states {
		if st.State == NodeDown {
			return fencing.AsFailed(fmt.Errorf("redlock: Init needs every node: %w", plain(st.Err)))
		}
		names, err := b.scan(ctx, i, "", "counter")
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return &fencing.InvalidError{What: "node", Got: st.Addr + ", which has granted already", Allowed: "empty ones; to let a node back in, Admit it"}
		}
		if err := b.checkDurable(ctx, i); err != nil {
			return err
		}
	}
	for i, st := range states {
		if err := b.begin(ctx, i, st.run, st.run); err != nil {
			return err
		}
		if err := b.mark(ctx, i, st.run, st.run); err != nil {
			return err
		}
	}
	return nil
}

// Admit lets node i, counted from 0, out of quarantine; of a node that is fit it does
// nothing. It waits for Options.MaxTTL, until no attempt from before the loss can be
// confirmed any more; takes the highest of every counter from at least N-Q+1 other nodes
// that are fit (Q is a majority of N); and marks the node. If it fails the node stays in
// quarantine. It is for an operator, who has made sure that the node is what it should be.
func (b *Backend) Admit(ctx context.Context, i int) error {
	if i < 0 || i >= len(b.nodes) {
		return &fencing.InvalidError{What: "node", Got: strconv.Itoa(i), Allowed: "0 to " + strconv.Itoa(len(b.nodes)-1)}
	}
	st := b.Nodes(ctx)[i]
	switch st.State {
	case NodeOK:
		return nil
	case NodeDown:
		return fencing.AsFailed(fmt.Errorf("redlock: %w", plain(st.Err)))
	}
	if err := b.checkDurable(ctx, i); err != nil {
		return err
	}
	nonce := fencing.NewGrant()
	if err := b.begin(ctx, i, st.run, nonce); err != nil {
		return err
	}
	wait := time.NewTimer(b.o.MaxTTL + b.drift(b.o.MaxTTL))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return fencing.AsFailed(ctx.Err())
	case <-wait.C:
	}
	peers, errs := 0, error(nil)
	for p := range b.nodes {
		if p == i {
			continue
		}
		calls, err := b.counters(ctx, p)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		if err := b.seed(ctx, i, calls); err != nil {
			return err
		}
		peers++
	}
	if need := len(b.nodes) - b.quorum + 1; peers < need {
		return fencing.AsFailed(fmt.Errorf("redlock: Admit needs the counters of %d other nodes, got %d: %w", need, peers, plain(errors.Join(errors.New("too few"), errs))))
	}
	return b.mark(ctx, i, st.run, nonce)
}

// batch is how many counters are read or written at once.
const batch = 500

// counters reads every counter of peer p, as calls that seed another node. A counter that
// begins meanwhile belongs to an attempt that the other node has no part in.
func (b *Backend) counters(ctx context.Context, p int) ([]redisx.Call, error) {
	names, err := b.scan(ctx, p, "", "counter")
	if err != nil {
		return nil, err
	}
	// The probe makes a peer without counters say whether it is fit.
	names = append(names, redisx.ProbeResource)
	var seeds []redisx.Call
	for len(names) > 0 {
		part := names[:min(batch, len(names))]
		names = names[len(part):]
		calls := make([]redisx.Call, len(part))
		for k, name := range part {
			calls[k] = b.call(name)
		}
		for k, r := range b.runOn(ctx, p, counter, calls) {
			if r.Err != nil {
				return nil, r.Err
			}
			if v := r.Values; part[k] != redisx.ProbeResource {
				seeds = append(seeds, b.call(part[k], v[0], v[1], v[2]))
			}
		}
	}
	return seeds, nil
}

func (b *Backend) seed(ctx context.Context, i int, calls []redisx.Call) error {
	for len(calls) > 0 {
		part := calls[:min(batch, len(calls))]
		calls = calls[len(part):]
		for _, r := range b.runOn(ctx, i, seed, part) {
			if r.Err != nil {
				return r.Err
			}
		}
	}
	return nil
}

func (b *Backend) runOn(ctx context.Context, i int, s *redisx.Script, calls []redisx.Call) []redisx.Reply {
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	return b.nodes[i].run(ctx, s, calls)
}

func (b *Backend) nonceKey() string { return redisx.Key(b.prefix, "-node", "nonce") }

// begin leaves a nonce on the node: if it is gone later, so is what was written since. The
// run is compared too, for a node that keeps its data. A nonce of another run is replaced.
func (b *Backend) begin(ctx context.Context, i int, run, nonce string) error {
	if run == "" {
		return fencing.AsFailed(fmt.Errorf("redlock: node %s does not tell its run_id", b.nodes[i].addr))
	}
	ctx, cancel := context.WithTimeout(ctx, b.o.NodeTimeout)
	defer cancel()
	if err := b.nodes[i].client.Set(ctx, b.nonceKey(), nonce, 0).Err(); err != nil {
		return fencing.AsFailed(fmt.Errorf("node %s: redis: %w", b.nodes[i].addr, err))
	}
	return nil
}

func (b *Backend) mark(ctx context.Context, i int, run, nonce string) error {
	marker := run
	if b.o.Durable {
		marker = "durable"
	}
	r := b.runOn(ctx, i, mark, []redisx.Call{{
		Keys: []string{b.markerKey(), b.nonceKey()},
		Args: []any{millis(b.o.MaxTTL), run, nonce, marker + ":" + millis(b.o.MaxTTL)},
	}})[0]
	if r.Err == nil && r.Values[0] != "marked" {
		return fencing.AsFailed(fmt.Errorf("redlock: node %s was restarted, emptied or marked by somebody else meanwhile", b.nodes[i].addr))
	}
	return r.Err
}

// checkDurable refuses a node that is to be durable and is not, or that is a replica.
func (b *Backend) checkDurable(ctx context.Context, i int) error {
	n := b.nodes[i]
	return redisx.CheckServers(ctx, n.client, func(info map[string]string) error {
		if err := redisx.CheckPolicy(info, "an evicted counter begins again"); err != nil {
			return err
		}
		if !b.o.Durable {
			return nil
		}
		if replicas := info["connected_slaves"]; replicas != "0" {
			return &fencing.InvalidError{What: "durable node", Got: n.addr + " with " + replicas + " replicas", Allowed: "one without: a promoted replica would carry the marker"}
		}
		conf, err := n.client.ConfigGet(ctx, "append*").Result()
		if err != nil {
			return fencing.AsFailed(fmt.Errorf("node %s: redis: %w", n.addr, err))
		}
		if conf["appendonly"] != "yes" || conf["appendfsync"] != "always" {
			return &fencing.InvalidError{What: "durable node", Got: n.addr + " without appendonly yes and appendfsync always", Allowed: "one that keeps what it acknowledged"}
		}
		return nil
	})
}
