package redislock_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
)

// allow changes what the user "app" may do.
func allow(t *testing.T, admin *redis.Client, rules ...any) {
	t.Helper()
	if err := admin.Do(t.Context(), append([]any{"ACL", "SETUSER", "app"}, rules...)...).Err(); err != nil {
		t.Fatal(err)
	}
}

// app returns a client of the user "app", who may do everything at first.
func app(t *testing.T, server *testenv.Redis) (c, admin *redis.Client) {
	t.Helper()
	admin = connect(t, server)
	allow(t, admin, "on", "nopass", "~*", "&*", "+@all")
	c = redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "app", Password: "x", MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c, admin
}

// TestCheckNamesAForbiddenCommand forbids each command that a script runs: they are read
// from the scripts, so that the probe cannot forget one. Without PUBLISH waiters are slow,
// and that is all.
func TestCheckNamesAForbiddenCommand(t *testing.T) {
	t.Parallel()
	c, admin := app(t, testenv.StartRedis(t, nil))
	b := backend(t, c)
	if err := b.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	commands := map[string]bool{}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`redis\.p?call\('(\w+)'`).FindAllStringSubmatch(string(src), -1) {
			commands[m[1]] = true
		}
	}
	if len(commands) < 15 {
		t.Errorf("found only %v", commands)
	}
	if !commands["PUBLISH"] {
		t.Error("nobody publishes")
	}
	delete(commands, "PUBLISH")
	for command := range commands {
		allow(t, admin, "+@all", "-"+command)
		if err := b.Check(t.Context()); !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), "may not run "+command+" ") {
			t.Errorf("without %s: got %v, want an *InvalidError that names it", command, err)
		}
	}
	if n := admin.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("the probes left %d keys behind", n)
	}
}

// TestNoHoldWithoutItsNumber: a user who may not write the counter gets no lock, and blocks
// nobody.
func TestNoHoldWithoutItsNumber(t *testing.T) {
	t.Parallel()
	c, admin := app(t, testenv.StartRedis(t, nil))
	allow(t, admin, "-hset")
	_, err := backend(t, c).TryAcquire(t.Context(), request("coupon:42"))
	if got := fencing.OutcomeOf(err); got != fencing.Unknown {
		t.Errorf("got %v (%v), want unknown: a script was stopped", got, err)
	}
	if n := admin.Exists(t.Context(), lockKey("coupon:42")).Val(); n != 0 {
		t.Error("the lock is held")
	}
	must(t, backend(t, admin), request("coupon:42"))
}

// TestChannelsAreForbidden: each of these users can lock, and is told why waiting is slow.
func TestChannelsAreForbidden(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: true})
	c, admin := app(t, server)
	b := backend(t, c)
	for _, rule := range []string{"-publish", "-subscribe", "resetchannels"} {
		allow(t, admin, "+@all", "allchannels", rule)
		if err := b.Check(t.Context()); err != nil {
			t.Errorf("%s: Check = %v", rule, err)
		}
		got, err := b.Warnings(t.Context())
		if err != nil || len(got) != 1 || !strings.Contains(got[0], "fencegate:wake:*") {
			t.Errorf("%s: Warnings = %q, %v, want one that names the channels", rule, got, err)
		}
	}
	allow(t, admin, "+@all", "resetchannels", "&fencegate:wake:*")
	if got, err := b.Warnings(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("with just these channels: Warnings = %q, %v, want none", got, err)
	}
}

func TestCheckAndWarnings(t *testing.T) {
	t.Parallel()
	primary, replica := testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: true}), testenv.StartRedis(t, nil)
	b, second := backend(t, connect(t, primary)), backend(t, connect(t, replica))
	warned := func(words ...string) {
		t.Helper()
		got, err := b.Warnings(t.Context())
		ok := err == nil && len(got) == len(words)
		for i := 0; ok && i < len(words); i++ {
			ok = strings.Contains(got[i], words[i])
		}
		if !ok {
			t.Errorf("got the warnings %q, %v, want one each about %q", got, err, words)
		}
	}
	if err := errors.Join(b.Check(t.Context()), second.Check(t.Context())); err != nil {
		t.Error(err)
	}
	warned()

	c := connect(t, primary)
	for name, value := range map[string]string{"maxmemory-policy": "allkeys-lru", "appendfsync": "everysec", "repl-diskless-sync-delay": "0"} {
		if err := c.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	warned("evicted counter begins again", "appendfsync everysec")
	if err := b.Check(t.Context()); err != nil {
		t.Errorf("a server that may lose locks: got %v, want no more than warnings", err)
	}

	host, port, _ := strings.Cut(primary.Addr(), ":")
	r := connect(t, replica)
	if err := r.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 30*time.Second, "the replica is in step", func() bool {
		return strings.Contains(r.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	warned("evicted counter begins again", "appendfsync everysec", "asynchronously")
	if err := second.Check(t.Context()); !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), "replica") {
		t.Errorf("a replica: got %v, want ErrInvalid", err)
	}
	if err := c.ConfigSet(t.Context(), "appendonly", "no").Err(); err != nil {
		t.Fatal(err)
	}
	warned("evicted counter begins again", "no append-only file", "asynchronously")

	primary.Kill()
	_, _ = b.Warnings(t.Context()) // the broken connection goes
	if err := b.Check(t.Context()); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("nobody listens: got %v, want failed", err)
	}
}
