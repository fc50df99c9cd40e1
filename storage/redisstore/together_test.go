package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/redisstore"
	"github.com/fencegate/fencegate/storage/storagetest"
)

// joined is the harness of a backend whose commits always go together.
func joined() storagetest.Harness {
	h := harness(shared)
	h.New = func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
		b := redisstore.Together{Backend: backend(tb, shared(tb))}
		s, err := storage.New(b, &storage.Options{Mode: mode})
		if err != nil {
			tb.Fatal(err)
		}
		return storagetest.Subject{Store: s, Fence: s, Backend: b}
	}
	return h
}

func TestSuiteTogether(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, joined())
}

func TestDifferentialTogether(t *testing.T) {
	t.Parallel()
	storagetest.Differential(t, joined())
}

func one(tok fencing.Token, ops ...storage.Op) storage.Commit {
	return storage.Commit{Tokens: []fencing.Token{tok}, Ops: ops}
}

// commands returns how often the server has run each command since its statistics were reset.
func commands(t *testing.T, c *redis.Client) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(c.Info(t.Context(), "commandstats").Val()) {
		var n int
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if _, err := fmt.Sscanf(rest, "calls=%d,", &n); err == nil {
			counts[name] = n
		}
	}
	return counts
}

// TestTogetherEachOnItsOwn: in one run of the script each commit has its own verdict, in the
// given order, and what stops one stops no other.
func TestTogetherEachOnItsOwn(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.StartRedis(t, nil))
	b := redisstore.Together{Backend: backend(t, c)}
	x, y, broken := raised(t, b.Backend, "x", 34), raised(t, b.Backend, "y", 12), raised(t, b.Backend, "broken", 1)
	unmarked := raised(t, b.Backend, "unmarked", 1)
	old := fencing.Token{Resource: "x", Number: 33, Grant: x.Grant}
	twin := fencing.Token{Resource: "y", Number: 12, Grant: x.Grant}
	must(t, c.Set(t.Context(), recordsKey("broken"), "not a hash", 0).Err())
	must(t, c.Set(t.Context(), markKey("unmarked"), "not a hash", 0).Err())
	keyed := addition(x, "k")
	batch := []storage.Commit{
		one(x, storage.Put("x", "a", []byte("with spaces, and \x00\xff"))),
		one(old, storage.Put("x", "a", []byte("stale"))),
		one(x, storage.Put("x", "a", []byte("second"))),
		one(broken, storage.Put("broken", "a", nil)),
		one(x, storage.Add("x", "n", 5, 0)),
		one(x, storage.Add("x", "n", -6, 0)),
		one(broken, storage.Add("broken", "n", 1, 0)),
		one(twin, storage.Add("y", "n", 1, 0)),
		keyed,
		one(x, storage.Require("x", "a", 1), storage.Put("x", "b", nil)),
		keyed,
		one(unmarked, storage.Put("unmarked", "a", nil)),
		{Tokens: []fencing.Token{x, y}, Ops: []storage.Op{storage.Delete("x", "a"), storage.Put("y", "a", nil)}},
		one(y, storage.Put("y", "a", []byte("gone"))),
		one(y, storage.Delete("y", "a")),
		one(y, storage.Put("y", "a", []byte("last"))),
		one(x, storage.Put("x", "a", []byte("new"))),
	}
	b.Apply(t.Context(), batch[3:4]) // the script is known
	must(t, c.ConfigResetStat(t.Context()).Err())
	out := b.Apply(t.Context(), batch)
	if n := commands(t, c); n["evalsha"] != 1 || n["info"] != 1 || n["eval"] != 0 {
		t.Errorf("%d commits took the commands %v, want one script and one INFO", len(batch), n)
	}
	for i, want := range []string{
		"{[{1 0}] false}",
		"superseded 34",
		"{[{2 0}] false}",
		"failed WRONGTYPE",
		"{[{1 5}] false}",
		"operation 0, " + storage.ErrBelowMinimum.Error() + " 5 0",
		"failed WRONGTYPE",
		"duplicate 12",
		"{[{2 6}] false}",
		"operation 0, " + storage.ErrVersionMismatch.Error() + " 2 1",
		"{[{2 6}] true}",
		"failed WRONGTYPE",
		"{[{0 0} {1 0}] false}",
		"{[{2 0}] false}",
		"{[{0 0}] false}",
		"{[{3 0}] false}",
		"{[{3 0}] false}",
	} {
		if got := verdict(out[i]); got != want {
			t.Errorf("commit %d: got %s, want %s", i, got, want)
		}
	}
	if !c.HExists(t.Context(), answersKey("x"), "k").Val() {
		t.Error("the answer to a commit with a key is not where it belongs")
	}
	for _, want := range []storage.Record{
		{Resource: "x", Key: "a", Value: []byte("new"), Version: 3},
		{Resource: "y", Key: "a", Value: []byte("last"), Version: 3},
		{Resource: "x", Key: "n", Value: []byte("6"), Version: 2},
	} {
		if got, err := b.Get(t.Context(), want.Resource, want.Key); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
}

// verdict says what an outcome is, without the words of an error.
func verdict(out storage.Outcome) string {
	if stale, ok := errors.AsType[*fencing.StaleError](out.Err); ok {
		return fmt.Sprint(stale.Reason, " ", stale.Highest)
	}
	if data, ok := errors.AsType[*storage.RefusedError](out.Err); ok {
		return fmt.Sprintf("operation %d, %v %d %d", data.Op, data.Reason, data.Have, data.Want)
	}
	if out.Err != nil {
		code := "?"
		for _, known := range []string{"WRONGTYPE", "OOM", "can't run this command"} {
			if strings.Contains(out.Err.Error(), known) {
				code = known
			}
		}
		return fmt.Sprint(fencing.OutcomeOf(out.Err), " ", code)
	}
	return fmt.Sprint(out.Result)
}

