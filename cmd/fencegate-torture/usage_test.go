package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// command carries out a command line in this process.
func command(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

// some returns a fault of a kind: what it must be, and where it must fit.
func some(t *testing.T, s rig.Spec, is func(fault.Fault) bool) string {
	t.Helper()
	for _, f := range fault.All() {
		if f.Fits(s) && is(f) {
			return f.Name
		}
	}
	t.Fatal("there is no such fault")
	return ""
}

// TestUsage: what is wrong is told before anything is started, with what is allowed.
func TestUsage(t *testing.T) {
	t.Parallel()
	redis := rig.Spec{Lock: "redis", Store: "redis"}
	destroying := some(t, redis, func(f fault.Fault) bool { return f.Destroys && !f.Own })
	private := some(t, redis, func(f fault.Fault) bool { return f.Own })
	unfit := ""
	for _, f := range fault.All() {
		if !f.Fits(redis) {
			unfit = f.Name
		}
	}
	const (
		url   = "--redis-url=redis://127.0.0.1:1/0"
		plain = "without gateways clients know an address only; want redis://HOST:PORT"
	)
	dir := t.TempDir()
	long := filepath.Join(dir, strings.Repeat("x", 300))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nonsense"}, "nonsense"},
		{[]string{"--nonsense"}, "nonsense"},
		{[]string{"--lock", "paper"}, `memory`},
		{[]string{"--store", "paper"}, `sqlite`},
		{[]string{"--output", "xml"}, `json`},
		{[]string{"--lock", "redis", "--store", "sqlite", "--gateways", "2"}, "want 1 with --lock memory"},
		{[]string{"--lock", "memory", "--gateways", "0"}, "want 1 with --lock memory"},
		{[]string{"--gateways", "-1"}, "-1"},
		{[]string{"--gateways", "11"}, "want 0 to 10"},
		{[]string{"--lock", "rowlock", "--gateways", "1"}, "the server does not offer it"},
		{[]string{"--clients", "0"}, "--clients 0: want 1 to 1000"},
		{[]string{"--seats", "1001"}, "--seats 1001: want 1 to 1000"},
		{[]string{"--groups", "0"}, "--groups 0: want 1 to 1000"},
		{[]string{"--clients", "many"}, "many"},
		{[]string{"--seed", "x"}, "seed"},
		{[]string{"--ttl", "1"}, "ttl"},
		{[]string{"--duration", "long"}, "duration"},
		{[]string{"--duration", "0"}, "--duration 0s: want 1s to 720h"},
		{[]string{"--duration=-1s"}, "--duration -1s: want 1s to 720h"},
		{[]string{"--duration", "10ms"}, "1s to 720h"},
		{[]string{"--ttl", "0"}, "--ttl 0s: want "},
		{[]string{"--ttl", "1us"}, "TTL"},
		{[]string{"--hold", "0"}, "--hold 0s: want 1ms to 1m"},
		{[]string{"--hold", "1h"}, "1ms to 1m"},
		{[]string{"--late", "2"}, "0 to 1"},
		{[]string{"--workloads", ""}, "want all, or some of register"},
		{[]string{"--workloads", "gardening"}, "want all, or some of register"},
		{[]string{"--workloads", "bank,bank"}, "bank is there twice"},
		{[]string{"--store", "redis", "--workloads", "table"}, "want --store postgres"},
		{[]string{"--faults", ""}, "want all, none, or some"},
		{[]string{"--faults", ","}, "want all, none, or some"},
		{[]string{"--faults", "rain"}, `want all, none, or some of those that "fencegate-torture faults" lists`},
		{[]string{"--faults", "none,all"}, `--faults "none"`},
		{[]string{"--faults", private + "," + private}, "is there twice"},
		{[]string{"--store", "redis", "--faults", unfit}, "does not fit --lock redis --store redis --gateways 0; it fits "},
		{[]string{"--store", "redis", "--faults", destroying, url}, "it needs --allow"},
		{[]string{"--store", "redis", "--faults", private, url}, "needs private servers"},
		{[]string{"--lock", "redlock", url}, "leave it out"},
		{[]string{"--lock", "postgres", url}, "used by nothing"},
		{[]string{"--redis-url", "http://me:hush@x"}, "want redis://HOST:PORT/DB"},
		{[]string{"--redis-url", "redis://me:hush@h:%zz/"}, "want redis://HOST:PORT/DB"},
		{[]string{"--store", "redis", "--postgres-url", "postgres://me:hush@h/d"}, "used by nothing"},
		{[]string{"--redis-url", "redis://me:hush@h:1/x"}, "want redis://HOST:PORT/DB"},
		{[]string{"--redis-url", "redis://h:1,h:2/0"}, "of one server"},
		{[]string{"--redis-url", "redis://:hush@h:1"}, plain},
		{[]string{"--redis-url", "redis://me@h:1"}, plain},
		{[]string{"--redis-url", "redis://h:1/1"}, plain},
		{[]string{"--redis-url", "redis://h:1?db=1"}, plain},
		{[]string{"--redis-url", "rediss://h:1"}, plain},
		{[]string{"--redis-url", "redis://h:1?read_timeout=1s"}, plain},
		{[]string{"--postgres-url", "postgres://me:hush@a:1,b:2/d"}, "of one server"},
		{[]string{"--postgres-url", "host=x password=hush"}, "want postgres://USER@HOST:PORT/NAME"},
		{[]string{"--report", "/nowhere/at/all/x.html"}, "there is no directory /nowhere/at/all"},
		{[]string{"--record", "/nowhere/at/all/x.jsonl"}, "there is no directory /nowhere/at/all"},
		{[]string{"--report", dir}, "it is no file"},
		{[]string{"--report", long}, "it cannot be written"},
		{[]string{"--record", dir}, "it cannot be written"},
		{[]string{"--record", long}, "it cannot be written"},
		{[]string{"--report", dir + "/x", "--record", dir + "/./x"}, "want two files"},
		{[]string{"proof", "--record", dir}, "it cannot be written"},
		{[]string{"proof", "--record", "/nowhere/at/all/x.jsonl"}, "there is no directory /nowhere/at/all"},
		{[]string{"proof", "--reports", long}, "it cannot be written"},
		{[]string{"proof", "--reports", "usage_test.go"}, "it cannot be written"},
		{[]string{"--gateways", "1", "--server", "/nowhere/fencegate"}, "there is no such program"},
		{[]string{"--gateways", "2", "--old-server", "/nowhere/fencegate"}, "there is no such program"},
		{[]string{"--gateways", "1", "--old-server", "usage_test.go"}, "want --gateways 2"},
		{[]string{"proof", "--old-server", "/nowhere/fencegate"}, "there is no such program"},
		{[]string{"proof", "--faults", ""}, "want all, or some"},
		{[]string{"proof", "--duration", "0"}, "want 1s to 1h"},
		{[]string{"proof", "--faults", "rain"}, "want all, or some"},
		{[]string{"proof", "--parallel", "0"}, "--parallel 0: want 1 to 16"},
		{[]string{"proof", "--duration", "1ms"}, "want 1s to 1h"},
		{[]string{"reliability", "surplus"}, "surplus"},
	} {
		status, stdout, stderr := command(c.args...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "nothing was started") || strings.Contains(stderr, "hush") {
			t.Errorf("%q: status %d, stdout %q, stderr %q, want 2 and %q", c.args, status, stdout, stderr, c.want)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("%v, %v: want nothing left in the directory", list, err)
	}
}

// TestCheckedFirst: what the machine itself would refuse is told before a server is built or the user is warned.
func TestCheckedFirst(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--hold", "1h"}, {"--late", "2"}, {"--duration", "10ms"}, {"--ttl", "1us"}, {"--clients", "1", "--seats", "1"}} {
		_, notes, err := parsed(t, args...).config()
		if _, ok := errors.AsType[usageError](err); !ok || len(notes) > 0 {
			t.Errorf("%q: %v, %q, want a usage error and no notes", args, err, notes)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"help"}, []string{"proof", "faults", "reliability", "Exit status: 0 held, 1 violated"}},
		{[]string{"run", "--help"}, []string{"--redis-url", "no password", "0 to 10", "--allow", "$FENCEGATE_TORTURE_SEED", "(default: 30s)"}},
		{[]string{"proof", "--help"}, []string{"--reports"}},
	} {
		status, stdout, stderr := command(c.args...)
		if status != 0 || stderr != "" || strings.Contains(stdout, "Be a client") {
			t.Errorf("%q: status %d, stderr %q", c.args, status, stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("%q does not say %q:\n%s", c.args, want, stdout)
			}
		}
	}
}

