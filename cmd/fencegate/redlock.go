package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/term"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redlock"
)

// redlockFlags name the nodes of a redlock cluster, and what all its processes must agree on.
type redlockFlags struct {
	RedlockURLs     []string      `name:"redlock-urls" placeholder:"URL" env:"FENCEGATE_REDLOCK_URLS" help:"redis://HOST:PORT/DB of every node of a redlock cluster, separated by commas."`
	RedlockMaxTTL   time.Duration `name:"redlock-max-ttl" default:"1m" env:"FENCEGATE_REDLOCK_MAX_TTL" help:"The longest lease time on redlock, the same for every process of the cluster (default: ${default})."`
	RedlockFewNodes bool          `name:"redlock-few-nodes" env:"FENCEGATE_REDLOCK_FEW_NODES" help:"Allow one or two nodes, of which none may fail."`
}

// open connects to the nodes, of which none needs to answer.
func (f redlockFlags) open(o redlock.Options) (_ *redlock.Backend, done func() error, err error) {
	var clients []redis.UniversalClient
	done = func() error {
		var err error
		for _, c := range clients {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	if len(f.RedlockURLs) == 0 {
		return nil, done, usageError{errors.New("--redlock-urls is needed for redlock")}
	}
	for _, raw := range f.RedlockURLs {
		client, err := newRedis("--redlock-urls", strings.TrimSpace(raw))
		if err != nil {
			return nil, nil, errors.Join(err, done())
		}
		clients = append(clients, client)
	}
	o.MaxTTL, o.FewNodes = f.RedlockMaxTTL, f.RedlockFewNodes
	b, err := redlock.New(clients, &o)
	if err != nil {
		return nil, nil, errors.Join(usageError{fmt.Errorf("redlock: %w", err)}, done())
	}
	return b, done, nil
}

// redlock opens the lock on several nodes, of which a majority must serve.
func (f backendFlags) redlock(ctx context.Context, o *opened) (locking.Backend, error) {
	b, done, err := f.redlockFlags.open(redlock.Options{NodeTimeout: f.RedlockNodeTimeout})
	if err != nil {
		return nil, err
	}
	o.closers = append(o.closers, done)
	o.lockServes = func(ctx context.Context) error { return majority(b.Nodes(ctx)) }
	nodes := b.Nodes(ctx)
	for range 3 { // the first contact includes the connection, and may take longer than a call may
		if slices.ContainsFunc(nodes, func(n redlock.NodeStatus) bool { return n.State == redlock.NodeDown }) {
			nodes = b.Nodes(ctx)
		}
	}
	return b, majority(nodes)
}

// majority is nil if so many nodes serve that locks can be granted.
func majority(nodes []redlock.NodeStatus) error {
	serving, down := 0, 0
	var errs error
	for _, n := range nodes {
		switch n.State {
		case redlock.NodeOK:
			serving++
		case redlock.NodeDown:
			down++
			errs = errors.Join(errs, n.Err)
		case redlock.NodeQuarantine:
			errs = errors.Join(errs, fmt.Errorf("node %s is in quarantine: %s", n.Addr, n.Why))
		}
	}
	if serving > len(nodes)/2 {
		return nil
	}
	err := fmt.Errorf("%d of %d nodes serve, see fencegate redlock status: %s", serving, len(nodes), strings.ReplaceAll(errs.Error(), "\n", "; "))
	if serving+down > len(nodes)/2 {
		return unavailableError{err}
	}
	return err
}

// redlockCmd is for those who look after a redlock cluster.
type redlockCmd struct {
	Init   redlockInitCmd   `cmd:"" help:"Initialise a new cluster, once."`
	Status redlockStatusCmd `cmd:"" help:"Show what every node is, and what to do next."`
	Admit  redlockAdmitCmd  `cmd:"" help:"Let a node out of quarantine."`
}

// Help implements kong.HelpProvider.
func (redlockCmd) Help() string {
	return "A redlock cluster is several Redis masters, none a replica of another; a lock is held while a majority has it. " +
		"init leaves a marker on each. A node whose marker is missing, or is of an earlier run of its server, has forgotten what it granted, or may have: " +
		"it is in quarantine, and counts as down, until admit lets it back in."
}

// operatorTimeout is how long an operator's command waits for a node.
const operatorTimeout = 2 * time.Second

// with opens the cluster for one command.
func (f redlockFlags) with(durable bool, fn func(*redlock.Backend) error) error {
	redis.SetLogger(silent{})
	b, done, err := f.open(redlock.Options{NodeTimeout: operatorTimeout, Durable: durable})
	if err != nil {
		return err
	}
	return errors.Join(fn(b), done())
}

type redlockInitCmd struct {
	redlockFlags
	Durable bool `env:"FENCEGATE_REDLOCK_DURABLE" help:"Nodes may be restarted: each must have appendonly yes, appendfsync always and no replica."`
	Adopt   bool `env:"FENCEGATE_REDLOCK_ADOPT" help:"Take over nodes that have granted before: after the longest lease time every counter is the highest of all nodes. Stop every process that uses them first."`
}

// Help implements kong.HelpProvider.
func (redlockInitCmd) Help() string {
	return "Every node must answer. Nodes that have granted before are refused: to let single nodes back in there is admit. " +
		"--adopt is for a cluster of which too few nodes are left for that, because a majority was restarted or emptied, " +
		"or for which the longest lease time or the number of nodes is to change. What all nodes have forgotten stays forgotten: numbers may then come twice, and the stores refuse them."
}

// Run implements the command.
func (c *redlockInitCmd) Run(ctx context.Context, std stdio) error {
	return c.with(c.Durable, func(b *redlock.Backend) error {
		nodes := b.Inspect(ctx)
		serving := 0
		for _, n := range nodes {
			if n.State == redlock.NodeDown {
				return unavailableError{fmt.Errorf("nothing was changed: every node must answer: %w", n.Err)}
			}
			if n.State == redlock.NodeOK {
				serving++
			}
		}
		if serving == len(nodes) {
			return errors.New("nothing was changed: the cluster is initialised already, and every node serves")
		}
		for _, n := range nodes {
			if n.Counters > 0 && !c.Adopt {
				return fmt.Errorf("nothing was changed: %s has granted already, it has %d counters: see fencegate redlock status; "+
					"if it is right to take over what the nodes have, add --adopt", n.Addr, n.Counters)
			}
		}
		if err := b.Init(ctx, &redlock.InitOptions{Adopt: c.Adopt, Progress: progress(std.err)}); err != nil {
			return err
		}
		fmt.Fprintf(std.err, "initialised: %d nodes, a majority is %d, the longest lease time is %v\n", len(nodes), len(nodes)/2+1, c.RedlockMaxTTL)
		return warn(ctx, std, b)
	})
}

// warn says what is unwise about the cluster.
func warn(ctx context.Context, std stdio, b *redlock.Backend) error {
	list, err := b.Warnings(ctx)
	for _, w := range list {
		fmt.Fprintln(std.err, "warning:", w)
	}
	return err
}

type redlockAdmitCmd struct {
	redlockFlags
	Node    string `arg:"" help:"HOST:PORT of the node, as status shows it."`
	Durable bool   `env:"FENCEGATE_REDLOCK_DURABLE" help:"The node may be restarted: it must have appendonly yes, appendfsync always and no replica."`
}

// Help implements kong.HelpProvider.
func (redlockAdmitCmd) Help() string {
	return "Make sure first that the node is what it should be. Then this waits for the longest lease time, until every hold that the node may have forgotten is over, " +
		"takes the highest of every counter from enough other nodes, and marks the node. It can be interrupted: the node stays in quarantine."
}

// Run implements the command.
func (c *redlockAdmitCmd) Run(ctx context.Context, std stdio) error {
	return c.with(c.Durable, func(b *redlock.Backend) error {
		var addrs []string
		at, down := -1, 0
		nodes := b.Nodes(ctx)
		for i, n := range nodes {
			addrs = append(addrs, n.Addr)
			if n.State == redlock.NodeDown {
				down++
			}
			if n.Addr == c.Node {
				at = i
			}
		}
		if at < 0 {
			return usageError{fmt.Errorf("%s is no node of --redlock-urls: want one of %s", c.Node, strings.Join(addrs, ", "))}
		}
		if nodes[at].State == redlock.NodeOK {
			fmt.Fprintf(std.err, "nothing to do: %s serves\n", c.Node)
			return nil
		}
		err := b.Admit(ctx, at, &redlock.AdmitOptions{Progress: progress(std.err)})
		if errors.Is(err, fencing.ErrFailed) && down > 0 {
			return unavailableError{err}
		}
		if err == nil {
			fmt.Fprintf(std.err, "admitted: %s serves\n", c.Node)
		}
		return err
	})
}

// progress tells w what Init or Admit does. What is left is told every second on a terminal,
// and every ten elsewhere.
func progress(w io.Writer) func(redlock.Progress) {
	f, ok := w.(*os.File)
	live := ok && term.IsTerminal(int(f.Fd()))
	last, told := "", time.Duration(0)
	return func(p redlock.Progress) {
		left := p.Left.Round(time.Second)
		switch {
		case p.Doing == last && live:
			fmt.Fprintf(w, "\r%s: %v left   ", p.Doing, left)
			if left <= time.Second {
				fmt.Fprintln(w)
			}
		case p.Doing == last && told-p.Left < 10*time.Second:
			return
		case p.Left > 0:
			fmt.Fprintf(w, "%s: %v left", p.Doing, p.Left.Round(100*time.Millisecond))
			if !live || left <= time.Second {
				fmt.Fprintln(w)
			}
		default:
			fmt.Fprintln(w, p.Doing)
		}
		last, told = p.Doing, p.Left
	}
}
