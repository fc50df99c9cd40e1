package redisx_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/internal/testenv"
)

// as returns a client of a user with these rules, on top of being allowed everything.
func as(t *testing.T, server *testenv.Redis, rules ...string) *redis.Client {
	t.Helper()
	admin := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	defer admin.Close()
	user := testenv.Unique(t, "user")
	args := []any{"ACL", "SETUSER", user, "on", "nopass", "~*", "&*", "+@all"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	if err := admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: user, Password: "x", MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestHalfDoneIsUnknown: a script that was stopped at a command which its user may not run
// may have written before, whatever words and codes the server has for it.
func TestHalfDoneIsUnknown(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, &testenv.RedisOptions{Args: []string{"--rename-command", "HVALS", ""}})
	half := redisx.NewScript("redis.call('HSET', KEYS[1], 'a', '1') redis.call(ARGV[1], KEYS[1], 'a') return {'ok'}")
	for command, c := range map[string]*redis.Client{"HDEL": as(t, server, "-hdel"), "HVALS": as(t, server)} {
		key := testenv.Unique(t, "half")
		_, err := half.Run(t.Context(), c, redisx.Call{Keys: []string{key}, Args: []any{command}})
		if n := c.HLen(t.Context(), key).Val(); n != 1 {
			t.Fatalf("%s: got %d fields, want the script half done", command, n)
		}
		if got := fencing.OutcomeOf(err); got != fencing.Unknown {
			t.Errorf("%s: got %v (%v), want unknown", command, got, err)
		}
	}
	c := as(t, server)
	for text, want := range map[string]fencing.Outcome{
		// Redis 6.2
		"ERR Error running script (call to f_0): @user_script:1: @user_script: 1: The user executing the script can't run this command or subcommand": fencing.Unknown,
		"ERR Error running script (call to f_0): @user_script:1: @user_script: 1: Unknown Redis command called from Lua script":                       fencing.Unknown,
		"ERR Error running script (call to f_0): @user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value":                   fencing.Failed,
		"NOPERM this user has no permissions to run the 'evalsha' command or its subcommand":                                                          fencing.Failed,
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: 0, on @user_script:1.":    fencing.Unknown, // 7.0
		"ERR ACL failure in script: User app has no permissions to run the 'hdel' command script: 0, on @user_script:1.":                              fencing.Unknown, // 7.2
		"NOPERM ACL failure in script: User app has no permissions to run the 'hdel' command":                                                         fencing.Unknown, // others
		"NOPERM words of a server that does not exist yet script: 0, on @user_script:1.":                                                              fencing.Unknown,
		"NOPERM User app has no permissions to run the 'evalsha' command":                                                                             fencing.Failed, // 7.2
	} {
		_, err := redisx.NewScript("return redis.error_reply(ARGV[1])").Run(t.Context(), c, redisx.Call{Args: []any{text}})
		if got := fencing.OutcomeOf(err); got != want || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v (%v), want %v for %q", got, err, want, text)
		}
	}
	_, err := half.Run(t.Context(), as(t, server, "-evalsha"), redisx.Call{Keys: []string{"k"}, Args: []any{"HDEL"}})
	if got := fencing.OutcomeOf(err); got != fencing.Failed {
		t.Errorf("no scripts: got %v (%v), want failed", got, err)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, &testenv.RedisOptions{Args: []string{"--rename-command", "HVALS", ""}})
	const key = "p:{-probe}:x"
	commands := [][]string{
		{"INFO", "server"},
		{"HGET", key, "a"},
		{"HKEYS", key},
		{"HDEL", key, "a"},
		{"HSET", key, "a", "1"},
		{"HDEL", key, "a"},
	}
	look := func(c *redis.Client, more ...string) error {
		t.Helper()
		all := commands
		if more != nil {
			all = append(slices.Clone(commands), more)
		}
		err := redisx.Probe(t.Context(), c, []string{key}, all)
		if keys := as(t, server).Keys(t.Context(), "*").Val(); len(keys) > 0 {
			t.Errorf("the probe left %q behind", keys)
		}
		return err
	}
	if err := look(as(t, server)); err != nil {
		t.Error(err)
	}
	refuses := func(err error, words ...string) {
		t.Helper()
		for _, word := range words {
			if !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), word) {
				t.Errorf("got %v, want an *InvalidError that says %q", err, word)
			}
		}
	}
	for _, command := range []string{"INFO", "HGET", "HKEYS", "HDEL", "HSET"} {
		refuses(look(as(t, server, "-"+command)), "may not run "+command+" ", "HDEL, HGET, HKEYS, HSET, INFO")
	}
	refuses(look(as(t, server), "HVALS", key), "may not run HVALS ", "Unknown Redis command")
	refuses(look(as(t, server, "resetkeys", "%R~*")), "may not run scripts ", "keys")
	refuses(look(as(t, server, "resetkeys", "~p:*"), "HGET", "q", "a"), "may not run HGET ", "keys")

	// A server that takes no writes now says nothing about the user.
	c := as(t, server)
	for _, setting := range [][2]string{{"maxmemory", "1"}, {"min-replicas-to-write", "1"}} {
		if err := c.ConfigSet(t.Context(), setting[0], setting[1]).Err(); err != nil {
			t.Fatal(err)
		}
		if err := look(c); err != nil {
			t.Errorf("%s: got %v", setting[0], err)
		}
		if err := c.ConfigSet(t.Context(), setting[0], "0").Err(); err != nil {
			t.Fatal(err)
		}
	}
	refuses(look(as(t, server, "-evalsha")), "may not run scripts ", "NOPERM", "evalsha")
	refuses(redisx.CheckServers(t.Context(), as(t, server, "-info"), nil), "may not run INFO ", "NOPERM")
}