// TestEveryFlagHasAVariable of its own, so that a CI job or a container can set it.
func TestEveryFlagHasAVariable(t *testing.T) {
	t.Parallel()
	app := parser(&cli{}, &bytes.Buffer{}, &bytes.Buffer{}, func(int) {})
	for _, node := range app.Model.Children {
		for _, f := range node.Flags {
			if f.Name == "help" {
				continue
			}
			if len(f.Envs) != 1 || !strings.HasPrefix(f.Envs[0], "FENCEGATE_TORTURE_") {
				t.Errorf("%s --%s has %q", node.Name, f.Name, f.Envs)
			}
		}
	}
}

// parsed returns the run that a command line asks for.
func parsed(t *testing.T, args ...string) *runCmd {
	t.Helper()
	var c cli
	if _, err := parser(&c, os.Stderr, os.Stderr, func(int) {}).Parse(args); err != nil {
		t.Fatal(err)
	}
	return &c.Run
}

// TestDefaults: what a run is without flags, and that what repeats it asks for the very same.
func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"run", "--seed", "7"},
		{"run", "--lock", "memory", "--store", "sqlite", "--faults", "none", "--workloads", "bank,set", "--seats", "3", "--ttl", "1s", "--seed", "0"},
		{"run", "--lock", "postgres", "--gateways", "2", "--workloads", "all", "--duration", "1m", "--seed", "18446744073709551615"},
		{"run", "--lock", "redis", "--store", "redis", "--redis-url", "redis://h:1/0", "--seed", "1"},
		{"run", "--lock", "redis", "--store", "redis", "--redis-url", "redis://h", "--seed", "1", "--allow"},
		{"run", "--lock", "redis", "--store", "redis", "--gateways", "10", "--redis-url", "rediss://me@h:1/2", "--seed", "1"},
	} {
		config, _, err := parsed(t, args...).config()
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := parsed(t, config.Args[1:]...).config()
		if err != nil || !reflect.DeepEqual(again, config) {
			t.Errorf("%q: %+v, %v, want %+v", config.Args, again, err, config)
		}
	}
	config, _, err := parsed(t).config()
	if err != nil || config.Rig.Lock != "redis" || config.Rig.Store != "postgres" || config.Rig.Gateways != 0 || len(config.Faults) < 10 || config.Workloads != nil {
		t.Errorf("%+v, %v", config, err)
	}
	other, _, err := parsed(t).config()
	if err != nil || other.Seed == config.Seed {
		t.Errorf("two runs have the seed %d, %v", other.Seed, err)
	}
	if config, _, err := parsed(t, "--store", "sqlite").config(); err != nil || config.Rig.Gateways != 1 {
		t.Errorf("sqlite: %d gateways, %v, want 1", config.Rig.Gateways, err)
	}
}

