package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	Why     string // why it is in quarantine
	Durable bool   // its marker outlives a restart
	Err     error  // why it is down

	run string
}

// Nodes returns the state of every node, in the order in which New was given them.
func (b *Backend) Nodes(ctx context.Context) []NodeStatus {
	list := make([]NodeStatus, len(b.nodes))
	for i, r := range b.askAll(ctx, look, redisx.Call{Keys: []string{b.markerKey()}, Args: []any{b.terms()}}) {
		list[i] = NodeStatus{Addr: b.nodes[i].addr, State: NodeDown, Err: r.Err}
		switch {
		case errors.Is(r.Err, errQuarantine):
			list[i].State, list[i].Err, list[i].run = NodeQuarantine, nil, r.Values[1]
			list[i].Why = b.why(r.Values[1], r.Values[2])
		case r.Err == nil:
			list[i].State, list[i].Durable = NodeOK, strings.HasPrefix(r.Values[2], "durable:")
			list[i].run = r.Values[1]
		}
	}
	return list
}

// why says what is wrong with the marker of a node in this run.
func (b *Backend) why(run, marker string) string {
	if marker == "" {
		return "it has no marker: it is new, or was emptied"
	}
	of, terms, _ := strings.Cut(marker, ":")
	ttl, n, _ := strings.Cut(terms, ":")
	switch {
	case parse(n) != int64(len(b.nodes)):
		return fmt.Sprintf("it is marked for a cluster of %d nodes, and this process knows %d", parse(n), len(b.nodes))
	case parseMillis(ttl) != b.o.MaxTTL:
		return fmt.Sprintf("it is marked for the longest TTL %v, and this process has %v", parseMillis(ttl), b.o.MaxTTL)
	case of != run && of != "durable":
		return "it was restarted since it was marked"
	}
	return "it does not know its marker"
}

// NodeReport is what an operator wants to know of a node beyond its NodeStatus.
type NodeReport struct {
	NodeStatus
	Role     string // master or slave
	AOF      string // no, or its appendfsync: always, everysec, no fsync; ? where CONFIG is forbidden
	Policy   string // maxmemory-policy
	Locks    int    // that are held on this node
	Counters int    // resources it knows
}

// Inspect is Nodes with a closer look, which goes through all keys of every node: it is for
// operators. What could not be found out of a node that answers is empty or 0, with Err set.
func (b *Backend) Inspect(ctx context.Context) []NodeReport {
	list := make([]NodeReport, len(b.nodes))
	for i, st := range b.Nodes(ctx) {
		list[i].NodeStatus = st
		if st.State == NodeDown {
			continue
		}
		list[i].Err = b.inspect(ctx, i, &list[i])
	}
	return list
}

func (b *Backend) inspect(ctx context.Context, i int, r *NodeReport) error {
	limited, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	c := b.nodes[i].client
	info := c.InfoMap(limited)
	if err := info.Err(); err != nil {
		return fmt.Errorf("node %s: redis: %w", r.Addr, err)
	}
	r.Role, r.Policy = info.Item("Replication", "role"), info.Item("Memory", "maxmemory_policy")
	if r.AOF = "no"; info.Item("Persistence", "aof_enabled") == "1" {
		conf, err := c.ConfigGet(limited, "appendfsync").Result()
		if r.AOF = conf["appendfsync"]; err != nil || r.AOF == "" {
			r.AOF = "?"
		} else if r.AOF == "no" {
			r.AOF = "no fsync"
		}
	}
	locks, err := b.scan(ctx, i, "", "lock")
	if err != nil {
		return err
	}
	counters, err := b.scan(ctx, i, "", "counter")
	r.Locks, r.Counters = len(locks), len(counters)
	return err
}

// Warnings implements locking.Checker. It says what is unwise about the number of nodes, and
// for each node whether it is out of the quorum, or may lose keys without its marker. Of a
// restart nothing is said but for durable nodes: a node that was restarted is in quarantine.
func (b *Backend) Warnings(ctx context.Context) ([]string, error) {
	var list []string
	n := len(b.nodes)
	if n%2 == 0 {
		list = append(list, fmt.Sprintf("An even number of nodes, %d, outlives the loss of no more nodes than %d do.", n, n-1))
	}
	if n < 3 {
		list = append(list, "With fewer than 3 nodes no lock is granted while one is down.")
	}
	var errs error
	for i, st := range b.Nodes(ctx) {
		if st.State == NodeDown {
			errs = errors.Join(errs, st.Err)
			continue
		}
		if st.State == NodeQuarantine {
			list = append(list, fmt.Sprintf("Node %s is in quarantine (%s), and counts as down until it is admitted.", st.Addr, st.Why))
		}
		err := b.check(ctx, i, st.Durable)
		if errors.Is(err, fencing.ErrInvalid) {
			list = append(list, fmt.Sprintf("Node %s: %v.", st.Addr, err))
		} else {
			errs = errors.Join(errs, err)
		}
	}
	return list, errs
}
