package redisstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/redisstore"
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

// TestNewNamesAForbiddenCommand forbids each command that a script runs: they are read
// from the scripts, so that the probe cannot forget one.
func TestNewNamesAForbiddenCommand(t *testing.T) {
	t.Parallel()
	c, admin := app(t, testenv.StartRedis(t, nil))
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
	if len(commands) < 5 {
		t.Errorf("found only %v", commands)
	}
	for command := range commands {
		allow(t, admin, "+@all", "-"+command)
		_, err := redisstore.New(t.Context(), c, nil)
		if !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), "may not run "+command+" ") {
			t.Errorf("without %s: got %v, want an *InvalidError that names it", command, err)
		}
	}
	allow(t, admin, "+@all", "resetkeys", "~fencegate:*")
	if _, err := redisstore.New(t.Context(), c, nil); err != nil {
		t.Errorf("a user with the keys of the prefix: got %v", err)
	}
	allow(t, admin, "resetkeys", "%RW~fencegate:*:mark", "%R~fencegate:*:records")
	if _, err := redisstore.New(t.Context(), c, nil); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("a user who may only read records: got %v, want ErrInvalid", err)
	}
	if n := admin.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("the probes left %d keys behind", n)
	}
}

// TestForbiddenLater: a command that is forbidden after New stops a commit before its
// first write.
func TestForbiddenLater(t *testing.T) {
	t.Parallel()
	c, admin := app(t, testenv.StartRedis(t, nil))
	b := backend(t, c)
	tok := raised(t, b, "coupon:42", 34)
	for _, key := range []string{"a", "b"} {
		if err := put(t.Context(), b, tok, key, "old"); err != nil {
			t.Fatal(err)
		}
	}
	allow(t, admin, "-hdel")
	ops := []storage.Op{storage.Put("coupon:42", "b", []byte("new")), storage.Delete("coupon:42", "a")}
	_, err := apply(t.Context(), b, ops, tok)
	if got := fencing.OutcomeOf(err); got != fencing.Unknown {
		t.Errorf("got %v (%v), want unknown: a script was stopped", got, err)
	}
	if err := b.Check(t.Context()); !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), "HDEL") {
		t.Errorf("Check = %v, want an *InvalidError that names HDEL", err)
	}
	for _, key := range []string{"a", "b"} {
		if rec, err := b.Get(t.Context(), "coupon:42", key); err != nil || string(rec.Value) != "old" {
			t.Errorf("%s: got %q, %v, want nothing written", key, rec.Value, err)
		}
	}
}

// TestMemoryIsShort: a commit is whole then, or not at all.
func TestMemoryIsShort(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.StartRedis(t, nil))
	b := backend(t, c)
	tok := raised(t, b, "coupon:42", 34)
	for _, key := range []string{"a", "b"} {
		if err := put(t.Context(), b, tok, key, "old"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	backend(t, c) // New says nothing about it
	ops := []storage.Op{storage.Put("coupon:42", "b", []byte("new")), storage.Delete("coupon:42", "a")}
	_, err := apply(t.Context(), b, ops, tok)
	rec, errB := b.Get(t.Context(), "coupon:42", "b")
	_, errA := b.Get(t.Context(), "coupon:42", "a")
	switch outcome := fencing.OutcomeOf(err); {
	case errB != nil:
		t.Error(errB)
	case outcome == fencing.Applied && string(rec.Value) == "new" && errors.Is(errA, storage.ErrNotFound):
	case outcome == fencing.Failed && string(rec.Value) == "old" && errA == nil:
	default:
		t.Errorf("%v (%v), and then b = %q, a: %v", outcome, err, rec.Value, errA)
	}
}
