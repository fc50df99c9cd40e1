package rig_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/locking"
)

// TestLeaks leaves one thing of each kind in each server that can have it.
func TestLeaks(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]rig.Spec{
		"redis+postgres":   {Lock: "redis", Store: "postgres"},
		"postgres+redis":   {Lock: "postgres", Store: "redis"},
		"rowlock+postgres": {Lock: "rowlock", Store: "postgres"},
		"redlock+postgres": {Lock: "redlock", Store: "postgres", Nodes: 3},
		"memory+sqlite":    {Lock: "memory", Store: "sqlite", Gateways: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := build(t, s)
			if leaks, err := r.Leaks(t.Context()); err != nil || len(leaks) > 0 {
				t.Fatalf("leaks %+v, %v before anything was left", leaks, err)
			}
			want := map[string]int{s.Lock + " locks": 1}
			leave(t, r, want)
			leaks, err := r.Leaks(t.Context())
			check(t, "look for leaks", err)
			got := map[string]int{}
			for _, l := range leaks {
				got[l.Where+" "+l.What] = l.Count
				if l.Text == "" {
					t.Errorf("of %s in %s it says nothing", l.What, l.Where)
				}
			}
			for what, n := range want {
				if got[what] != n {
					t.Errorf("%s: %d, want %d: %+v", what, got[what], n, leaks)
				}
			}
			if len(got) != len(want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// leave leaves a lock, somebody who waits for it, and a connection to each server.
func leave(t *testing.T, r *rig.Rig, want map[string]int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a, err := r.Access(ctx)
	check(t, "access", err)
	resource := testenv.Unique(t, r.Spec.Client.Prefix+"left")
	_, err = a.Issuer.Grant(ctx, locking.Request{Resource: resource, TTL: time.Minute})
	check(t, "grant", err)
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		_, _ = a.Issuer.Grant(ctx, locking.Request{Resource: resource, TTL: time.Minute, Wait: time.Minute})
	}()
	t.Cleanup(func() {
		cancel()
		<-waiting
	})
	if r.Spec.Lock == "redis" || r.Spec.Lock == "postgres" {
		want["lock waiters"] = 1
		testenv.Eventually(t, slack, "somebody waits", func() bool {
			s, err := a.Issuer.Status(ctx, resource)
			return err == nil && s.Waiters == 1
		})
	}
	for _, name := range append(r.LockNames(), r.StoreName()) {
		if name == "" || want[name+" connections"] > 0 {
			continue
		}
		want[name+" connections"] = 1
		if r.Spec.Lock == "redlock" && name != r.StoreName() || name == "lock" && r.Spec.Lock == "redis" || name == "store" && r.Spec.Store == "redis" {
			conn, err := net.Dial("tcp4", r.Server(name))
			check(t, "connect", err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = conn.Write([]byte("PING\r\n"))
			check(t, "ping", err)
			continue
		}
		conn, err := pgx.Connect(ctx, r.PostgresURL()+"&application_name=client")
		check(t, "connect", err)
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	}
}

// TestEndlessLine finds a line that nobody stands in and that does not end.
func TestEndlessLine(t *testing.T) {
	t.Parallel()
	r, _ := build(t, rig.Spec{Lock: "redis", Store: "redis", Volatile: true})
	c := redis.NewClient(&redis.Options{Addr: r.StoreRedis.Addr()})
	check(t, "push", c.RPush(t.Context(), "fencegate:{"+r.Spec.Client.Prefix+"x}:queue", "A").Err())
	check(t, "close", c.Close())
	leaks, err := r.Leaks(t.Context())
	if err != nil || len(leaks) != 1 || leaks[0].What != "waiters" {
		t.Errorf("%+v, %v, want a line", leaks, err)
	}
}
