package rig_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/storage"
)

// slack is what something that is sure to come may take on a busy machine.
const slack = 60 * time.Second

// told is what clients have written.
type told struct {
	mu    sync.Mutex
	lines map[int][]history.Line
}

func (l *told) add(process int, line history.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		l.lines = map[int][]history.Line{}
	}
	l.lines[process] = append(l.lines[process], line)
}

func (l *told) count(process int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines[process])
}

func (l *told) last(process int) history.Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.lines[process]
	return list[len(list)-1]
}

// build builds a rig that ends with the test.
func build(t *testing.T, s rig.Spec) (*rig.Rig, *told) {
	t.Helper()
	if s.Gateways > 0 {
		s.Server = server(t)
	}
	s.Client.TTL = 3 * time.Second // of the parent's own leases: a busy machine must not lose them
	lines := &told{}
	began := time.Now()
	r, err := rig.Build(t.Context(), s, lines.add)
	var cannot *rig.CannotError
	if errors.As(err, &cannot) {
		testenv.SharedRedis(t) // skips or fails where servers are missing
		testenv.SharedPostgres(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("built in %v", time.Since(began))
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, lines
}

func check(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func rigs() map[string]rig.Spec {
	return map[string]rig.Spec{
		"redis+postgres":              {Lock: "redis", Store: "postgres", Links: true},
		"postgres+postgres":           {Lock: "postgres", Store: "postgres", Links: true},
		"redis+redis":                 {Lock: "redis", Store: "redis", Links: true},
		"redlock+postgres":            {Lock: "redlock", Store: "postgres", Links: true},
		"rowlock+postgres":            {Lock: "rowlock", Store: "postgres"},
		"postgres+redis":              {Lock: "postgres", Store: "redis", Volatile: true},
		"memory+sqlite":               {Lock: "memory", Store: "sqlite", Gateways: 1, GatewayLinks: true},
		"redis+postgres, gateways":    {Lock: "redis", Store: "postgres", Gateways: 2, Links: true},
		"redlock+redis, gateways":     {Lock: "redlock", Store: "redis", Gateways: 2, Nodes: 3},
		"postgres+postgres, gateways": {Lock: "postgres", Store: "postgres", Gateways: 2, Links: true, GatewayLinks: true},
	}
}

// TestRigs takes each rig through its life.
func TestRigs(t *testing.T) {
	t.Parallel()
	for name, spec := range rigs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec.Processes = 3
			r, lines := build(t, spec)
			ctx := t.Context()
			check(t, "start the clients", r.StartClients(ctx))
			use(t, r)
			liveAndDie(t, r, lines)
			for i, g := range r.Gateways {
				check(t, "pause a gateway", g.Pause())
				check(t, "resume a gateway", g.Resume())
				if i == 0 {
					check(t, "stop a gateway", g.Stop(ctx))
				} else {
					check(t, "kill a gateway", g.Kill())
				}
				if g.Pid() != 0 {
					t.Error("a gateway that has ended has a process id")
				}
				check(t, "start a gateway again", g.Start(ctx))
			}
			use(t, r)
			check(t, "stop the clients", r.StopClients(ctx))
			for _, p := range r.Clients {
				if !lines.last(p.ID()).Done {
					t.Errorf("the last line of process %d is %+v, want that it is done", p.ID(), lines.last(p.ID()))
				}
				if n := p.Holding(); n != 0 {
					t.Errorf("process %d holds %d leases after its release", p.ID(), n)
				}
			}
			leaks, err := r.Leaks(ctx)
			if err != nil || len(leaks) > 0 {
				t.Errorf("leaks %+v, %v", leaks, err)
			}
			check(t, "close", r.Close())
			check(t, "close again", r.Close())
		})
	}
}

// use takes a lock, writes and reads by the parent's own access.
func use(t *testing.T, r *rig.Rig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), slack)
	defer cancel()
	a, err := r.Access(ctx)
	check(t, "access", err)
	resource := testenv.Unique(t, r.Spec.Client.Prefix+"own")
	var lease interface {
		Token() fencing.Token
		Release(context.Context) error
	}
	testenv.Eventually(t, slack, "a lease", func() bool {
		lease, err = a.Locker.Acquire(ctx, resource)
		if err != nil {
			t.Logf("acquire: %v", err)
		}
		return err == nil
	})
	_, err = a.Store.Commit(ctx, storage.Commit{
		Tokens: []fencing.Token{lease.Token()}, Ops: []storage.Op{storage.Put(resource, "value", []byte("1"))},
	})
	check(t, "commit", err)
	rec, err := a.Store.GetFenced(ctx, lease.Token(), "value")
	if err != nil || string(rec.Value) != "1" {
		t.Fatalf("read %q, %v", rec.Value, err)
	}
	check(t, "release", lease.Release(ctx))
	if (a.Pool != nil) != (r.Spec.Store == "postgres") {
		t.Errorf("a pool with store %s: %v", r.Spec.Store, a.Pool != nil)
	}
	if (a.Locked != nil) != (len(r.Gateways) > 0) {
		t.Errorf("one-call commits with %d gateways: %v", len(r.Gateways), a.Locked != nil)
	}
}

