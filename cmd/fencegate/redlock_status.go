package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/locking/redlock"
)

type redlockStatusCmd struct {
	redlockFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (redlockStatusCmd) Help() string {
	return "LOCKS and COUNTERS are what the node has, not what the cluster grants. It goes through all keys of every node. " +
		"The exit status is 0 if every node serves, 69 if one does not answer, else 1."
}

// redlockNode is a node in JSON.
type redlockNode struct {
	Addr     string `json:"addr"`
	State    string `json:"state"`
	Why      string `json:"why,omitempty"`
	Durable  bool   `json:"durable"`
	Role     string `json:"role,omitempty"`
	AOF      string `json:"aof,omitempty"`
	Policy   string `json:"policy,omitempty"`
	Locks    int    `json:"locks"`
	Counters int    `json:"counters"`
}

// redlockReport is the status in JSON.
type redlockReport struct {
	Majority int           `json:"majority"`
	Serving  int           `json:"serving"`
	Nodes    []redlockNode `json:"nodes"`
	Next     []string      `json:"next"`
}

// Run implements the command.
func (c *redlockStatusCmd) Run(ctx context.Context, std stdio) error {
	return c.with(false, func(b *redlock.Backend) error {
		rep, down := newRedlockReport(b.Inspect(ctx))
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.Output == "json" {
			if err := writeJSON(std.out, rep); err != nil {
				return err
			}
		} else if err := rep.table(std.out); err != nil {
			return err
		}
		if len(rep.Nodes)%2 == 0 && c.Output == "text" {
			fmt.Fprintf(std.err, "warning: an even number of nodes, %d, outlives the loss of no more nodes than %d do\n", len(rep.Nodes), len(rep.Nodes)-1)
		}
		var err error
		if n := len(rep.Nodes); rep.Serving < n {
			err = fmt.Errorf("%d of %d nodes serve, a majority is %d", rep.Serving, n, rep.Majority)
		}
		if down > 0 {
			err = unavailableError{err}
		}
		return err
	})
}

func newRedlockReport(nodes []redlock.NodeReport) (rep redlockReport, down int) {
	rep.Majority = len(nodes)/2 + 1
	rep.Next = []string{}
	fresh := true
	for _, n := range nodes {
		one := redlockNode{
			Addr: n.Addr, State: "serving", Why: n.Why, Durable: n.Durable,
			Role: n.Role, AOF: n.AOF, Policy: n.Policy, Locks: n.Locks, Counters: n.Counters,
		}
		switch n.State {
		case redlock.NodeOK:
			rep.Serving++
			if n.Err != nil {
				one.Why = n.Err.Error()
			}
		case redlock.NodeQuarantine:
			one.State = "quarantine"
		case redlock.NodeDown:
			one.State, one.Why = "unreachable", "it does not answer"
			if _, answered := errors.AsType[redis.Error](n.Err); answered {
				one.Why = "it refuses: " + n.Err.Error()
			}
			down++
		}
		fresh = fresh && (n.State != redlock.NodeOK && n.Counters == 0)
		rep.Nodes = append(rep.Nodes, one)
	}
	for _, n := range rep.Nodes {
		if n.Role == "slave" {
			rep.Next = append(rep.Next, n.Addr+": it is a replica; nodes are masters: REPLICAOF NO ONE")
		}
		if n.Policy != "" && n.Policy != "noeviction" {
			rep.Next = append(rep.Next, n.Addr+": it evicts keys ("+n.Policy+"); set maxmemory-policy noeviction")
		}
		if n.State == "unreachable" {
			rep.Next = append(rep.Next, n.Addr+": "+n.Why+"; start it, and look again")
		}
	}
	quorum, peers := rep.Majority, len(nodes)-rep.Majority+1
	switch {
	case rep.Serving == len(nodes):
	case fresh && down == 0:
		rep.Next = append(rep.Next, "no node is initialised: fencegate redlock init")
	case rep.Serving >= peers:
		for _, n := range rep.Nodes {
			if n.State == "quarantine" {
				rep.Next = append(rep.Next, n.Addr+": "+n.Why+"; let it back in: fencegate redlock admit "+n.Addr)
			}
		}
	case rep.Serving+down >= max(quorum, peers):
		rep.Next = append(rep.Next, fmt.Sprintf("too few nodes serve to admit another, %d are needed: start those that do not answer first", peers))
	default:
		for _, n := range rep.Nodes {
			if n.State == "quarantine" {
				rep.Next = append(rep.Next, n.Addr+": "+n.Why)
			}
		}
		rep.Next = append(rep.Next, "if this process knows the right nodes and --redlock-max-ttl, too few are left to admit others: stop every process that uses them, then fencegate redlock init --adopt")
	}
	return rep, down
}

func (r redlockReport) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSTATE\tROLE\tAOF\tPOLICY\tLOCKS\tCOUNTERS")
	for _, n := range r.Nodes {
		state := n.State
		if n.Durable {
			state += " (durable)"
		}
		if n.State == "unreachable" {
			fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\t-\n", n.Addr, state)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\n", n.Addr, state, n.Role, n.AOF, n.Policy, n.Locks, n.Counters)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Next) == 0 {
		_, err := fmt.Fprintln(out, "\nEvery node serves: there is nothing to do.")
		return err
	}
	fmt.Fprintln(out, "\nWhat to do next:")
	for _, line := range r.Next {
		if _, err := fmt.Fprintln(out, "  "+line); err != nil {
			return err
		}
	}
	return nil
}
