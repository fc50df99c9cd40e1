package redislock_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redislock"
)

// TestMain also looks for goroutines that are left over: a subscription ends, late, with
// the last waiter.
func TestMain(m *testing.M) {
	code := testenv.Run(m)
	for tries := 10; code == 0; tries-- { // about a second each
		err := goleak.Find(testenv.Goroutines()...)
		if err == nil {
			break
		}
		if tries == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

const minute = time.Minute

// startCluster returns the first of two masters.
func startCluster(t *testing.T) *testenv.Redis {
	t.Helper()
	var servers []*testenv.Redis
	for i := range 2 {
		server := testenv.StartRedis(t, &testenv.RedisOptions{Args: []string{"--cluster-enabled", "yes"}})
		servers = append(servers, server)
		if err := connect(t, server).ClusterAddSlotsRange(t.Context(), i*8192, i*8192+8191).Err(); err != nil {
			t.Fatal(err)
		}
	}
	host, port, _ := strings.Cut(servers[1].Addr(), ":")
	if err := connect(t, servers[0]).ClusterMeet(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	for _, server := range servers {
		one := connect(t, server)
		testenv.Eventually(t, 60*time.Second, "the cluster is up", func() bool {
			return strings.Contains(one.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
		})
	}
	return servers[0]
}

func connectCluster(t *testing.T, server *testenv.Redis) *redis.ClusterClient {
	t.Helper()
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}, MaxRetries: -1, ContextTimeoutEnabled: true, ReadTimeout: 10 * time.Second})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func connect(tb testing.TB, r *testenv.Redis) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: r.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, ReadTimeout: 10 * time.Second,
	})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func backend(tb testing.TB, c redis.UniversalClient) *redislock.Backend {
	tb.Helper()
	b, err := redislock.New(c, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func request(resource string) locking.Request {
	return locking.Request{Resource: resource, Grant: fencing.NewGrant(), Label: "tester", TTL: minute}
}

func must(t *testing.T, b locking.Backend, r locking.Request) locking.Hold {
	t.Helper()
	h, err := b.TryAcquire(t.Context(), r)
	if err != nil {
		t.Fatalf("TryAcquire(%v) = %v", r, err)
	}
	return h
}

func renewed(t *testing.T, b locking.Backend, ttl time.Duration, tok fencing.Token) {
	t.Helper()
	if err := b.Renew(t.Context(), ttl, []fencing.Token{tok})[0]; err != nil {
		t.Fatalf("Renew = %v", err)
	}
}

func lockKey(resource string) string    { return "fencegate:{" + resource + "}:lock" }
func counterKey(resource string) string { return "fencegate:{" + resource + "}:counter" }

func wantLeft(t *testing.T, c *redis.Client, resource string, least, most time.Duration) {
	t.Helper()
	if got := c.PTTL(t.Context(), lockKey(resource)).Val(); got < least || got > most {
		t.Errorf("the hold lasts for %v more, want %v to %v", got, least, most)
	}
}
