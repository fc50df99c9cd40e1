package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/redisstore"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	retrying := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = retrying.Close() })
	refused := func(what string, err error, says string) {
		t.Helper()
		if !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want an *InvalidError that says %q", what, err, says)
		}
	}
	_, err := redisstore.New(t.Context(), retrying, nil)
	refused("a client that retries", err, "MaxRetries: -1")

	c := connect(t, testenv.StartRedis(t, nil))
	_, err = redisstore.New(t.Context(), c, &redisstore.Options{Prefix: "a{b}"})
	refused("a prefix with a brace", err, "prefix")
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		for _, limit := range []string{"0", "100mb"} {
			if err := errors.Join(c.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(), c.ConfigSet(t.Context(), "maxmemory", limit).Err()); err != nil {
				t.Fatal(err)
			}
			_, err = redisstore.New(t.Context(), c, nil)
			refused(policy, err, "maxmemory-policy noeviction")
		}
	}
	nobody := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = nobody.Close() })
	if _, err := redisstore.New(t.Context(), nobody, nil); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("no server: got %v, want failed", err)
	}
}

// TestNewNeedsInfoInScripts: a server that hides INFO has no incarnation to show.
func TestNewNeedsInfoInScripts(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	admin := connect(t, server)
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all", "-evalsha", "-eval").Err(); err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "app", Password: "x", MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	if _, err := redisstore.New(t.Context(), c, nil); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("got %v, want the server's refusal", err)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		o    testenv.RedisOptions
		want []string // a word of each
	}{
		{"safe", testenv.RedisOptions{AppendOnly: true}, nil},
		{"everysec", testenv.RedisOptions{AppendOnly: true, Args: []string{"--appendfsync", "everysec"}}, []string{"appendfsync everysec"}},
		{"no file", testenv.RedisOptions{}, []string{"no append-only file"}},
		{"silent", testenv.RedisOptions{AppendOnly: true, Args: []string{"--rename-command", "CONFIG", ""}}, []string{"does not tell"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := backend(t, connect(t, testenv.StartRedis(t, &c.o)))
			wantWarnings(t, b, c.want...)
		})
	}
	t.Run("replica and eviction", func(t *testing.T) {
		t.Parallel()
		primary := testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: true})
		client := connect(t, primary)
		b := backend(t, client)
		replicate(t, testenv.StartRedis(t, nil), primary)
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
			t.Fatal(err)
		}
		wantWarnings(t, b, "evict", "asynchronously")
	})
}

// TestPolicySetLater: a server that was set to evict keys after New is told of by whoever asks.
func TestPolicySetLater(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: true}))
	b := backend(t, c)
	for _, policy := range []string{"allkeys-random", "volatile-lru"} {
		if err := c.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		if err := b.Check(t.Context()); !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), policy) {
			t.Errorf("Check = %v, want an *InvalidError that names %s", err, policy)
		}
		wantWarnings(t, b, policy)
	}
	if err := c.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	if err := b.Check(t.Context()); err != nil {
		t.Errorf("Check = %v, want nil again", err)
	}
	wantWarnings(t, b)
}

func wantWarnings(t *testing.T, b *redisstore.Backend, words ...string) {
	t.Helper()
	got, err := b.Warnings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ok := len(got) == len(words)
	for i := 0; ok && i < len(words); i++ {
		ok = strings.Contains(got[i], words[i]) && strings.HasSuffix(got[i], ".")
	}
	if !ok {
		t.Errorf("got the warnings %q, want one each about %q", got, words)
	}
}

// TestOutcomes: a server that does not answer never makes a call look applied, and what
// is unknown may indeed have happened.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	c := connect(t, server)
	b := backend(t, c)
	tok := raised(t, b, "coupon:42", 34)
	calls := map[string]func(ctx context.Context) error{
		"commit": func(ctx context.Context) error { return put(ctx, b, tok, "a", "1") },
		"batch": func(ctx context.Context) error {
			one := storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Delete("coupon:42", "a")}}
			out := b.Apply(ctx, []storage.Commit{one, one})
			return errors.Join(out[0].Err, out[1].Err)
		},
		"raise": func(ctx context.Context) error { return b.Raise(ctx, tok) },
		"retire": func(ctx context.Context) error {
			return b.Retire(ctx, fencing.Token{Resource: "other", Number: 1, Grant: tok.Grant})
		},
		"evict":  func(ctx context.Context) error { return b.Evict(ctx, fencing.Token{Resource: "other", Number: 1}) },
		"mark":   func(ctx context.Context) error { return errOf(b.Mark(ctx, "coupon:42")) },
		"get":    func(ctx context.Context) error { return errOf(b.Get(ctx, "coupon:42", "a")) },
		"fenced": func(ctx context.Context) error { return errOf(b.GetFenced(ctx, tok, "a")) },
		"list":   func(ctx context.Context) error { return errOf(b.List(ctx, "coupon:42", "", "", 10)) },
		"new":    func(ctx context.Context) error { return errOf(redisstore.New(ctx, c, nil)) },
	}
	check := func(when string, ctx context.Context) {
		t.Helper()
		for name, call := range calls {
			err := call(ctx)
			if got := fencing.OutcomeOf(err); got != fencing.Failed {
				t.Errorf("%s, %s: got %v (%v), want failed", when, name, err, got)
			}
			if err != nil && strings.Contains(err.Error(), tok.Grant) {
				t.Errorf("%s, %s: the error shows a grant id", when, name)
			}
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	check("the context has ended", ended)

	if err := c.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), b, tok, "a", "1"); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("no memory: got %v, want failed", err)
	}
	if err := c.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}

	server.Pause()
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second) // it is sent by then
	defer cancel()
	if err := put(short, b, tok, "late", "1"); fencing.OutcomeOf(err) != fencing.Unknown {
		t.Errorf("a paused server: got %v, want unknown", err)
	}
	server.Resume()
	testenv.Eventually(t, 30*time.Second, "the lost commit is there", func() bool {
		_, err := b.Get(t.Context(), "coupon:42", "late")
		return err == nil
	})

	server.Kill()
	_ = c.Ping(t.Context()).Err() // the broken connections go
	_ = c.Ping(t.Context()).Err()
	check("nobody listens", t.Context())
}

