package redlock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redlock"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// patient is a NodeTimeout for tests in which no node is down.
const patient = 10 * time.Second

// cluster is a set of private masters.
type cluster struct {
	servers []*testenv.Redis
}

func start(t *testing.T, n int, o *testenv.RedisOptions) *cluster {
	t.Helper()
	c := &cluster{servers: make([]*testenv.Redis, n)}
	for i := range c.servers {
		c.servers[i] = testenv.StartRedis(t, o)
	}
	return c
}

// backend is a process of its own: it has its own connections.
func (c *cluster) backend(tb testing.TB, o redlock.Options, hooks ...redis.Hook) *redlock.Backend {
	tb.Helper()
	var clients []redis.UniversalClient
	for i, s := range c.servers {
		client := connect(s)
		if i < len(hooks) && hooks[i] != nil {
			client.AddHook(hooks[i])
		}
		tb.Cleanup(func() { _ = client.Close() })
		clients = append(clients, client)
	}
	b, err := redlock.New(clients, &o)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// ready is backend on a cluster that it initialises.
func (c *cluster) ready(t *testing.T, o redlock.Options) *redlock.Backend {
	t.Helper()
	patientOptions := o
	patientOptions.NodeTimeout = patient
	if err := c.backend(t, patientOptions).Init(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return c.backend(t, o)
}

func connect(s *testenv.Redis) *redis.Client { return dial(s.Addr()) }

func dial(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: 4, ReadTimeout: patient, WriteTimeout: patient,
	})
}

func request(resource string) locking.Request {
	return locking.Request{Resource: resource, Grant: fencing.NewGrant(), Label: "tester", TTL: 30 * time.Second}
}

func must(t *testing.T, b locking.Backend, r locking.Request) locking.Hold {
	t.Helper()
	h, err := b.TryAcquire(t.Context(), r)
	if err != nil {
		t.Fatalf("TryAcquire(%v) = %v", r, err)
	}
	return h
}

func release(t *testing.T, b locking.Backend, tok fencing.Token) {
	t.Helper()
	if freed, err := b.Release(t.Context(), tok); !freed || err != nil {
		t.Fatalf("Release(%v) = %v, %v", tok, freed, err)
	}
}

func wantState(t *testing.T, b *redlock.Backend, want ...redlock.NodeState) {
	t.Helper()
	for i, st := range b.Nodes(t.Context()) {
		if st.State != want[i] {
			t.Errorf("node %d is %v (%v), want %v", i, st.State, st.Err, want[i])
		}
	}
}

// together runs fn n times in parallel.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}
