package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
)

// Init initialises a new cluster: it marks every node as fit. Every node must answer, must
// be a server of its own, a master that evicts nothing, and have no counter yet; otherwise
// nothing is marked, and the error is a [*fencing.InvalidError] or says which node did not
// answer. It may be repeated until the first grant. Never call it to repair a cluster while
// a majority is fit: that is for Admit.
func (b *Backend) Init(ctx context.Context, o *InitOptions) error {
	if o == nil {
		o = &InitOptions{}
	}
	states := b.Nodes(ctx)
	if err := b.checkInit(ctx, states, o.Adopt); err != nil {
		return err
	}
	nonces := make([]string, len(states))
	for i, st := range states {
		// The run as a nonce lets Init be repeated after a half of it.
		if nonces[i] = st.run; o.Adopt {
			nonces[i] = fencing.NewGrant()
			// Nobody grants anything while the counters are levelled.
			if err := b.del(ctx, i, b.markerKey()); err != nil {
				return err
			}
		}
		if err := b.begin(ctx, i, st.run, nonces[i]); err != nil {
			return err
		}
	}
	if o.Adopt {
		if err := b.adopt(ctx, o.Progress); err != nil {
			return err
		}
	}
	for i, st := range states {
		if err := b.mark(ctx, i, st.run, nonces[i]); err != nil {
			return err
		}
	}
	return nil
}

// InitOptions tunes [Backend.Init]. The zero value is the default.
type InitOptions struct {
	// Adopt takes over what the nodes have: for a cluster of which too few nodes are fit
	// for Admit, because a majority was restarted or because MaxTTL or the number of nodes
	// is to change. No process may use it meanwhile. Init then waits for MaxTTL and gives
	// every node the highest of every counter that any of them has. What all have lost stays
	// lost: numbers may come twice; strict stores refuse them, and heal the counters.
	// Default: false: nodes that have counters are refused.
	Adopt bool
	// Progress is told what is being done. Default: nobody.
	Progress func(Progress)
}

// AdmitOptions tunes [Backend.Admit]. The zero value is the default.
type AdmitOptions struct {
	// Progress is told what is being done. Default: nobody.
	Progress func(Progress)
}

// Progress says how far Init or Admit has come.
type Progress struct {
	Doing string        // in words
	Left  time.Duration // of the waiting, told every second; 0 where it does not wait
}

func (b *Backend) checkInit(ctx context.Context, states []NodeStatus, adopt bool) error {
	runs := map[string]string{}
	for i, st := range states {
		if st.State == NodeDown {
			return fencing.AsFailed(fmt.Errorf("redlock: Init needs every node: %w", plain(st.Err)))
		}
		if other := runs[st.run]; other != "" {
			return &fencing.InvalidError{What: "node", Got: st.Addr + ", which is the server of " + other, Allowed: "independent masters, each once"}
		}
		runs[st.run] = st.Addr
		if err := b.check(ctx, i, b.o.Durable); err != nil {
			return err
		}
		names, err := b.scan(ctx, i, "", "counter")
		if err != nil {
			return err
		}
		if len(names) > 0 && !adopt {
			return &fencing.InvalidError{
				What: "node", Got: fmt.Sprintf("%s, which has granted already (it has %d counters)", st.Addr, len(names)),
				Allowed: "empty ones; to let a node back in, Admit it; to take over what the nodes have, Adopt",
			}
		}
	}
	return nil
}

