package redlock_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redlock"
)

// config sets a setting of node i.
func (c *cluster) config(t *testing.T, i int, name, value string) {
	t.Helper()
	d := connect(c.servers[i])
	defer d.Close()
	if err := d.ConfigSet(t.Context(), name, value).Err(); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) follow(t *testing.T, i int, host, port string) {
	t.Helper()
	d := connect(c.servers[i])
	defer d.Close()
	if err := d.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
}

func wantInvalid(t *testing.T, what string, err error, word string) {
	t.Helper()
	if !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), word) {
		t.Errorf("%s: got %v, want an *InvalidError that says %q", what, err, word)
	}
}

// TestUnfitNodesAreRefused: Init and Admit refuse a replica, a server that evicts keys, and a
// server that is there under two names.
func TestUnfitNodesAreRefused(t *testing.T) {
	t.Parallel()
	const maxTTL = 200 * time.Millisecond
	c := start(t, 3, nil)
	o := redlock.Options{NodeTimeout: patient, MaxTTL: maxTTL}
	b := c.backend(t, o)
	refused := func(name string, call func() error) {
		t.Helper()
		c.config(t, 1, "maxmemory-policy", "allkeys-lru")
		wantInvalid(t, name+" with an evicting node", call(), "maxmemory-policy")
		c.config(t, 1, "maxmemory-policy", "noeviction")
		host, port, err := net.SplitHostPort(c.servers[0].Addr())
		if err != nil {
			t.Fatal(err)
		}
		c.follow(t, 1, host, port)
		wantInvalid(t, name+" with a replica", call(), "replica")
		c.follow(t, 1, "no", "one")
	}
	refused("Init", func() error { return b.Init(t.Context(), nil) })
	wantState(t, b, quarantine, quarantine, quarantine)

	var clients []redis.UniversalClient
	_, port, _ := net.SplitHostPort(c.servers[0].Addr())
	for _, addr := range []string{c.servers[0].Addr(), c.servers[1].Addr(), "localhost:" + port} {
		client := dial(addr)
		t.Cleanup(func() { _ = client.Close() })
		clients = append(clients, client)
	}
	twice, err := redlock.New(clients, &o)
	if err != nil {
		t.Fatal(err)
	}
	wantInvalid(t, "Init with a server by two names", twice.Init(t.Context(), nil), "which is the server of")

	if err := b.Init(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	c.servers[1].RestartEmpty()
	testenv.Eventually(t, 30*time.Second, "the node answers", func() bool { return b.Nodes(t.Context())[1].State == quarantine })
	refused("Admit", func() error { return b.Admit(t.Context(), 1, nil) })
	wantState(t, b, ok, quarantine, ok)
	if err := b.Admit(t.Context(), 1, nil); err != nil {
		t.Error(err)
	}
}

// TestProcessesThatDisagree: the marker tells a process that has another longest TTL, or knows
// another number of nodes, and would take less than a majority for one.
func TestProcessesThatDisagree(t *testing.T) {
	t.Parallel()
	c := start(t, 5, nil)
	c.ready(t, redlock.Options{NodeTimeout: patient})
	few := &cluster{servers: c.servers[:3]}
	for word, b := range map[string]*redlock.Backend{
		"longest TTL 1m0s, and this process has 2m0s":    c.backend(t, redlock.Options{NodeTimeout: patient, MaxTTL: 2 * time.Minute}),
		"a cluster of 5 nodes, and this process knows 3": few.backend(t, redlock.Options{NodeTimeout: patient}),
	} {
		for _, st := range b.Nodes(t.Context()) {
			if st.State != quarantine || !strings.Contains(st.Why, word) {
				t.Errorf("%s is %s (%s), want in quarantine: %s", st.Addr, st.State, st.Why, word)
			}
		}
		if _, err := b.TryAcquire(t.Context(), request("r")); fencing.OutcomeOf(err) != fencing.Failed || !strings.Contains(err.Error(), word) {
			t.Errorf("got %v, want failed: %s", err, word)
		}
	}
}

// TestAdopt: a cluster of which every node was restarted, and one emptied, is taken over with
// what the nodes have, after the longest TTL. Only one of them knows the highest number.
func TestAdopt(t *testing.T) {
	t.Parallel()
	const maxTTL = 6 * time.Second // of which the grant takes a NodeTimeout or two
	c := start(t, 3, &testenv.RedisOptions{AppendOnly: true})
	o := redlock.Options{NodeTimeout: patient, MaxTTL: maxTTL}
	b := c.ready(t, o)
	r := request("r")
	r.TTL, r.Floor = maxTTL, 41
	c.servers[2].Pause()
	fast := c.backend(t, redlock.Options{NodeTimeout: 1500 * time.Millisecond, MaxTTL: maxTTL})
	must(t, fast, r)
	c.servers[2].Resume()
	c.servers[0].Restart()
	c.servers[1].RestartEmpty()
	c.servers[2].Restart()
	testenv.Eventually(t, 20*time.Second, "every node is in quarantine", func() bool {
		for i, st := range b.Nodes(t.Context()) {
			if st.State != quarantine {
				return false
			}
			if want := []string{"restarted", "emptied", "restarted"}[i]; !strings.Contains(st.Why, want) {
				t.Errorf("%s is in quarantine: %s, want that it was %s", st.Addr, st.Why, want)
			}
		}
		return true
	})
	if err := b.Admit(t.Context(), 0, nil); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("Admit without peers = %v, want failed", err)
	}
	wantInvalid(t, "Init", b.Init(t.Context(), nil), "Adopt")
	wantState(t, b, quarantine, quarantine, quarantine)

	var doing []string
	began := time.Now()
	if err := b.Init(t.Context(), &redlock.InitOptions{Adopt: true, Progress: func(p redlock.Progress) { doing = append(doing, p.Doing) }}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < maxTTL || len(doing) < 2 {
		t.Errorf("it took %v and told %q, want the longest TTL", took, doing)
	}
	wantState(t, b, ok, ok, ok)
	c.servers[0].Kill()
	r.Grant, r.Floor = fencing.NewGrant(), 0
	if h := must(t, b, r); h.Token.Number != 43 {
		t.Errorf("got %v, want 43, although the node that knew 42 is dead", h.Token)
	}
}

// TestAdmitClearsOldLocks: what a node kept through its quarantine does not keep others out,
// whatever its clock says.
func TestAdmitClearsOldLocks(t *testing.T) {
	t.Parallel()
	const maxTTL = 300 * time.Millisecond
	c := start(t, 3, &testenv.RedisOptions{AppendOnly: true})
	b := c.ready(t, redlock.Options{NodeTimeout: patient, MaxTTL: maxTTL})
	d := connect(c.servers[0])
	defer d.Close()
	testenv.Eventually(t, 30*time.Second, "a hold is there for long enough to be prolonged on a node", func() bool {
		r := request("r")
		r.TTL = maxTTL
		_, err := b.TryAcquire(t.Context(), r)
		return err == nil && d.PExpire(t.Context(), lock("r"), time.Hour).Val()
	})
	c.servers[0].Restart()
	testenv.Eventually(t, 30*time.Second, "the node answers", func() bool { return b.Nodes(t.Context())[0].State == quarantine })
	if n := d.Exists(t.Context(), lock("r")).Val(); n != 1 {
		t.Fatalf("the node has %d locks, want one", n)
	}
	if err := b.Admit(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	if n := d.Exists(t.Context(), lock("r")).Val(); n != 0 {
		t.Errorf("the node has %d locks, want none", n)
	}
}

// TestInterruptedAdmit: the node stays in quarantine, and can be admitted later.
func TestInterruptedAdmit(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	b := c.ready(t, redlock.Options{NodeTimeout: patient})
	c.servers[0].RestartEmpty()
	testenv.Eventually(t, 30*time.Second, "the node answers", func() bool { return b.Nodes(t.Context())[0].State == quarantine })
	ctx, cancel := context.WithCancel(t.Context())
	var left time.Duration
	err := b.Admit(ctx, 0, &redlock.AdmitOptions{Progress: func(p redlock.Progress) { left = p.Left; cancel() }})
	if !errors.Is(err, context.Canceled) || left < 50*time.Second {
		t.Errorf("got %v, with %v left, want canceled early in a minute", err, left)
	}
	wantState(t, b, quarantine, ok, ok)
}

// TestInspectAndWarnings: what an operator is told.
func TestInspectAndWarnings(t *testing.T) {
	t.Parallel()
	c := start(t, 4, nil)
	b := c.ready(t, redlock.Options{NodeTimeout: 3 * time.Second})
	must(t, b, request("r"))
	release(t, b, must(t, b, request("s")).Token)
	c.servers[1].RestartEmpty()
	c.config(t, 2, "maxmemory-policy", "allkeys-random")
	testenv.Eventually(t, 30*time.Second, "the node answers", func() bool { return b.Nodes(t.Context())[1].State == quarantine })
	list, err := b.Warnings(t.Context())
	if text := strings.Join(list, "\n"); err != nil || len(list) != 3 ||
		!strings.Contains(text, "even number") || !strings.Contains(text, "in quarantine") || !strings.Contains(text, "allkeys-random") {
		t.Errorf("got %q, %v", list, err)
	}
	c.servers[3].Kill()
	if list, err = b.Warnings(t.Context()); err == nil || len(list) != 3 {
		t.Errorf("with a dead node: got %q, %v", list, err)
	}
	nodes := b.Inspect(t.Context())
	for i, want := range []redlock.NodeReport{
		{Role: "master", AOF: "no", Policy: "noeviction", Locks: 1, Counters: 2},
		{Role: "master", AOF: "no", Policy: "noeviction"},
		{Role: "master", AOF: "no", Policy: "allkeys-random", Locks: 1, Counters: 2},
		{},
	} {
		got := nodes[i]
		if got.Role != want.Role || got.AOF != want.AOF || got.Policy != want.Policy || got.Locks != want.Locks || got.Counters != want.Counters {
			t.Errorf("node %d: got %+v, want %+v", i, got, want)
		}
	}
	if nodes[3].State != down || nodes[3].Err == nil {
		t.Errorf("the dead node: got %+v", nodes[3])
	}
}

// TestNothingIsSentBeyondMaxTTL: a TTL that Admit would not outwait is refused before any
// node is asked.
func TestNothingIsSentBeyondMaxTTL(t *testing.T) {
	t.Parallel()
	var clients []redis.UniversalClient
	for range 3 {
		p := newProxy(t, "127.0.0.1:1")
		p.set(func(kind string) fate {
			t.Errorf("a %s was sent", kind)
			return lose
		})
		client := dial(p.listen.Addr().String())
		t.Cleanup(func() { _ = client.Close() })
		clients = append(clients, client)
	}
	b, err := redlock.New(clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := request("r")
	r.TTL = 5 * time.Minute // within locking.MaxTTL
	_, err = b.TryAcquire(t.Context(), r)
	wantInvalid(t, "TryAcquire", err, "up to the option MaxTTL, 1m0s")
	_, err = b.Join(t.Context(), r, func() {})
	wantInvalid(t, "Join", err, "up to the option MaxTTL, 1m0s")
	tok := fencing.Token{Resource: "r", Number: 1, Grant: r.Grant}
	wantInvalid(t, "Renew", b.Renew(t.Context(), r.TTL, []fencing.Token{tok})[0], "up to the option MaxTTL, 1m0s")

	_, err = redlock.New(clients, &redlock.Options{MaxTTL: locking.MaxTTL + time.Hour})
	wantInvalid(t, "New", err, "MaxTTL")
}
