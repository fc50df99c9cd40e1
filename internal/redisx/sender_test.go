package redisx_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/internal/testenv"
)

var incr = redisx.NewScript("return {tostring(redis.call('INCR', KEYS[1])), ARGV[1]}")

// trips counts round trips of a client, and holds them back while gate is closed.
type trips struct {
	n    atomic.Int64
	gate sync.RWMutex // locked: nobody passes
}

func (*trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.pass(cmd)
		return next(ctx, cmd)
	}
}

func (h *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.pass(cmds[0])
		return next(ctx, cmds)
	}
}

func (h *trips) pass(cmd redis.Cmder) {
	if cmd.Name() != "evalsha" && cmd.Name() != "eval" {
		return // of a new connection
	}
	h.n.Add(1)
	h.gate.RLock()
	defer h.gate.RUnlock()
}

func sender(tb testing.TB, server *testenv.Redis) (*redisx.Sender, *redis.Client, *trips) {
	tb.Helper()
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	tb.Cleanup(func() { _ = c.Close() })
	h := &trips{}
	c.AddHook(h)
	s := redisx.NewSender(c)
	s.SetPatience(time.Minute)
	return s, c, h
}

func call(key string, args ...any) redisx.Call { return redisx.Call{Keys: []string{key}, Args: args} }

// TestSenderGathers: while three round trips are under way, calls gather into the next; each
// gets its own answer, also after the server has forgotten the script.
func TestSenderGathers(t *testing.T) {
	t.Parallel()
	s, c, h := sender(t, testenv.StartRedis(t, nil))
	for _, round := range []string{"script unknown", "script known"} {
		key := testenv.Unique(t, "gather")
		h.n.Store(0)
		h.gate.Lock()
		const calls = 300
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				got, err := s.Run(t.Context(), incr, call(key, strconv.Itoa(i)))
				if err != nil || got[1] != strconv.Itoa(i) {
					t.Errorf("%s: call %d got %q, %v", round, i, got, err)
				}
			})
		}
		testenv.Eventually(t, 30*time.Second, "all calls wait", func() bool { return h.n.Load() == 3 && s.Waiting() == calls-3 })
		h.gate.Unlock()
		wg.Wait()
		// 3 by themselves, then 128 + 128 + 41; twice where the script is unknown.
		if got := h.n.Load(); got > 12 {
			t.Errorf("%s: %d calls took %d round trips", round, calls, got)
		}
		if n, err := c.Get(t.Context(), key).Int(); err != nil || n != calls {
			t.Errorf("%s: %d calls were carried out, %v", round, n, err)
		}
	}
}

// TestSenderAlone: calls one after the other are single commands.
func TestSenderAlone(t *testing.T) {
	t.Parallel()
	s, _, h := sender(t, testenv.SharedRedis(t))
	key := testenv.Unique(t, "alone")
	for range 11 {
		if _, err := s.Run(t.Context(), incr, call(key, "")); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.n.Load(); got != 11 && got != 12 { // the first may have to send the source
		t.Errorf("11 calls took %d round trips", got)
	}
}

// TestSenderOverACluster: a pipeline would wait for the slowest of its servers.
func TestSenderOverACluster(t *testing.T) {
	t.Parallel()
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { _ = c.Close() })
	if !redisx.NewSender(c).Alone() {
		t.Error("calls over a cluster share pipelines")
	}
}

// TestSenderContexts: who gives up before its call was sent has failed, and nothing is sent
// later; who gives up after it does not know.
func TestSenderContexts(t *testing.T) {
	t.Parallel()
	s, c, h := sender(t, testenv.SharedRedis(t))
	key := testenv.Unique(t, "contexts")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Run(ended, incr, call(key, "")); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("a context that has ended: got %v, want failed", err)
	}
	h.gate.Lock()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { _, _ = s.Run(t.Context(), incr, call(key, "")) })
	}
	testenv.Eventually(t, 30*time.Second, "three are under way", func() bool { return h.n.Load() == 3 })
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, incr, call(key, ""))
		result <- err
	}()
	testenv.Eventually(t, 30*time.Second, "one waits", func() bool { return s.Waiting() == 1 })
	cancel()
	if err := <-result; fencing.OutcomeOf(err) != fencing.Failed || !errors.Is(err, context.Canceled) {
		t.Errorf("not sent: got %v, want failed", err)
	}

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		go func() {
			_, err := s.Run(ctx, incr, call(key, ""))
			result <- err
		}()
	}
	testenv.Eventually(t, 30*time.Second, "two more wait", func() bool { return s.Waiting() == 2 })
	h.gate.Unlock()
	wg.Wait()
	for range 2 {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	if n, err := c.Get(t.Context(), key).Int(); err != nil || n != 5 {
		t.Errorf("%d calls were carried out, want 5; %v", n, err)
	}
}

