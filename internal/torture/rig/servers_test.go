package rig_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/locking/redlock"
)

// TestRedisFailover puts a replica in the place of its primary: the parent's access, the clients and the look for
// leaks follow.
func TestRedisFailover(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r, _ := build(t, rig.Spec{Lock: "redis", Store: "redis", LockStandby: rig.Async, Links: true, Processes: 1})
	use(t, r)
	if r.StoreRedis != r.LockRedis[0] || r.LockRedisStandby == nil || r.LockRedisStandby != r.StoreRedisStandby {
		t.Fatal("lock and store are not one server with one standby")
	}
	check(t, "fail over", r.Try(func() {
		r.LockRedis[0].Kill()
		r.LockRedisStandby.Promote()
	}))
	check(t, "switch", r.Switch("server", r.LockRedisStandby.Addr()))
	use(t, r)
	check(t, "start the clients", r.StartClients(ctx)) // they find it by the link
	check(t, "stop the clients", r.StopClients(ctx))
	if leaks, err := r.Leaks(ctx); err != nil || len(leaks) > 0 {
		t.Errorf("leaks %+v, %v", leaks, err)
	}
	check(t, "cut", r.Switch("server", ""))
	if r.Server("server") != r.LockRedisStandby.Addr() {
		t.Error("a link that was cut has made the parent forget its server")
	}
	if r.Switch("lock", "127.0.0.1:1") == nil || r.Switch("server", "nowhere") == nil {
		t.Error("a switch of what is not there, or to nowhere, is no error")
	}
}

// TestPostgresFailover promotes a standby, and gives the new primary one again.
func TestPostgresFailover(t *testing.T) {
	t.Parallel()
	for _, kind := range []rig.Standby{rig.Sync, rig.Async} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			r, _ := build(t, rig.Spec{Lock: "postgres", Store: "postgres", StoreStandby: kind, Links: true, Processes: 1})
			use(t, r)
			old := r.StorePostgres
			check(t, "kill", r.Try(old.Kill))
			check(t, "promote", r.PromotePostgres())
			if r.StorePostgres == old || r.LockPostgres != r.StorePostgres {
				t.Error("the rig has another primary")
			}
			check(t, "a new standby", r.NewPostgresStandby())
			use(t, r)
			var now string
			ask(t, r.PostgresURL(), "select count(*)::text from pg_stat_replication", &now)
			if now != "1" {
				t.Errorf("%s standbys, want 1", now)
			}
			check(t, "start the clients", r.StartClients(ctx))
			check(t, "stop the clients", r.StopClients(ctx))
			if leaks, err := r.Leaks(ctx); err != nil || len(leaks) > 0 {
				t.Errorf("leaks %+v, %v", leaks, err)
			}
		})
	}
}

// TestRemake gives an emptied server its database back.
func TestRemake(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r, _ := build(t, rig.Spec{Lock: "redis", Store: "postgres", Links: true, Processes: 1})
	check(t, "start the clients", r.StartClients(ctx))
	use(t, r)
	check(t, "remake what is there", r.Remake(ctx))
	check(t, "empty", r.Try(r.StorePostgres.RestartEmpty))
	check(t, "remake", r.Remake(ctx))
	check(t, "start the clients", r.StopClients(ctx))
	use(t, r)
	var tables string
	ask(t, r.PostgresURL(), "select count(*)::text from pg_trigger where tgrelid in ('torture_rows'::regclass, 'torture_audit'::regclass)", &tables)
	if tables == "0" {
		t.Error("the tables are not guarded")
	}
}

// TestTry turns what would end a test into an error, and nothing else.
func TestTry(t *testing.T) {
	t.Parallel()
	r, _ := build(t, rig.Spec{Lock: "redis", Store: "redis", Volatile: true})
	if err := r.Try(r.StoreRedis.RestoreCopy); err == nil || !strings.Contains(err.Error(), "no copy was saved") {
		t.Errorf("%v, want that there is no copy", err)
	}
	check(t, "kill", r.Try(r.StoreRedis.Kill)) // a failure leaves nothing locked
	check(t, "restart", r.Try(r.StoreRedis.Restart))
	defer func() {
		if recover() == nil {
			t.Error("a panic that is not testenv's was taken for an error")
		}
	}()
	_ = r.Try(func() { panic("broken") })
}

// TestRedlockNodes has markers that outlive a restart, unless the rig is volatile.
func TestRedlockNodes(t *testing.T) {
	t.Parallel()
	for _, volatile := range []bool{false, true} {
		r, _ := build(t, rig.Spec{Lock: "redlock", Store: "redis", Nodes: 3, Volatile: volatile})
		check(t, "restart a node", r.Try(r.LockRedis[1].Restart))
		check(t, "look", r.Redlock(func(b *redlock.Backend) error {
			want := redlock.NodeOK
			if volatile {
				want = redlock.NodeQuarantine
			}
			if got := b.Nodes(t.Context())[1].State; got != want {
				t.Errorf("volatile %v: the node is %v, want %v", volatile, got, want)
			}
			return nil
		}))
		use(t, r)
	}
}