// TestTogetherStopped: a commit that is stopped before its first write has failed, one that is
// stopped after it is unknown, and neither says anything about the others.
func TestTogetherStopped(t *testing.T) {
	t.Parallel()
	c, admin := app(t, testenv.StartRedis(t, nil))
	b := redisstore.Together{Backend: backend(t, c)}
	x, y := raised(t, b.Backend, "x", 1), raised(t, b.Backend, "y", 1)
	for _, tok := range []fencing.Token{x, y} {
		must(t, put(t.Context(), b.Backend, tok, "a", "old"))
	}
	allow(t, admin, "-hset")
	for i, out := range b.Apply(t.Context(), []storage.Commit{
		one(x, storage.Put("x", "b", nil), storage.Delete("x", "a")),
		one(y, storage.Put("y", "b", nil)),
		one(y, storage.Put("y", "b", nil), storage.Require("y", "a", 1)),
		one(y, storage.Require("y", "a", 1)),
	}) {
		want := []fencing.Outcome{fencing.Unknown, fencing.Failed, fencing.Failed, fencing.Applied}[i]
		if got := fencing.OutcomeOf(out.Err); got != want {
			t.Errorf("commit %d: got %v (%v), want %v", i, got, out.Err, want)
		}
	}
	allow(t, admin, "+hset")
	must(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
	out := b.Apply(t.Context(), []storage.Commit{
		one(y, storage.Put("y", "b", nil)), addition(y, ""), one(y, storage.Delete("y", "none")),
	})
	for i, want := range []string{"failed OOM", "failed OOM", "{[{0 0}] false}"} {
		if got := verdict(out[i]); got != want {
			t.Errorf("memory is short, commit %d: got %s, want %s", i, got, want)
		}
	}
	must(t, admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
	if _, err := b.Get(t.Context(), "y", "b"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("got %v, want nothing written by what has failed", err)
	}
}

// TestCommitsGather: commits that wait at the same time are few scripts, and each caller has the
// answer to its own.
func TestCommitsGather(t *testing.T) {
	t.Parallel()
	b, c, g := gated(t, testenv.StartRedis(t, nil))
	const commits, large = 60, 4
	var calls []func()
	for i := range commits {
		tok := raised(t, b, fmt.Sprint("coupon:", i), 34)
		for range i { // so that no two have the same answer
			must(t, put(t.Context(), b, tok, "a", "1"))
		}
		value := []byte("x")
		if i < large {
			value = make([]byte, 300<<10)
		}
		calls = append(calls, func() {
			res, err := apply(t.Context(), b, []storage.Op{storage.Put(tok.Resource, "a", value)}, tok)
			if err != nil || res.Ops[0].Version != int64(i+1) {
				t.Errorf("commit %d: got %v, %v, want version %d", i, res, err, i+1)
			}
		})
	}
	together(t, g, func() { // behind the gate: three by themselves, and the others gather
		must(t, c.ConfigResetStat(t.Context()).Err())
	}, calls...)
	if n := commands(t, c); n["hset"] != commits || n["info"] > commits/2 {
		t.Errorf("%d commits took the commands %v, want few INFO", commits, n)
	}
}

// TestApart: a server that refuses a script for the keys of several commits gets them one by one.
func TestApart(t *testing.T) {
	t.Parallel()
	t.Run("a server of a cluster", func(t *testing.T) {
		t.Parallel()
		server := testenv.StartRedis(t, &testenv.RedisOptions{Args: []string{"--cluster-enabled", "yes"}})
		admin := connect(t, server)
		must(t, admin.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
		testenv.Eventually(t, 20*time.Second, "the cluster is up", func() bool {
			return strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
		})
		b, _, g := gated(t, server)
		wantApart(t, b, g, func() {}, func(string) fencing.Outcome { return fencing.Applied })
	})
	t.Run("a user with some keys", func(t *testing.T) {
		t.Parallel()
		c, admin := app(t, testenv.StartRedis(t, nil))
		g := &gate{}
		c.AddHook(g)
		b := backend(t, c)
		restrict := func() { allow(t, admin, "resetkeys", "~fencegate:{coupon:?}:*") }
		wantApart(t, b, g, restrict, func(resource string) fencing.Outcome {
			if len(resource) > len("coupon:0") {
				return fencing.Failed
			}
			return fencing.Applied
		})
	})
}

// wantApart: each of many commits at once has the outcome that want says. restrict is called
// before them, when the marks are raised.
func wantApart(t *testing.T, b *redisstore.Backend, g *gate, restrict func(), want func(resource string) fencing.Outcome) {
	t.Helper()
	toks := make([]fencing.Token, 40)
	for i := range toks {
		toks[i] = raised(t, b, fmt.Sprint("coupon:", i), 34)
	}
	restrict()
	for round := range int64(2) {
		var calls []func()
		for _, tok := range toks {
			want := want(tok.Resource)
			calls = append(calls, func() {
				res, err := apply(t.Context(), b, []storage.Op{storage.Put(tok.Resource, "a", nil)}, tok)
				if got := fencing.OutcomeOf(err); got != want || err == nil && res.Ops[0].Version != round+1 {
					t.Errorf("%s: got %v, %v, want %v, version %d", tok.Resource, res, err, want, round+1)
				}
			})
		}
		together(t, g, func() {}, calls...)
	}
}