// TestSenderPassesWhatHangs: round trips that hang do not keep other calls from being sent.
func TestSenderPassesWhatHangs(t *testing.T) {
	t.Parallel()
	s, _, h := sender(t, testenv.SharedRedis(t))
	s.SetPatience(10 * time.Millisecond)
	key := testenv.Unique(t, "hangs")
	h.gate.Lock()
	var wg sync.WaitGroup
	const calls = 8
	for range calls {
		wg.Go(func() {
			if _, err := s.Run(t.Context(), incr, call(key, "")); err != nil {
				t.Error(err)
			}
		})
	}
	testenv.Eventually(t, 30*time.Second, "all calls are under way", func() bool { return h.n.Load() > 3 && s.Waiting() == 0 })
	h.gate.Unlock()
	wg.Wait()
	testenv.Eventually(t, 30*time.Second, "no round trip is counted", func() bool { return s.Trips() == 0 })
}

// TestSenderLosesReplies: a pipeline that is cut off leaves every outcome unknown, and the
// next calls go on.
func TestSenderLosesReplies(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	s, _, _ := sender(t, server)
	if _, err := s.Run(t.Context(), incr, call("warm", "")); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	results := make(chan error, 40)
	for i := range cap(results) {
		go func() {
			_, err := s.Run(ctx, incr, call(fmt.Sprint("k", i), ""))
			results <- err
		}()
	}
	for range cap(results) {
		if err := <-results; fencing.OutcomeOf(err) != fencing.Unknown && fencing.OutcomeOf(err) != fencing.Failed {
			t.Errorf("got %v, want unknown, or failed where it was not sent", err)
		}
	}
	server.Resume()
	testenv.Eventually(t, 30*time.Second, "the round trips are over", func() bool { return s.Trips() == 0 })
	if _, err := s.Run(t.Context(), incr, call("after", "")); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

// TestSenderSentAndLeft: who leaves a pipeline that is under way does not know, unless the
// script only reads; nobody else of the pipeline notices, whoever has how much time.
func TestSenderSentAndLeft(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	s, c, h := sender(t, server)
	get := redisx.NewReadScript("return {redis.call('GET', KEYS[1]) or 'none', ARGV[1]}")
	key := testenv.Unique(t, "left")
	h.gate.Lock()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { _, _ = s.Run(t.Context(), incr, call(key, "")) })
	}
	testenv.Eventually(t, 30*time.Second, "three are under way", func() bool { return h.n.Load() == 3 })
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	long, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := func(ctx context.Context, script *redisx.Script) <-chan error {
		result := make(chan error, 1)
		go func() {
			_, err := s.Run(ctx, script, call(key, ""))
			result <- err
		}()
		return result
	}
	wrote, read := run(ctx, incr), run(ctx, get)
	stayed := []<-chan error{run(t.Context(), incr), run(long, incr)}
	testenv.Eventually(t, 30*time.Second, "four more wait", func() bool { return s.Waiting() == 4 })
	server.Pause()
	h.gate.Unlock()
	s.Next()
	testenv.Eventually(t, 30*time.Second, "all are sent", func() bool { return s.Waiting() == 0 })
	leave()
	if err := <-wrote; fencing.OutcomeOf(err) != fencing.Unknown || !errors.Is(err, context.Canceled) {
		t.Errorf("a script that writes: got %v, want unknown", err)
	}
	if err := <-read; fencing.OutcomeOf(err) != fencing.Failed || !errors.Is(err, context.Canceled) {
		t.Errorf("a script that reads: got %v, want failed", err)
	}
	server.Resume()
	for _, result := range stayed {
		if err := <-result; err != nil {
			t.Errorf("who stayed: %v", err)
		}
	}
	wg.Wait()
	if n, err := c.Get(t.Context(), key).Int(); err != nil || n != 6 {
		t.Errorf("%d calls were carried out, want 6; %v", n, err)
	}
}