// TestSmallDisk fills the disk of each store.
func TestSmallDisk(t *testing.T) {
	t.Parallel()
	for _, s := range []rig.Spec{
		{Lock: "redis", Store: "redis", SmallDisk: 8 << 20},
		{Lock: "redis", Store: "postgres", SmallDisk: 160 << 20},
		{Lock: "memory", Store: "sqlite", Gateways: 1, SmallDisk: 8 << 20},
	} {
		t.Run(s.Store, func(t *testing.T) {
			t.Parallel()
			if s.Gateways > 0 {
				s.Server = server(t)
			}
			r, err := rig.Build(t.Context(), s, nil)
			var cannot *rig.CannotError
			if os.Geteuid() != 0 {
				if !errors.As(err, &cannot) {
					t.Errorf("%v, want that this machine cannot", err)
				}
				return
			}
			if errors.As(err, &cannot) && strings.Contains(err.Error(), "mounted") {
				t.Skip(err)
			}
			check(t, "build", err)
			dir := r.SmallDiskDir()
			big := make([]byte, s.SmallDisk)
			if err := os.WriteFile(filepath.Join(dir, "big"), big, 0o600); err == nil {
				t.Error("a file as big as the disk has room on it")
			}
			check(t, "remove", os.Remove(filepath.Join(dir, "big")))
			use(t, r)
			if r.StoreRedis != nil {
				check(t, "empty", r.Try(r.StoreRedis.RestartEmpty))
				use(t, r)
			}
			check(t, "close", r.Close())
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s is there after the end: %v", dir, err)
			}
		})
	}
}

// TestUsersOwn works on servers that the rig has not started, and takes away what it has put there, and nothing else.
func TestUsersOwn(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	mine, its := testenv.StartRedis(t, nil), testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true})
	c := redis.NewClient(&redis.Options{Addr: mine.Addr()})
	t.Cleanup(func() { _ = c.Close() })
	check(t, "a key of mine", c.Set(ctx, "fencegate:{coupon:42}:lock", "mine", 0).Err())
	for _, s := range []rig.Spec{
		{Lock: "redis", Store: "postgres", Links: true},
		{Lock: "postgres", Store: "redis", Gateways: 1},
	} {
		s.RedisURL, s.PostgresURL, s.Processes = mine.URL(), its.URL(), 1
		r, _ := build(t, s)
		check(t, "start the clients", r.StartClients(ctx))
		use(t, r)
		check(t, "stop the clients", r.StopClients(ctx))
		if leaks, err := r.Leaks(ctx); err != nil || len(leaks) > 0 {
			t.Errorf("leaks %+v, %v", leaks, err)
		}
		if r.LockRedis != nil || r.StoreRedis != nil || r.StorePostgres != nil || r.LockPostgres != nil {
			t.Error("the rig gives servers away that are not its own")
		}
		if keys := c.Keys(ctx, "*").Val(); len(keys) < 2 {
			t.Errorf("the run has left %q: this test shows nothing", keys)
		}
		check(t, "close", r.Close())
		if keys := c.Keys(ctx, "*").Val(); len(keys) != 1 {
			t.Errorf("after the end there are the keys %q, want mine", keys)
		}
		var left string
		ask(t, its.URL(), "select coalesce(string_agg(datname, ' '), '') from pg_database where datname like 'fencegate%'", &left)
		if left != "" {
			t.Errorf("after the end there are the databases %s", left)
		}
	}

	ask(t, its.URL(), "create role poor login", nil)
	poor := strings.Replace(its.URL(), "postgres@", "poor@", 1)
	if _, err := rig.Build(ctx, rig.Spec{Lock: "postgres", Store: "postgres", PostgresURL: poor}, nil); err == nil || !strings.Contains(err.Error(), "want a role with CREATEDB") {
		t.Errorf("%v, want what role is needed", err)
	}
	if _, err := rig.Build(ctx, rig.Spec{Lock: "redis", Store: "redis", RedisURL: "redis://" + mine.Addr() + "/3"}, nil); err == nil || !strings.Contains(err.Error(), "and no more") {
		t.Errorf("%v, want that client processes know an address only", err)
	}
}

// ask runs a statement, and reads its only value into text if that is not nil.
func ask(t *testing.T, url, sql string, text *string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), slack)
	defer cancel()
	c, err := pgx.Connect(ctx, url)
	check(t, "connect", err)
	defer func() { _ = c.Close(ctx) }()
	if text == nil {
		_, err = c.Exec(ctx, sql)
	} else {
		err = c.QueryRow(ctx, sql).Scan(text)
	}
	check(t, sql, err)
}

// TestGatewayBinaries starts the second gateway from another binary, and shows what a binary says that does not serve.
func TestGatewayBinaries(t *testing.T) {
	t.Parallel()
	s := rig.Spec{Lock: "redis", Store: "redis", Volatile: true, Gateways: 2, Server: server(t), OldServer: "/nowhere/fencegate"}
	if _, err := rig.Build(t.Context(), s, nil); err == nil || !strings.Contains(err.Error(), "cannot start gateway-1") || strings.Contains(err.Error(), "gateway-0") {
		t.Errorf("%v, want that gateway-1 cannot be started", err)
	}
	s = rig.Spec{Lock: "memory", Store: "sqlite", Gateways: 1, Server: filepath.Join(t.TempDir(), "broken")}
	check(t, "write", os.WriteFile(s.Server, []byte("#!/bin/sh\necho the reason >&2\nexit 3\n"), 0o700))
	if _, err := rig.Build(t.Context(), s, nil); err == nil || !strings.Contains(err.Error(), "exit status 3\nthe reason") {
		t.Errorf("%v, want its exit status and its log", err)
	}
}
