package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/redlock"
)

const (
	ok         = redlock.NodeOK
	quarantine = redlock.NodeQuarantine
	down       = redlock.NodeDown
)

func TestBackend(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			b := start(t, n, nil).ready(t, redlock.Options{NodeTimeout: patient})
			lockingtest.RunBackend(t, lockingtest.BackendHarness{
				New:    func(testing.TB) locking.Backend { return b },
				Unique: testenv.Unique,
				Wakes:  true,
			})
		})
	}
}

// TestBackendWithAMinorityDown: one of three nodes is dead, one of five in quarantine.
func TestBackendWithAMinorityDown(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*testenv.Redis){
		"dead":           func(r *testenv.Redis) { r.Kill() },
		"returned empty": func(r *testenv.Redis) { r.RestartEmpty() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, 3, nil)
			b := c.ready(t, redlock.Options{NodeTimeout: patient})
			fault(c.servers[1])
			lockingtest.RunBackend(t, lockingtest.BackendHarness{
				New:    func(testing.TB) locking.Backend { return b },
				Unique: testenv.Unique,
				Wakes:  true,
			})
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	client := func(addr string, change func(*redis.Options)) redis.UniversalClient {
		o := &redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true}
		if change != nil {
			change(o)
		}
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	a, b, c := client("a:1", nil), client("b:1", nil), client("c:1", nil)
	clusterClient := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"e:1"}, MaxRetries: -1})
	failover := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"f:1"}, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = clusterClient.Close(); _ = failover.Close() })
	for name, test := range map[string]struct {
		nodes []redis.UniversalClient
		o     *redlock.Options
	}{
		"no node":         {nil, &redlock.Options{FewNodes: true}},
		"two nodes":       {[]redis.UniversalClient{a, b}, nil},
		"one twice":       {[]redis.UniversalClient{a, b, client("a:1", nil)}, nil},
		"retries":         {[]redis.UniversalClient{a, b, client("x:1", func(o *redis.Options) { o.MaxRetries = 0 })}, nil},
		"deadlines":       {[]redis.UniversalClient{a, b, client("x:1", func(o *redis.Options) { o.ContextTimeoutEnabled = false })}, nil},
		"nil":             {[]redis.UniversalClient{a, b, nil}, nil},
		"cluster":         {[]redis.UniversalClient{a, b, clusterClient}, nil},
		"failover":        {[]redis.UniversalClient{a, b, failover}, nil},
		"prefix":          {[]redis.UniversalClient{a, b, c}, &redlock.Options{Prefix: "{"}},
		"node timeout":    {[]redis.UniversalClient{a, b, c}, &redlock.Options{NodeTimeout: -1}},
		"drift":           {[]redis.UniversalClient{a, b, c}, &redlock.Options{Drift: -1}},
		"max TTL too big": {[]redis.UniversalClient{a, b, c}, &redlock.Options{MaxTTL: 2 * time.Hour}},
	} {
		if _, err := redlock.New(test.nodes, test.o); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%s: got %v, want an *InvalidError", name, err)
		}
	}
}

func TestTTLBeyondMaxIsRefused(t *testing.T) {
	t.Parallel()
	b := start(t, 3, nil).ready(t, redlock.Options{NodeTimeout: patient, MaxTTL: 10 * time.Second})
	r := request("r")
	if _, err := b.TryAcquire(t.Context(), r); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("TryAcquire = %v, want an *InvalidError", err)
	}
	r.TTL = 10 * time.Second
	tok := must(t, b, r).Token
	if err := b.Renew(t.Context(), time.Minute, []fencing.Token{tok})[0]; !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Renew = %v, want an *InvalidError", err)
	}
}

// TestSilentNode: a node that does not answer slows nothing beyond NodeTimeout, and
// the lock that reaches it late is taken back.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	c := start(t, 3, nil)
	b := c.ready(t, redlock.Options{NodeTimeout: timeout})
	warm := must(t, b, request("r")) // connections are open, scripts are known
	release(t, b, warm.Token)
	c.servers[2].Pause()
	within := func(what string, limit time.Duration, fn func()) {
		t.Helper()
		begin := time.Now()
		fn()
		// The answers of the others take a little time of their own.
		if took := time.Since(begin); took > limit+timeout*4/5 {
			t.Errorf("%s took %v, want at most %v", what, took, limit)
		}
	}
	var h locking.Hold
	within("TryAcquire", timeout, func() { h = must(t, b, request("r")) })
	within("Renew", timeout, func() {
		if err := b.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0]; err != nil {
			t.Errorf("Renew = %v", err)
		}
	})
	within("Status", timeout, func() {
		if st, err := b.Status(t.Context(), "r"); err != nil || !st.Held || st.Number != h.Token.Number {
			t.Errorf("Status = %+v, %v", st, err)
		}
	})
	within("List", 2*timeout, func() {
		if list, err := b.List(t.Context(), "", "", 10); err != nil || len(list) != 1 {
			t.Errorf("List = %+v, %v", list, err)
		}
	})
	within("Release", timeout, func() { release(t, b, h.Token) })
	within("TryAcquire", timeout, func() { h = must(t, b, request("late")) })
	release(t, b, h.Token)

	c.servers[2].Resume()
	testenv.Eventually(t, 30*time.Second, "the node answers", func() bool { return b.Nodes(t.Context())[2].State == ok })
	direct := connect(c.servers[2])
	t.Cleanup(func() { _ = direct.Close() })
	testenv.Eventually(t, 30*time.Second, "the node has no lock that nobody holds", func() bool {
		_ = b.Nodes(t.Context())
		n, err := direct.Exists(t.Context(), "fencegate:{r}:lock", "fencegate:{late}:lock").Result()
		return n == 0 && err == nil
	})
}