// TestOwnServers: what the user is told first, that all leaves out what needs leave, and that no password is repeated.
func TestOwnServers(t *testing.T) {
	t.Parallel()
	base := []string{"--store", "redis", "--gateways", "1", "--redis-url", "redis://me:hush@cache.example:6379/1?client_name=hush"}
	careful, notes, err := parsed(t, base...).config()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range careful.Faults {
		if f, _ := fault.Named(name); f.Destroys || f.Own {
			t.Errorf("all has %s on a server of the user's own, without leave", name)
		}
	}
	if text := strings.Join(notes, "\n"); !strings.Contains(text, "left out") || !strings.Contains(text, "cache.example:6379 keys that begin with fencegate:{torture-") || strings.Contains(text, "hush") || strings.Contains(text, "WARNING") {
		t.Errorf("notes %q", text)
	}
	_, notes, err = parsed(t, "--postgres-url", "postgres://me:hush@db.example/d").config()
	if text := strings.Join(notes, "\n"); err != nil || !strings.Contains(text, "on the Postgres at db.example a database called fencegate_torture_") || strings.Contains(text, "hush") {
		t.Errorf("notes %q, %v", text, err)
	}
	allowed, notes, err := parsed(t, append(base, "--allow")...).config()
	if err != nil || len(allowed.Faults) <= len(careful.Faults) {
		t.Errorf("--allow adds nothing to %d faults: %v", len(careful.Faults), err)
	}
	if text := strings.Join(notes, "\n"); !strings.Contains(text, "WARNING: --allow is given, and these faults can destroy data") {
		t.Errorf("notes %q", text)
	}
	if text := strings.Join(allowed.Args, " "); strings.Contains(text, "hush") || !strings.Contains(text, "redis://me@cache.example:6379/1") || allowed.Rig.RedisURL != base[5] {
		t.Errorf("%s", text)
	}
}
