package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/redisstore"
)

// gate counts the round trips of scripts, and holds them back while it is locked.
type gate struct {
	sync.RWMutex
	trips, pipelines atomic.Int64
}

func (*gate) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		g.pass(cmd)
		return next(ctx, cmd)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if g.pass(cmds[0]) {
			g.pipelines.Add(1)
		}
		return next(ctx, cmds)
	}
}

func (g *gate) pass(cmd redis.Cmder) bool {
	if !strings.HasPrefix(cmd.Name(), "eval") {
		return false // of a new connection
	}
	g.trips.Add(1)
	g.RLock()
	defer g.RUnlock()
	return true
}

// gated returns a backend whose round trips pass a gate, and a client that passes none.
func gated(t *testing.T, server *testenv.Redis) (*redisstore.Backend, *redis.Client, *gate) {
	t.Helper()
	c, g := connect(t, server), &gate{}
	c.AddHook(g)
	return backend(t, c), connect(t, server), g
}

// together lets calls gather behind round trips that the gate holds back, calls before, and
// lets them go.
func together(t *testing.T, g *gate, before func(), calls ...func()) {
	t.Helper()
	g.trips.Store(0)
	g.pipelines.Store(0)
	g.Lock()
	var wg sync.WaitGroup
	for _, call := range calls {
		wg.Go(call)
	}
	testenv.Eventually(t, 30*time.Second, "round trips are under way", func() bool { return g.trips.Load() >= 3 })
	before()
	g.Unlock()
	wg.Wait()
	if len(calls) >= 16 && g.pipelines.Load() == 0 {
		t.Error("no calls shared a pipeline")
	}
}

// TestPipelineHarmsOnlyWhatItMust: calls of all kinds go together, each with its own answer.
func TestPipelineHarmsOnlyWhatItMust(t *testing.T) {
	t.Parallel()
	b, c, g := gated(t, testenv.StartRedis(t, nil))
	const each = 10
	var calls []func()
	for i := range each {
		good := raised(t, b, fmt.Sprint("good:", i), 34)
		stale := fencing.Token{Resource: good.Resource, Number: 33, Grant: good.Grant}
		broken := raised(t, b, fmt.Sprint("broken:", i), 34)
		if err := c.Set(t.Context(), recordsKey(broken.Resource), "not a hash", 0).Err(); err != nil {
			t.Fatal(err)
		}
		calls = append(calls,
			func() {
				if err := put(t.Context(), b, good, "a", "1"); err != nil {
					t.Errorf("a good commit: %v", err)
				}
			},
			func() { wantReason(t, put(t.Context(), b, stale, "b", "1"), fencing.Superseded) },
			func() {
				if err := put(t.Context(), b, broken, "a", "1"); fencing.OutcomeOf(err) != fencing.Failed {
					t.Errorf("a commit on what is no hash: got %v, want failed", err)
				}
			},
			func() { _ = raised(t, b, fmt.Sprint("raised:", i), 1) },
			func() {
				if m, err := b.Mark(t.Context(), good.Resource); err != nil || m.Number != 34 {
					t.Errorf("Mark = %v, %v", m, err)
				}
			},
			func() {
				if _, err := b.GetFenced(t.Context(), good, "none"); !errors.Is(err, storage.ErrNotFound) {
					t.Errorf("GetFenced = %v, want ErrNotFound", err)
				}
			},
		)
	}
	together(t, g, func() {}, calls...)
	if got := g.trips.Load(); got > int64(len(calls)) {
		t.Errorf("%d calls took %d round trips", len(calls), got)
	}
	for i := range each {
		if rec, err := b.Get(t.Context(), fmt.Sprint("good:", i), "a"); err != nil || rec.Version != 1 {
			t.Errorf("got version %d, %v, want one commit", rec.Version, err)
		}
	}
}

