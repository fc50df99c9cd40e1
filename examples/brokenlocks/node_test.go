package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// TestNodes: every kind of node can be killed, made to hang and restarted, and is empty and at the
// same address then.
func TestNodes(t *testing.T) {
	t.Parallel()
	start := func(real bool) func(*testing.T) Node {
		return func(t *testing.T) Node {
			t.Helper()
			s, err := newServers()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.close)
			nodes, err := s.redis(t.Context(), 1, real)
			if err != nil {
				t.Fatal(err)
			}
			return nodes[0]
		}
	}
	kinds := map[string]func(*testing.T) Node{"stand-in": start(false)}
	if _, err := exec.LookPath("redis-server"); err == nil {
		kinds["server"] = start(true)
	}
	kinds["test"] = func(t *testing.T) Node { t.Helper(); return realWorld(t, Redis).Nodes[0] }
	for name, start := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := start(t)
			c := dial(n.Addr())
			t.Cleanup(func() { _ = c.Close() })
			full := func() {
				t.Helper()
				if err := c.Set(t.Context(), "key", "value", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			silent := func(what string) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				if err := c.Get(ctx, "key").Err(); err == nil || err == redis.Nil { //nolint:errorlint // it is returned as it is
					t.Errorf("%s: it answers: %v", what, err)
				}
			}
			again := func(what string) {
				t.Helper()
				if err := n.Restart(t.Context()); err != nil {
					t.Fatalf("%s: restart: %v", what, err)
				}
				// The pool of c may still have connections of before.
				fresh := dial(n.Addr())
				defer func() { _ = fresh.Close() }()
				if err := fresh.Get(t.Context(), "key").Err(); err != redis.Nil { //nolint:errorlint // it is returned as it is
					t.Errorf("%s: after a restart: %v, want no key", what, err)
				}
			}
			full()
			again("running")
			c = dial(n.Addr())
			full()
			for what, do := range map[string]func(context.Context) error{"killed": n.Kill, "hanging": n.Hang} {
				if err := do(t.Context()); err != nil {
					t.Fatal(what, err)
				}
				silent(what)
				again(what)
			}
		})
	}
}

// TestStandInClocks: a stand-in's keys expire by themselves, and at once when its clock jumps.
func TestStandInClocks(t *testing.T) {
	t.Parallel()
	n, err := startStandIn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Kill(context.Background()) })
	c := dial(n.Addr())
	t.Cleanup(func() { _ = c.Close() })
	c.Set(t.Context(), "soon", 1, 20*time.Millisecond)
	c.Set(t.Context(), "late", 1, time.Hour)
	for c.Exists(t.Context(), "soon").Val() == 1 {
		if t.Context().Err() != nil {
			t.Fatal("it does not expire")
		}
	}
	if c.Exists(t.Context(), "late").Val() != 1 {
		t.Error("the other key is gone as well")
	}
	n.Jump(time.Hour)
	if c.Exists(t.Context(), "late").Val() != 0 {
		t.Error("its clock did not jump")
	}
}

// TestServersEnd: what close has returned from is gone, with all it wrote.
func TestServersEnd(t *testing.T) {
	t.Parallel()
	s, err := newServers()
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	if _, err := exec.LookPath("redis-server"); err == nil {
		nodes, err := s.redis(t.Context(), 2, true)
		if err != nil {
			t.Fatal(err)
		}
		if err := nodes[1].Hang(t.Context()); err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, nodes[0].Addr(), nodes[1].Addr())
	}
	if bin, ok := postgresPrograms(); ok {
		database, err := s.startPostgres(t.Context(), bin)
		if err != nil {
			t.Fatal(err)
		}
		url, err := database(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))))
	}
	s.close()
	for _, addr := range addrs {
		if knock(t.Context(), addr) == nil {
			t.Errorf("somebody still listens on %s", addr)
		}
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", s.dir, err)
	}
}