// TestGivenUpAttemptStaysAway: a grant that arrives after its attempt was taken back does nothing.
func TestGivenUpAttemptStaysAway(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second // in which those that are not stopped answer
	c := start(t, 3, nil)
	b := c.ready(t, redlock.Options{NodeTimeout: timeout})
	release(t, b, must(t, b, request("r")).Token)
	for _, s := range c.servers[1:] {
		s.Pause()
	}
	_, err := b.TryAcquire(t.Context(), request("r"))
	if fencing.OutcomeOf(err) != fencing.Failed {
		t.Fatalf("without a majority: got %v, want failed", err)
	}
	for _, s := range c.servers[1:] {
		s.Resume()
	}
	testenv.Eventually(t, 30*time.Second, "the nodes answer", func() bool {
		for _, st := range b.Nodes(t.Context()) {
			if st.State != ok {
				return false
			}
		}
		return true
	})
	h := must(t, b, request("r"))
	if h.Token.Number < 2 {
		t.Errorf("got %v", h.Token)
	}
	release(t, b, h.Token)
}

func TestNoMajority(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	b := c.ready(t, redlock.Options{NodeTimeout: patient})
	h := must(t, b, request("r"))
	c.servers[0].Kill()
	c.servers[1].Kill()
	wantState(t, b, down, down, ok)
	want := func(what string, err error, o fencing.Outcome) {
		t.Helper()
		if fencing.OutcomeOf(err) != o || err == nil {
			t.Errorf("%s: got %v (%v), want %v", what, err, fencing.OutcomeOf(err), o)
		}
	}
	_, err := b.TryAcquire(t.Context(), request("other"))
	want("TryAcquire", err, fencing.Failed)
	want("Renew", b.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0], fencing.Unknown)
	_, err = b.Status(t.Context(), "r")
	want("Status", err, fencing.Failed)
	_, err = b.List(t.Context(), "", "", 10)
	want("List", err, fencing.Failed)
	want("Evict", b.Evict(t.Context(), "r", h.Token.Number), fencing.Unknown)
	_, err = b.Release(t.Context(), h.Token)
	want("Release", err, fencing.Unknown)
}

// TestRepeatFromAnotherProcess: the hold is known to every process, also with a node down.
func TestRepeatFromAnotherProcess(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	b := c.ready(t, redlock.Options{NodeTimeout: patient})
	r := request("r")
	h := must(t, b, r)
	c.servers[0].Kill()
	other := c.backend(t, redlock.Options{NodeTimeout: patient})
	if again := must(t, other, r); again.Token != h.Token || again.Drawn {
		t.Errorf("got %v (drawn %v), want %v, not drawn", again.Token, again.Drawn, h.Token)
	}
	// As if the confirm had never reached another node: no majority knows the number, and
	// the grant is numbered anew.
	direct := connect(c.servers[1])
	t.Cleanup(func() { _ = direct.Close() })
	if err := errors.Join(
		direct.Del(t.Context(), "fencegate:{r}:lock").Err(),
		direct.HDel(t.Context(), "fencegate:{r}:counter", "grant", "number").Err(),
	); err != nil {
		t.Fatal(err)
	}
	again := must(t, other, r)
	if again.Token.Number <= h.Token.Number || !again.Drawn {
		t.Errorf("got %v (drawn %v), want a higher number, drawn", again.Token, again.Drawn)
	}
	if err := other.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0]; !errors.Is(err, locking.ErrLost) {
		t.Errorf("Renew of the old number = %v, want ErrLost", err)
	}
}