// TestKilledUnderWriters kills the server under load: every answer that says applied is in
// the file, and nothing says so that is not.
func TestKilledUnderWriters(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: true})
	c := connect(t, server)
	b := backend(t, c)
	const writers = 8
	type tally struct{ applied, unknown int64 }
	tallies := make(chan tally, writers)
	started := make(chan struct{}, writers)
	for w := range writers {
		tok := raised(t, b, fmt.Sprintf("w:%d", w), 1)
		go func() {
			var n tally
			for {
				_, err := apply(t.Context(), b, []storage.Op{storage.Add(tok.Resource, "n", 1, 0)}, tok)
				switch fencing.OutcomeOf(err) {
				case fencing.Applied:
					if n.applied++; n.applied == 20 {
						started <- struct{}{}
					}
					continue
				case fencing.Unknown:
					n.unknown++
				}
				tallies <- n
				return
			}
		}()
	}
	for range writers {
		<-started
	}
	server.Kill()
	var sum tally
	for range writers {
		n := <-tallies
		sum.applied += n.applied
		sum.unknown += n.unknown
	}
	server.Restart()
	_ = c.Ping(t.Context()).Err()
	var got int64
	for w := range writers {
		rec, err := backend(t, connect(t, server)).Get(t.Context(), fmt.Sprintf("w:%d", w), "n")
		if err != nil {
			t.Fatal(err)
		}
		n, _ := storage.ParseCounter(rec.Value)
		got += n
	}
	if got < sum.applied || got > sum.applied+sum.unknown {
		t.Errorf("got %d adds, want %d applied and up to %d unknown", got, sum.applied, sum.unknown)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, &testenv.RedisOptions{Args: []string{"--cluster-enabled", "yes"}})
	one := connect(t, server)
	if err := one.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 20*time.Second, "the cluster is up", func() bool {
		return strings.Contains(one.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	b := backend(t, c)

	t.Run("one resource", func(t *testing.T) {
		t.Parallel()
		s, err := storage.New(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		tok := raised(t, b, testenv.Unique(t, "one"), 1)
		for want := int64(1); want <= 3; want++ {
			if got, err := s.Put(t.Context(), tok, "a", []byte("x")); got != want || err != nil {
				t.Errorf("Put = %d, %v, want %d", got, err, want)
			}
		}
		wantAdd(t, b, tok, "k", 1, false)
		wantAdd(t, b, tok, "k", 1, true)
		if list, err := s.List(t.Context(), tok.Resource, "", "", 10); len(list) != 2 || err != nil {
			t.Errorf("List = %v, %v", list, err)
		}
		if err := b.Retire(t.Context(), tok); err != nil {
			t.Error(err)
		}
		wantReason(t, put(t.Context(), b, tok, "a", "1"), fencing.Retired)
		wantWarnings(t, b, "no append-only file")
	})
	t.Run("a client of one node", func(t *testing.T) {
		t.Parallel()
		n, err := backend(t, one).EvictAll(t.Context(), nil)
		if n != 0 || !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), "cluster") {
			t.Errorf("EvictAll = %d, %v, want an *InvalidError: the other nodes' marks would stay", n, err)
		}
	})
	t.Run("two resources", func(t *testing.T) {
		t.Parallel()
		x, y, z := slots(t, one)
		tx, ty, tz := raised(t, b, x, 1), raised(t, b, y, 1), raised(t, b, z, 1)
		both := func(other string) []storage.Op {
			return []storage.Op{storage.Put(x, "a", nil), storage.Put(other, "a", nil)}
		}
		if _, err := apply(t.Context(), b, both(y), tx, ty); err != nil {
			t.Errorf("two resources of one slot: %v", err)
		}
		for _, key := range []string{"", "k"} {
			err := b.Apply(t.Context(), []storage.Commit{{Tokens: []fencing.Token{tx, tz}, Ops: both(z), Key: key}})[0].Err
			if !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), "cluster") {
				t.Errorf("two slots, key %q: got %v, want an *InvalidError that says why", key, err)
			}
		}
		if rec, err := b.Get(t.Context(), x, "a"); err != nil || rec.Version != 1 {
			t.Errorf("got version %d, %v, want the first commit only", rec.Version, err)
		}
	})
}

