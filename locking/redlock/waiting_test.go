package redlock_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redlock"
)

// listeners is how many connections of all nodes wait for messages on the channel of "r".
func (c *cluster) listeners(t *testing.T) (n int64) {
	t.Helper()
	for _, s := range c.servers {
		d := connect(s)
		n += d.PubSubNumSub(t.Context(), "fencegate:{r}:free").Val()["fencegate:{r}:free"]
		_ = d.Close()
	}
	return n
}

// waiter is one that waits for "r", and sees each wake.
type waiter struct {
	*testing.T
	b     *redlock.Backend
	r     locking.Request
	woken chan struct{}
}

// newWaiter joins, and returns when the subscription has begun and nothing more comes of that.
func newWaiter(t *testing.T, c *cluster, b *redlock.Backend) *waiter {
	t.Helper()
	w := &waiter{T: t, b: b, r: request("r"), woken: make(chan struct{}, 1000)}
	w.join()
	w.wake("the beginning of the subscription") // to look for what came before
	testenv.Eventually(t, 30*time.Second, "the waiter to listen to every node", func() bool { return c.listeners(t) == int64(len(c.servers)) })
	for {
		select {
		case <-w.woken:
		case <-time.After(300 * time.Millisecond):
			return w
		}
	}
}

func (w *waiter) join() {
	w.Helper()
	if _, err := w.b.Join(w.Context(), w.r, func() { w.woken <- struct{}{} }); !errors.Is(err, locking.ErrHeld) {
		w.Fatalf("Join = %v, want held", err)
	}
}

// wake waits until it is woken, and not only because it has not joined for long.
func (w *waiter) wake(why string) {
	w.Helper()
	select {
	case <-w.woken:
	case <-time.After(locking.PlaceTTL - 500*time.Millisecond):
		w.Fatalf("nobody was woken by %s", why)
	}
}

// TestWokenByPublish: a release and an eviction elsewhere wake those who wait, long before
// the holder's time is up.
func TestWokenByPublish(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(*redlock.Backend, locking.Hold) error{
		"released": func(b *redlock.Backend, h locking.Hold) error {
			_, err := b.Release(context.Background(), h.Token)
			return err
		},
		"evicted": func(b *redlock.Backend, h locking.Hold) error {
			return b.Evict(context.Background(), "r", h.Token.Number)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, 3, nil)
			o := redlock.Options{NodeTimeout: patient}
			holder := c.ready(t, o)
			h := must(t, holder, request("r"))
			w := newWaiter(t, c, c.backend(t, o))
			w.join()
			began := time.Now()
			if err := free(holder, h); err != nil {
				t.Fatal(err)
			}
			w.wake("the end of the hold")
			t.Logf("woken after %v", time.Since(began))
			got, err := w.b.Join(t.Context(), w.r, func() {})
			if err != nil || !got.Drawn || got.Token.Number <= h.Token.Number {
				t.Errorf("Join = %v, %v", got, err)
			}
		})
	}
}

// TestWordDuringAnAttempt: what is published while the answer of a Join is under way is not
// lost on it.
func TestWordDuringAnAttempt(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	o := redlock.Options{NodeTimeout: patient}
	holder := c.ready(t, o)
	known(t, holder)
	h := must(t, holder, request("r"))
	b, proxies := c.proxied(t, o)
	w := newWaiter(t, c, b)
	for _, p := range proxies {
		p.set(holding("grant"))
	}
	joined := make(chan error)
	go func() {
		_, err := b.Join(t.Context(), w.r, func() { w.woken <- struct{}{} })
		joined <- err
	}()
	var answers []*message
	for _, p := range proxies {
		m := p.next("grant")
		m.send()
		answers = append(answers, m)
	}
	release(t, holder, h.Token)
	w.wake("the release") // so it was heard before the answer
	for _, m := range answers {
		m.answer()
	}
	if err := <-joined; !errors.Is(err, locking.ErrHeld) {
		t.Fatalf("Join = %v, want held", err)
	}
	w.wake("the release before the answer")
}

// TestSplitVoteWakes: who finds no holder, and no majority either, tries again soon.
func TestSplitVoteWakes(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	b := c.ready(t, redlock.Options{NodeTimeout: patient})
	for _, s := range c.servers { // an attempt of which nobody knows what became of it
		d := connect(s)
		if err := errors.Join(
			d.HSet(t.Context(), lock("r"), "attempt", "A", "ctr", "1", "grant", "G", "number", "0", "label", "", "ttl", "60000", "was", "0").Err(),
			d.PExpire(t.Context(), lock("r"), time.Minute).Err(),
		); err != nil {
			t.Fatal(err)
		}
		_ = d.Close()
	}
	w := newWaiter(t, c, b)
	for range 3 {
		w.join()
		w.wake("a split vote")
	}
}