// TestQuarantine: a node that came back empty never grants until it is admitted.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	const maxTTL = 2 * time.Second // it is given back within that
	c := start(t, 3, nil)
	o := redlock.Options{NodeTimeout: patient, MaxTTL: maxTTL}
	b := c.backend(t, o)
	r := request("r")
	r.TTL = maxTTL
	if _, err := b.TryAcquire(t.Context(), r); fencing.OutcomeOf(err) != fencing.Failed || !strings.Contains(err.Error(), "quarantine") {
		t.Fatalf("before Init: got %v, want failed: nodes in quarantine", err)
	}
	wantState(t, b, quarantine, quarantine, quarantine)
	for range 2 { // until the first grant it may be repeated
		if err := b.Init(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	wantState(t, b, ok, ok, ok)
	wantState(t, c.backend(t, redlock.Options{NodeTimeout: patient}), quarantine, quarantine, quarantine) // another MaxTTL
	r.Floor = 41
	release(t, b, must(t, b, r).Token)
	if err := b.Init(t.Context(), nil); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Init of a cluster in use = %v, want an *InvalidError", err)
	}

	c.servers[0].RestartEmpty()
	testenv.Eventually(t, 30*time.Second, "the node answers", func() bool { return b.Nodes(t.Context())[0].State == quarantine })
	direct := connect(c.servers[0])
	t.Cleanup(func() { _ = direct.Close() })
	next := func() locking.Request {
		return locking.Request{Resource: "r", Grant: fencing.NewGrant(), TTL: maxTTL}
	}
	h := must(t, b, next())
	if h.Token.Number != 43 {
		t.Errorf("got %v, want 43", h.Token)
	}
	release(t, b, h.Token)
	if n := direct.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("a node in quarantine has %d keys, want none", n)
	}
	c.servers[1].Pause()
	fast := c.backend(t, redlock.Options{NodeTimeout: 100 * time.Millisecond, MaxTTL: maxTTL})
	if _, err := fast.TryAcquire(t.Context(), next()); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("with one node: got %v, want failed", err)
	}
	if err := fast.Admit(t.Context(), 0, nil); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("Admit with one peer = %v, want failed", err)
	}
	c.servers[1].Resume()
	wantState(t, b, quarantine, ok, ok)

	begin := time.Now()
	if err := b.Admit(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < maxTTL {
		t.Errorf("Admit took %v, want the longest TTL", took)
	}
	wantState(t, b, ok, ok, ok)
	if got := direct.HGet(t.Context(), "fencegate:{r}:counter", "number").Val(); got != "43" {
		t.Errorf("the node was admitted with number %q, want 43", got)
	}
	if err := b.Admit(t.Context(), 0, nil); err != nil {
		t.Errorf("Admit of a fit node = %v", err)
	}
	c.servers[2].Kill()
	if h := must(t, b, next()); h.Token.Number < 44 {
		t.Errorf("got %v with the node that was admitted, want 44 or more", h.Token)
	}
}

func TestRestartIsQuarantineUnlessDurable(t *testing.T) {
	t.Parallel()
	c := start(t, 3, &testenv.RedisOptions{AppendOnly: true})
	for _, durable := range []bool{false, true} {
		o := redlock.Options{NodeTimeout: patient, Durable: durable, Prefix: fmt.Sprint("durable-", durable)}
		b := c.ready(t, o)
		must(t, b, request("r"))
		c.servers[1].Restart()
		want := quarantine
		if durable {
			want = ok
		}
		testenv.Eventually(t, 30*time.Second, "the node answers", func() bool { return b.Nodes(t.Context())[1].State != down })
		wantState(t, b, ok, want, ok)
	}
	weak := start(t, 3, nil).backend(t, redlock.Options{NodeTimeout: patient, Durable: true})
	if err := weak.Init(t.Context(), nil); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Init of nodes that forget as durable = %v, want an *InvalidError", err)
	}
}

// TestNumbersUnderFaults: eight processes, nodes that stop and go on at random.
func TestNumbersUnderFaults(t *testing.T) {
	t.Parallel()
	const clients, enough = 8, 60
	c := start(t, 5, nil)
	o := redlock.Options{NodeTimeout: 60 * time.Millisecond}
	c.ready(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var mu sync.Mutex // guards seen and complete
	seen := map[int64]bool{}
	complete := int64(0)
	var backends []*redlock.Backend
	for range clients {
		backends = append(backends, c.backend(t, o))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		together(clients, func(i int) {
			for ctx.Err() == nil {
				mu.Lock()
				before := complete
				mu.Unlock()
				r := request("r")
				r.TTL = 200 * time.Millisecond
				h, err := backends[i].TryAcquire(ctx, r)
				if err != nil {
					time.Sleep(rand.N(5 * time.Millisecond))
					continue
				}
				mu.Lock()
				if seen[h.Token.Number] || h.Token.Number <= before {
					t.Errorf("number %d: seen before %v, %d was complete", h.Token.Number, seen[h.Token.Number], before)
				}
				seen[h.Token.Number] = true
				complete = max(complete, h.Token.Number)
				if len(seen) >= enough {
					cancel()
				}
				mu.Unlock()
				if rand.N(4) > 0 {
					_, _ = backends[i].Release(ctx, h.Token)
				}
			}
		})
	})
	// Server is for the goroutine of the test.
	for ctx.Err() == nil {
		a, b := rand.N(5), rand.N(5)
		c.servers[a].Pause()
		if b != a {
			c.servers[b].Pause()
		}
		time.Sleep(rand.N(150 * time.Millisecond))
		c.servers[a].Resume()
		c.servers[b].Resume()
		time.Sleep(rand.N(60 * time.Millisecond))
	}
	wg.Wait()
	t.Logf("%d grants", len(seen))
	if len(seen) < 10 {
		t.Errorf("only %d grants", len(seen))
	}
}
