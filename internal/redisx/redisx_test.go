package redisx_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var count = redisx.NewScript("-- Returns the count; KEYS: counter.", "return {tostring(redis.call('INCR', KEYS[1]))}")

func TestCheckClient(t *testing.T) {
	t.Parallel()
	nowhere := "127.0.0.1:1"
	for name, c := range map[string]struct {
		client redis.UniversalClient
		ok     bool
	}{
		"nil":                       {nil, false},
		"retries by default":        {redis.NewClient(&redis.Options{Addr: nowhere}), false},
		"retries":                   {redis.NewClient(&redis.Options{Addr: nowhere, MaxRetries: 1}), false},
		"no retries":                {redis.NewClient(&redis.Options{Addr: nowhere, MaxRetries: -1}), true},
		"failover, retries":         {redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{nowhere}}), false},
		"failover, no retries":      {redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{nowhere}, MaxRetries: -1}), true},
		"cluster":                   {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nowhere}, MaxRetries: -1}), true},
		"cluster by default":        {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nowhere}}), true},
		"cluster, retries":          {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nowhere}, MaxRetries: 2}), false},
		"cluster, reads at random":  {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nowhere}, RouteRandomly: true}), false},
		"cluster, reads by latency": {redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nowhere}, RouteByLatency: true}), false},
		"ring":                      {redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": nowhere}, MaxRetries: -1}), false},
	} {
		err := redisx.CheckClient(c.client)
		if c.ok && err != nil || !c.ok && !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%s: got %v, want accepted = %t", name, err, c.ok)
		}
		if c.client != nil {
			_ = c.client.Close()
		}
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	if got, err := redisx.Prefix(""); got != "fencegate" || err != nil {
		t.Errorf("got %q, %v, want the default", got, err)
	}
	for _, bad := range []string{"{a}", "a*", "a b", ":", strings.Repeat("x", 201), "\x00"} {
		if _, err := redisx.Prefix(bad); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%q: got %v, want ErrInvalid", bad, err)
		}
	}
}

// TestErrorsShowNoArguments asks a server that does not know EVALSHA and repeats, in its
// answer, what it was sent.
func TestErrorsShowNoArguments(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, &testenv.RedisOptions{Args: []string{"--rename-command", "EVALSHA", ""}})
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	const secret = "SECRETSECRETSECRETSECRETSE"
	_, err := count.Run(t.Context(), c, redisx.Call{Keys: []string{"k"}, Args: []any{secret}})
	if fencing.OutcomeOf(err) != fencing.Failed || !strings.Contains(err.Error(), "unknown command") {
		t.Fatalf("got %v (%v), want failed: unknown command", err, fencing.OutcomeOf(err))
	}
	if strings.Contains(err.Error(), "SECRET") {
		t.Errorf("the error shows an argument: %v", err)
	}
}

// TestNeverSentTwice loses the reply of a script that has run. No client may send it
// again, whatever its options say.
func TestNeverSentTwice(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	direct := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = direct.Close() })
	for name, connect := range map[string]func(addr string) redis.UniversalClient{
		"client": func(addr string) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: 3, PoolSize: 1})
		},
		"cluster client without retries": func(addr string) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{
				MaxRetries: -1, PoolSize: 1,
				ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
					return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
				},
			})
		},
	} {
		for how, run := range map[string]func(c redis.UniversalClient, key string) error{
			"one": func(c redis.UniversalClient, key string) error {
				_, err := count.Run(t.Context(), c, redisx.Call{Keys: []string{key}})
				return err
			},
			"pipeline": func(c redis.UniversalClient, key string) error {
				call := redisx.Call{Keys: []string{key}}
				replies := count.RunEach(t.Context(), c, []redisx.Call{call, call})
				return replies[0].Err
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				p := newLossy(t, server.Addr())
				c := connect(p.addr)
				t.Cleanup(func() { _ = c.Close() })
				key := testenv.Unique(t, "count")
				if err := run(c, key); err != nil { // the script is known, a connection is open
					t.Fatal(err)
				}
				before, err := direct.Get(t.Context(), key).Int()
				if err != nil {
					t.Fatal(err)
				}
				p.lose.Store(true)
				if err := run(c, key); fencing.OutcomeOf(err) != fencing.Unknown {
					t.Errorf("got %v (%v), want unknown", err, fencing.OutcomeOf(err))
				}
				if p.lose.Load() {
					t.Fatal("no reply was lost")
				}
				// Whatever was sent again has been answered before this is.
				if err := run(c, testenv.Unique(t, "other")); err != nil {
					t.Fatal(err)
				}
				got, err := direct.Get(t.Context(), key).Int()
				if err != nil || got != 2*before {
					t.Errorf("got the count %d, %v, want %d: it ran twice", got, err, 2*before)
				}
			})
		}
	}
}