// liveAndDie pauses, kills and respawns clients.
func liveAndDie(t *testing.T, r *rig.Rig, lines *told) {
	t.Helper()
	ctx := t.Context()
	p := r.Clients[0]
	testenv.Eventually(t, slack, "a lease", func() bool { return p.Holding() == 1 })
	check(t, "pause", p.Pause())
	// What it wrote before is on its way.
	before := -1
	testenv.Eventually(t, slack, "silence of a client that is paused", func() bool {
		now := lines.count(p.ID())
		quiet := now == before
		before = now
		if quiet {
			return true
		}
		time.Sleep(100 * time.Millisecond)
		return false
	})
	check(t, "resume", p.Resume())
	testenv.Eventually(t, slack, "word of a client that was resumed", func() bool { return lines.count(p.ID()) > before })

	check(t, "pause", p.Pause())
	if err := r.Respawn(ctx, 0); err == nil {
		t.Error("a client was respawned beside one that runs")
	}
	check(t, "kill one that is paused", p.Kill())
	count := lines.count(p.ID())
	if p.Pid() != 0 || p.Err() != nil {
		t.Errorf("a client that was killed: process %d, %v", p.Pid(), p.Err())
	}
	check(t, "kill again", p.Kill())
	check(t, "respawn", r.Respawn(ctx, 0))
	q := r.Clients[0]
	if q == p || q.ID() != r.Spec.Processes || q.Config.Seed == p.Config.Seed || q.Pid() == 0 {
		t.Errorf("the new client has number %d, seed %d, process %d", q.ID(), q.Config.Seed, q.Pid())
	}
	testenv.Eventually(t, slack, "word of the new client", func() bool { return q.Holding() == 1 })
	if lines.count(p.ID()) != count {
		t.Error("a killed client has written on")
	}
	var ids []int
	for _, p := range r.Clients {
		ids = append(ids, p.ID())
		if err := p.Err(); err != nil {
			t.Error(err)
		}
	}
	if slices.Sort(ids); fmt.Sprint(ids) != "[1 2 3]" {
		t.Errorf("the clients are %v", ids)
	}
}

// TestClients shows that nothing that is wrong with a client is passed over.
func TestClients(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"late":    "does not finish, and was killed",
		"crash":   "the reason for its end",
		"garbage": "panic: not JSON",
		"mute":    "is not ready",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := rig.Spec{Lock: "redis", Store: "redis", Volatile: true, Processes: 2}
			s.Client.Workloads = []string{how}
			r, _ := build(t, s)
			// Who never comes is not waited for; who does may take his time on a busy machine.
			short := func(comes bool) context.Context {
				d := 2 * time.Second
				if comes {
					d = slack
				}
				ctx, cancel := context.WithTimeout(t.Context(), d)
				t.Cleanup(cancel)
				return ctx
			}
			err := r.StartClients(short(how != "mute"))
			if err == nil {
				if how == "crash" {
					testenv.Eventually(t, slack, "its end", func() bool { return r.Clients[1].Err() != nil })
				}
				err = r.StopClients(short(how != "late"))
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			for _, p := range r.Clients {
				if p.Pid() != 0 {
					t.Errorf("client process %d still runs", p.ID())
				}
			}
		})
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]rig.Spec{
		`lock "": want one of`:        {Store: "redis"},
		`store "x": want one of`:      {Lock: "redis", Store: "x"},
		"0 gateways":                  {Lock: "memory", Store: "redis"},
		"2 gateways":                  {Lock: "redis", Store: "sqlite", Gateways: 2},
		"needs the fencegate binary":  {Lock: "redis", Store: "redis", Gateways: 1},
		"lock rowlock: the gateway":   {Lock: "rowlock", Store: "postgres", Gateways: 1, Server: "x"},
		"a standby of Redis is async": {Lock: "redis", Store: "redis", LockStandby: rig.Sync},
		"redlock has no standby":      {Lock: "redlock", Store: "redis", LockStandby: rig.Async},
		`standby "often"`:             {Lock: "redis", Store: "redis", LockStandby: "often"},
		"nothing is in Redis":         {Lock: "postgres", Store: "postgres", RedisURL: "redis://127.0.0.1:1"},
		"nothing is in Postgres":      {Lock: "redis", Store: "redis", PostgresURL: "postgres://127.0.0.1:1"},
		"not the run's own":           {Lock: "redis", Store: "redis", LockStandby: rig.Async, RedisURL: "redis://127.0.0.1:1"},
		"the Redis URL: want":         {Lock: "redis", Store: "redis", RedisURL: "http://127.0.0.1:1"},
		"the Postgres URL: want":      {Lock: "postgres", Store: "postgres", PostgresURL: "host=x"},
		"a small disk is for a store": {Lock: "redis", Store: "redis", SmallDisk: 1 << 20, RedisURL: "redis://127.0.0.1:1"},
		"1 nodes of redlock: want 3":  {Lock: "redlock", Store: "redis", Nodes: 1},
		"connection refused":          {Lock: "redis", Store: "redis", RedisURL: "redis://127.0.0.1:1"},
	} {
		r, err := rig.Build(t.Context(), s, nil)
		if err == nil {
			_ = r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