// slots returns two resources of one slot, and one of another.
func slots(t *testing.T, c *redis.Client) (x, y, other string) {
	t.Helper()
	seen := map[int64]string{}
	for i := range 16385 {
		name := fmt.Sprintf("slot:%d", i)
		slot, err := c.ClusterKeySlot(t.Context(), markKey(name)).Result()
		if err != nil {
			t.Fatal(err)
		}
		if twin, ok := seen[slot]; ok {
			for s, o := range seen {
				if s != slot {
					return twin, name, o
				}
			}
		}
		seen[slot] = name
	}
	t.Fatal("no two names share a slot")
	return "", "", ""
}

// TestListSeesBytes: the order of keys is that of bytes, whatever the server's locale.
func TestListSeesBytes(t *testing.T) {
	t.Parallel()
	b := backend(t, connect(t, testenv.StartRedis(t, &testenv.RedisOptions{Env: []string{"LC_ALL=C.UTF-8"}})))
	tok := raised(t, b, "list", 1)
	var want []string
	for _, key := range []string{"b", "aB", "a-b", "a", "Z", "B", "A", "0"} {
		want = append(want, key)
		if err := put(t.Context(), b, tok, key, key); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	var got []string
	for after := ""; ; {
		page, err := b.List(t.Context(), "list", "", after, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range page {
			got = append(got, rec.Key)
			after = rec.Key
		}
		if len(page) < 3 {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTakeoverIsANewIncarnation: a replica of a cluster is restarted, does not know where its
// primary was, and is promoted. It is a primary then under the replication history of the old
// one, with what it had kept of its data: only the run tells.
func TestTakeoverIsANewIncarnation(t *testing.T) {
	t.Parallel()
	o := &testenv.RedisOptions{Args: append([]string{"--cluster-enabled", "yes"}, quickSync.Args...)}
	first, second := testenv.StartRedis(t, o), testenv.StartRedis(t, o)
	c1, c2 := connect(t, first), connect(t, second)
	ctx := t.Context()
	is := func(c *redis.Client, section, text string) func() bool {
		return func() bool { return strings.Contains(c.Info(ctx, section).Val(), text) }
	}
	up := func(c *redis.Client) func() bool {
		return func() bool { return strings.Contains(c.ClusterInfo(ctx).Val(), "cluster_state:ok") }
	}
	host, port, _ := strings.Cut(first.Addr(), ":")
	id := c1.Do(ctx, "CLUSTER", "MYID").String()
	id = id[strings.LastIndex(id, " ")+1:]
	if err := errors.Join(c1.ClusterAddSlotsRange(ctx, 0, 16383).Err(), c2.ClusterMeet(ctx, host, port).Err()); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 30*time.Second, "the second server is a replica", func() bool { return c2.ClusterReplicate(ctx, id).Err() == nil })
	testenv.Eventually(t, 30*time.Second, "the replica has its data", is(c2, "replication", "master_link_status:up"))
	testenv.Eventually(t, 30*time.Second, "the cluster is up", up(c1))

	tok := raised(t, backend(t, c1), "coupon:42", 34)
	if err := put(ctx, backend(t, c1), tok, "a", "1"); err != nil {
		t.Fatal(err)
	}
	if n, err := c1.Wait(ctx, 1, 10*time.Second).Result(); n != 1 {
		t.Fatalf("WAIT = %d, %v", n, err)
	}
	history := historyOf(t, c1)
	if err := errors.Join(c2.Save(ctx).Err(), c2.Do(ctx, "CLUSTER", "SAVECONFIG").Err()); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(c2.ConfigGet(ctx, "dir").Val()["dir"], "nodes.conf")
	first.Kill()
	second.Kill()
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	forgotten := regexp.MustCompile(`(?m)^`+id+` \S+ master\S*`).ReplaceAll(text, []byte(id+" :0@0 master,noaddr"))
	if err := os.WriteFile(conf, forgotten, 0o600); err != nil {
		t.Fatal(err)
	}
	second.Restart()
	_ = c2.Ping(ctx).Err()
	if err := c2.Do(ctx, "CLUSTER", "FAILOVER", "TAKEOVER").Err(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 30*time.Second, "the replica serves", up(c2))
	if got := historyOf(t, c2); got != history {
		t.Logf("this Redis began the history %s where others keep %s", got, history)
	}
	wantEnded(t, backend(t, c2), tok)
}

func historyOf(t *testing.T, c *redis.Client) string {
	t.Helper()
	m := regexp.MustCompile(`master_replid:(\w+)`).FindStringSubmatch(c.Info(t.Context(), "replication").Val())
	if m == nil {
		t.Fatal("INFO tells no master_replid")
	}
	return m[1]
}