// adopt levels the counters of all nodes. Afterwards nothing that was granted before can be
// confirmed.
func (b *Backend) adopt(ctx context.Context, progress func(Progress)) error {
	if err := b.waitMaxTTL(ctx, progress); err != nil {
		return err
	}
	tell(progress, "taking the highest counters of all nodes")
	var all []redisx.Call
	for i := range b.nodes {
		calls, err := b.counters(ctx, i, "any")
		if err != nil {
			return err
		}
		all = append(all, calls...)
	}
	for i := range b.nodes {
		if err := b.seed(ctx, i, all); err != nil {
			return err
		}
		if err := b.clear(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// Admit lets node i, counted from 0, out of quarantine; of a node that is fit it does
// nothing. It waits for Options.MaxTTL, until every hold that the node may have forgotten is
// over; takes the highest of every counter from at least N-Q+1 other nodes that are fit (Q
// is a majority of N), where nothing that was granted before can be confirmed from then on;
// and marks the node. If it fails the node stays in quarantine. It is for an operator, who
// has made sure that the node is what it should be.
func (b *Backend) Admit(ctx context.Context, i int, o *AdmitOptions) error {
	if i < 0 || i >= len(b.nodes) {
		return &fencing.InvalidError{What: "node", Got: strconv.Itoa(i), Allowed: "0 to " + strconv.Itoa(len(b.nodes)-1)}
	}
	if o == nil {
		o = &AdmitOptions{}
	}
	states := b.Nodes(ctx)
	st := states[i]
	switch st.State {
	case NodeOK:
		return nil
	case NodeDown:
		return fencing.AsFailed(fmt.Errorf("redlock: %w", plain(st.Err)))
	}
	for k, other := range states {
		if k != i && other.run == st.run {
			return &fencing.InvalidError{What: "node", Got: st.Addr + ", which is the server of " + other.Addr, Allowed: "independent masters, each once"}
		}
	}
	if err := b.check(ctx, i, b.o.Durable); err != nil {
		return err
	}
	// Not to wait in vain: it is looked at again afterwards.
	if err := b.enoughPeers(states, i); err != nil {
		return err
	}
	nonce := fencing.NewGrant()
	if err := b.begin(ctx, i, st.run, nonce); err != nil {
		return err
	}
	if err := b.waitMaxTTL(ctx, o.Progress); err != nil {
		return err
	}
	peers, errs := 0, error(nil)
	for p, n := range b.nodes {
		if p == i {
			continue
		}
		tell(o.Progress, "taking the counters of "+n.addr)
		calls, err := b.counters(ctx, p, "fit")
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		if err := b.seed(ctx, i, calls); err != nil {
			return err
		}
		peers++
	}
	if need := b.peers(); peers < need {
		return fencing.AsFailed(fmt.Errorf("redlock: Admit needs the counters of %d other nodes, got %d: %w", need, peers, plain(errors.Join(errors.New("too few"), errs))))
	}
	if err := b.clear(ctx, i); err != nil {
		return err
	}
	return b.mark(ctx, i, st.run, nonce)
}

// peers is how many other nodes Admit asks: so many have one in common with every majority
// that the node was part of.
func (b *Backend) peers() int { return len(b.nodes) - b.quorum + 1 }

func (b *Backend) enoughPeers(states []NodeStatus, i int) error {
	peers, errs := 0, errors.New("too few")
	for k, st := range states {
		switch {
		case k == i:
		case st.State == NodeOK:
			peers++
		case st.State == NodeQuarantine:
			errs = errors.Join(errs, fmt.Errorf("node %s: in quarantine: %s", st.Addr, st.Why))
		default:
			errs = errors.Join(errs, st.Err)
		}
	}
	if need := b.peers(); peers < need {
		return fencing.AsFailed(fmt.Errorf("redlock: Admit needs the counters of %d other nodes, %d are fit: %w", need, peers, plain(errs)))
	}
	return nil
}

// waitMaxTTL waits until every hold from before has ended, unless it was renewed by a majority.
func (b *Backend) waitMaxTTL(ctx context.Context, progress func(Progress)) error {
	end := time.Now().Add(b.o.MaxTTL + b.drift(b.o.MaxTTL))
	for {
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		if progress != nil {
			progress(Progress{Doing: "waiting until every hold from before is over", Left: left})
		}
		wait := time.NewTimer(min(left, time.Second))
		select {
		case <-ctx.Done():
			wait.Stop()
			return fencing.AsFailed(ctx.Err())
		case <-wait.C:
		}
	}
}

func tell(progress func(Progress), doing string) {
	if progress != nil {
		progress(Progress{Doing: doing})
	}
}

// clear removes the locks that a node kept from before it was put in quarantine. By its own
// clock they have ended.
func (b *Backend) clear(ctx context.Context, i int) error {
	names, err := b.scan(ctx, i, "", "lock")
	if err != nil {
		return err
	}
	for len(names) > 0 {
		part := names[:min(batch, len(names))]
		names = names[len(part):]
		keys := make([]string, len(part))
		for k, name := range part {
			keys[k] = redisx.Key(b.prefix, name, "lock")
		}
		if err := b.del(ctx, i, keys...); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) del(ctx context.Context, i int, keys ...string) error {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	if err := b.nodes[i].client.Del(ctx, keys...).Err(); err != nil {
		return fencing.AsFailed(fmt.Errorf("node %s: redis: %w", b.nodes[i].addr, err))
	}
	return nil
}

// openTime bounds a single command to a node that answers.
const openTime = 5 * time.Second

// batch is how many counters are read or written at once.
const batch = 500

// counters reads every counter of peer p, as calls that seed another node. A counter that
// begins meanwhile belongs to an attempt that the other node has no part in. With "any" the
// peer may be in quarantine, with "fit" not.
func (b *Backend) counters(ctx context.Context, p int, which string) ([]redisx.Call, error) {
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
			calls[k] = b.call(name, which)
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
		Args: []any{b.terms(), run, nonce, marker + ":" + b.terms()},
	}})[0]
	if r.Err == nil && r.Values[0] != "marked" {
		return fencing.AsFailed(fmt.Errorf("redlock: node %s was restarted, emptied or marked by somebody else meanwhile", b.nodes[i].addr))
	}
	return r.Err
}

// check refuses a node that cannot be marked: a replica, one that evicts keys, and one that
// is to be durable and is not.
func (b *Backend) check(ctx context.Context, i int, durable bool) error {
	n := b.nodes[i]
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	return redisx.CheckServers(ctx, n.client, func(info map[string]string) error {
		if err := redisx.CheckPolicy(info, "an evicted counter begins again"); err != nil {
			return err
		}
		if !durable {
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