// TestPipelineForgotten: a server that forgets its scripts carries out each commit once.
func TestPipelineForgotten(t *testing.T) {
	t.Parallel()
	b, c, g := gated(t, testenv.StartRedis(t, nil))
	tok := raised(t, b, "coupon:42", 34)
	const adds = 40
	calls := slices.Repeat([]func(){func() {
		if _, _, err := add(t.Context(), b, tok, ""); err != nil {
			t.Error(err)
		}
	}}, adds)
	together(t, g, func() {
		if err := c.ScriptFlush(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	}, calls...)
	wantAdd(t, b, tok, "", adds+1, false)
}

// TestPipelineOfAServerInTrouble: what a server does not do fails, in a pipeline as by itself,
// and what it can do is done.
func TestPipelineOfAServerInTrouble(t *testing.T) {
	t.Parallel()
	for _, trouble := range []struct {
		name       string
		begin, end func(t *testing.T, server *testenv.Redis, c *redis.Client)
		reads      bool // are carried out
	}{
		{
			"memory is short",
			func(t *testing.T, _ *testenv.Redis, c *redis.Client) {
				must(t, c.ConfigSet(t.Context(), "maxmemory", "1").Err())
			},
			func(t *testing.T, _ *testenv.Redis, c *redis.Client) {
				must(t, c.ConfigSet(t.Context(), "maxmemory", "0").Err())
			},
			true,
		},
		{
			"a script runs for ever",
			func(t *testing.T, server *testenv.Redis, c *redis.Client) {
				must(t, c.ConfigSet(t.Context(), "lua-time-limit", "1").Err())
				other := connect(t, server)
				go func() { _ = other.Eval(context.WithoutCancel(t.Context()), "while true do end", nil).Err() }()
				testenv.Eventually(t, 30*time.Second, "the server is busy", func() bool {
					return redis.HasErrorPrefix(c.Ping(t.Context()).Err(), "BUSY")
				})
			},
			func(t *testing.T, _ *testenv.Redis, c *redis.Client) {
				must(t, c.ScriptKill(t.Context()).Err())
				testenv.Eventually(t, 30*time.Second, "the server is idle", func() bool { return c.Ping(t.Context()).Err() == nil })
			},
			false,
		},
		{
			"a replica",
			func(t *testing.T, _ *testenv.Redis, c *redis.Client) {
				must(t, c.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
			},
			func(t *testing.T, _ *testenv.Redis, c *redis.Client) {
				must(t, c.ReplicaOf(t.Context(), "NO", "ONE").Err())
			},
			false,
		},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t, nil)
			b, c, g := gated(t, server)
			tok := raised(t, b, "coupon:42", 34)
			wantAdd(t, b, tok, "", 1, false)
			var calls []func()
			for i := range 20 {
				calls = append(calls,
					func() {
						if _, _, err := add(t.Context(), b, tok, strings.Repeat("k", i)); fencing.OutcomeOf(err) != fencing.Failed {
							t.Errorf("a commit: got %v, want failed", err)
						}
					},
					func() {
						rec, err := b.GetFenced(t.Context(), tok, "n")
						if trouble.reads && (err != nil || string(rec.Value) != "1") || !trouble.reads && fencing.OutcomeOf(err) != fencing.Failed {
							t.Errorf("a fenced read: got %q, %v", rec.Value, err)
						}
					})
			}
			together(t, g, func() { trouble.begin(t, server, c) }, calls...)
			trouble.end(t, server, c)
			wantAdd(t, b, raised(t, b, "coupon:42", 35), "", 2, false)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPipelineContexts: who gives up while a pipeline is under way does not know, and the
// others have their answers.
func TestPipelineContexts(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	b, _, g := gated(t, server)
	toks := make([]fencing.Token, 24)
	for i := range toks {
		toks[i] = raised(t, b, fmt.Sprint("coupon:", i), 34)
	}
	results := make(chan error, len(toks))
	left := make(chan error, len(toks))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	g.trips.Store(0)
	g.pipelines.Store(0)
	server.Pause()
	for i, tok := range toks {
		go func() {
			if i%2 == 0 {
				results <- put(t.Context(), b, tok, "a", "1")
			} else {
				left <- put(ctx, b, tok, "a", "1")
			}
		}()
	}
	testenv.Eventually(t, 30*time.Second, "a pipeline is under way", func() bool { return g.pipelines.Load() > 0 })
	leave()
	heard, unknown := 0, 0
	hear := func(err error) {
		heard++
		switch fencing.OutcomeOf(err) {
		case fencing.Unknown:
			unknown++
		case fencing.Failed, fencing.Applied:
		default:
			t.Errorf("who left: got %v", err)
		}
	}
	testenv.Eventually(t, 30*time.Second, "one who left does not know", func() bool {
		select {
		case err := <-left:
			hear(err)
		default:
		}
		return unknown > 0
	})
	server.Resume()
	for range len(toks) / 2 {
		if err := <-results; err != nil {
			t.Errorf("a neighbour of who left: %v", err)
		}
	}
	for heard < len(toks)/2 {
		hear(<-left)
	}
	for i, tok := range toks {
		rec, err := storage.Record{}, error(nil)
		testenv.Eventually(t, 30*time.Second, "the commit is there", func() bool {
			rec, err = b.Get(t.Context(), tok.Resource, "a")
			return i%2 == 1 || err == nil
		})
		if err == nil && rec.Version != 1 {
			t.Errorf("commit %d was applied %d times", i, rec.Version)
		}
	}
}