// lossy is a proxy that loses a reply, and the connection with it, on demand.
type lossy struct {
	addr string
	lose atomic.Bool
}

func newLossy(t *testing.T, server string) *lossy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &lossy{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", server)
			if err != nil {
				_ = c.Close()
				continue
			}
			go p.copy(s, c, false)
			go p.copy(c, s, true)
		}
	}()
	return p
}

func (p *lossy) copy(to, from net.Conn, replies bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || replies && p.lose.Swap(false) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func TestScriptsThatAreForgotten(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	for range 2 {
		replies := count.RunEach(t.Context(), c, []redisx.Call{{Keys: []string{"a"}}, {Keys: []string{"b"}}, {Keys: []string{"a"}}})
		for i, r := range replies {
			if r.Err != nil || len(r.Values) != 1 {
				t.Errorf("call %d: got %v", i, r)
			}
		}
		if _, err := count.Run(t.Context(), c, redisx.Call{Keys: []string{"b"}}); err != nil {
			t.Error(err)
		}
		if err := c.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]string{"a": "4", "b": "4"} {
		if got := c.Get(t.Context(), key).Val(); got != want {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	c := redis.NewClient(&redis.Options{
		Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1, PoolSize: 1,
		PoolTimeout: 50 * time.Millisecond, ReadTimeout: 2 * time.Second,
	})
	t.Cleanup(func() { _ = c.Close() })
	key := redisx.Call{Keys: []string{"k"}}
	run := func(want fencing.Outcome, what string) {
		t.Helper()
		_, err := count.Run(t.Context(), c, key)
		if got := fencing.OutcomeOf(err); got != want {
			t.Errorf("%s: got %v (%v), want %v", what, err, got, want)
		}
		for _, r := range count.RunEach(t.Context(), c, []redisx.Call{key, key}) {
			if got := fencing.OutcomeOf(r.Err); got != want {
				t.Errorf("%s, in a pipeline: got %v (%v), want %v", what, r.Err, got, want)
			}
		}
	}
	set := func(name, value string) {
		t.Helper()
		if err := c.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	run(fencing.Applied, "all is well")

	set("maxmemory", "1")
	run(fencing.Failed, "out of memory")
	set("maxmemory", "0")

	set("min-replicas-to-write", "1")
	run(fencing.Failed, "no replicas")
	set("min-replicas-to-write", "0")

	if err := c.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	run(fencing.Failed, "a replica")
	if err := c.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}

	if err := c.LPush(t.Context(), "list", "x").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := count.Run(t.Context(), c, redisx.Call{Keys: []string{"list"}})
	if got := fencing.OutcomeOf(err); got != fencing.Failed {
		t.Errorf("another type of key: got %v (%v), want failed", err, got)
	}
	proxy := redisx.NewScript("return redis.error_reply('ERR upstream failure')")
	_, err = proxy.Run(t.Context(), c, key)
	if got := fencing.OutcomeOf(err); got != fencing.Unknown {
		t.Errorf("an error of somebody between: got %v (%v), want unknown", err, got)
	}
	_, err = redisx.NewReadScript("return redis.error_reply('ERR upstream failure')").Run(t.Context(), c, key)
	if got := fencing.OutcomeOf(err); got != fencing.Failed {
		t.Errorf("the same for a script that only reads: got %v (%v), want failed", err, got)
	}

	busy := c.Conn() // the pool has one
	if err := busy.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	_, err = count.Run(t.Context(), c, key)
	if got := fencing.OutcomeOf(err); got != fencing.Failed {
		t.Errorf("a busy pool: got %v (%v), want failed", err, got)
	}
	_ = busy.Close()

	server.Pause()
	run(fencing.Unknown, "a paused server")
	server.Resume()
	testenv.Eventually(t, 30*time.Second, "the server answers", func() bool { return c.Ping(t.Context()).Err() == nil })

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = count.Run(ended, c, key)
	if got := fencing.OutcomeOf(err); got != fencing.Failed || !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: got %v (%v), want failed", err, got)
	}

	server.Kill()
	_ = c.Ping(t.Context()).Err() // the broken connection goes
	run(fencing.Failed, "nobody listens")

	_ = c.Close()
	run(fencing.Failed, "a closed client")
}