// TestNoWakeAfterLeave: whatever happens after Leave, wake is not called any more.
func TestNoWakeAfterLeave(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	b := c.ready(t, redlock.Options{NodeTimeout: patient})
	for range 50 {
		r := request("r")
		r.TTL = 200 * time.Millisecond // the waiter has an alarm then
		h := must(t, b, r)
		r = request("r")
		var left atomic.Bool
		if _, err := b.Join(t.Context(), r, func() {
			if left.Load() {
				t.Error("woken after Leave")
			}
		}); !errors.Is(err, locking.ErrHeld) {
			t.Fatal(err)
		}
		go func() { _, _ = b.Release(t.Context(), h.Token) }()
		if err := b.Leave(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		left.Store(true)
		testenv.Eventually(t, 30*time.Second, "the release", func() bool {
			st, err := b.Status(t.Context(), "r")
			return err == nil && !st.Held
		})
	}
	time.Sleep(time.Second) // for what might come late
}

// TestNothingIsLeftOfWaiting: some time after the last waiter there is no goroutine and no
// connection of the subscription, also where a node is dead or stands still.
func TestNothingIsLeftOfWaiting(t *testing.T) { //nolint:paralleltest // it looks at the goroutines of the process
	c := start(t, 5, nil)
	b := c.ready(t, redlock.Options{NodeTimeout: 3 * time.Second})
	h := must(t, b, request("r"))
	c.servers[3].Kill()
	c.servers[4].Pause()
	r := request("r")
	if _, err := b.Join(t.Context(), r, func() {}); !errors.Is(err, locking.ErrHeld) {
		t.Fatal(err)
	}
	pubsub := func() (n int) {
		for _, s := range c.servers[:3] {
			d := connect(s)
			n += strings.Count(d.Do(t.Context(), "CLIENT", "LIST", "TYPE", "PUBSUB").String(), "id=")
			_ = d.Close()
		}
		return n
	}
	testenv.Eventually(t, 30*time.Second, "three subscriptions", func() bool { return pubsub() == 3 })
	if err := b.Leave(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, locking.LookEvery+20*time.Second, "the end of the subscriptions", func() bool {
		stack := make([]byte, 1<<20)
		stack = stack[:runtime.Stack(stack, true)]
		return pubsub() == 0 && !strings.Contains(string(stack), "redlock.(*Backend).receive") &&
			!strings.Contains(string(stack), "redlock.(*Backend).subscribe")
	})
	c.servers[4].Resume()
	release(t, b, h.Token)
}

// TestForgottenWaiter: who neither joins again nor leaves is forgotten, and the subscription
// with it.
func TestForgottenWaiter(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	b := c.ready(t, redlock.Options{NodeTimeout: patient})
	must(t, b, request("r"))
	if _, err := b.Join(t.Context(), request("r"), func() {}); !errors.Is(err, locking.ErrHeld) {
		t.Fatal(err)
	}
	testenv.Eventually(t, 30*time.Second, "the waiter to listen", func() bool { return c.listeners(t) == 3 })
	testenv.Eventually(t, locking.PlaceTTL+locking.LookEvery+20*time.Second, "the waiter to be forgotten", func() bool { return c.listeners(t) == 0 })
}

// TestWaitersWithoutWord: where publishing and subscribing are forbidden, those who wait look
// by themselves, and releases work.
func TestWaitersWithoutWord(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	o := redlock.Options{NodeTimeout: patient}
	b := c.ready(t, o)
	for _, s := range c.servers {
		d := connect(s)
		if err := d.Do(t.Context(), "ACL", "SETUSER", "default", "-publish", "-subscribe", "-pubsub").Err(); err != nil {
			t.Fatal(err)
		}
		_ = d.Close()
	}
	h := must(t, b, request("r"))
	done := make(chan error, 1)
	waiter := c.backend(t, o)
	go func() {
		_, err := acquire(t.Context(), waiter, request("r"))
		done <- err
	}()
	time.Sleep(100 * time.Millisecond) // so that it is likely to wait already
	release(t, b, h.Token)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(locking.LookEvery + 20*time.Second):
		t.Error("the waiter hangs")
	}
}

// TestExpiryWakes: nobody publishes that a holder's time is up.
func TestExpiryWakes(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	o := redlock.Options{NodeTimeout: patient}
	b := c.ready(t, o)
	h := must(t, b, request("r"))
	w := newWaiter(t, c, c.backend(t, o))
	for _, s := range c.servers {
		d := connect(s)
		d.PExpire(t.Context(), lock("r"), 2*time.Second)
		_ = d.Close()
	}
	w.join()
	w.wake("the end of the hold")
	if err := b.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0]; !errors.Is(err, locking.ErrLost) {
		t.Errorf("Renew = %v, want that the waiter was woken after the end", err)
	}
}

// TestMaxStall: a contender that dies between the two phases, with every node granted to it,
// keeps the others waiting for MaxStall at most, and not for its TTL.
func TestMaxStall(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	known(t, c.ready(t, redlock.Options{NodeTimeout: patient}))
	o := redlock.Options{NodeTimeout: 3 * time.Second} // in which every node grants, or it confirms without it
	dying, proxies := c.proxied(t, o)
	for _, p := range proxies {
		p.set(func(kind string) fate {
			if kind == "confirm" {
				return hold
			}
			return pass
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = dying.TryAcquire(ctx, request("r"))
	}()
	for _, p := range proxies {
		p.next("confirm")
		p.set(func(string) fate { return lose })
	}
	began := time.Now()
	b := c.backend(t, o)
	if bound := locking.PushTTL + 2*o.NodeTimeout + locking.LookEvery; b.MaxStall() != bound {
		t.Errorf("MaxStall = %v, want %v", b.MaxStall(), bound)
	}
	h, err := acquire(t.Context(), b, request("r"))
	took := time.Since(began)
	t.Logf("granted %v after %v, MaxStall %v", h.Token, took, b.MaxStall())
	if err != nil || took > b.MaxStall()+5*time.Second {
		t.Errorf("got %v, %v after %v, want a hold within %v", h.Token, err, took, b.MaxStall())
	}
	cancel()
	for _, p := range proxies {
		_ = p.listen.Close()
	}
	<-ended
}
