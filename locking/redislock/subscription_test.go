package redislock_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
)

// subscribed returns how many connections subscribe.
func subscribed(t *testing.T, c redis.UniversalClient) int {
	t.Helper()
	text, err := c.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(text, "\n")
}

// TestHandOver: between processes it is a release and a claim, and nothing else.
func TestHandOver(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	var all []*member
	for range 5 {
		m := l.join("")
		m.waitsFor() // it listens: that is what everybody is told at first
		all = append(all, m)
	}
	var n atomic.Int64
	for _, m := range all {
		m.client.AddHook(hook{sends: func() { n.Add(1) }})
	}
	l.release()
	for _, m := range all {
		m.waitsFor()
		m.release(m.gets().Token)
		if len(m.woken) > 0 {
			t.Error("woken more than once")
		}
	}
	if got := n.Load(); got != int64(2*len(all)) {
		t.Errorf("got %d commands for %d hand-overs, want 2 each", got, len(all))
	}
}

// TestWaitingOnACluster: a word reaches a subscription on any node.
func TestWaitingOnACluster(t *testing.T) {
	t.Parallel()
	server := startCluster(t)
	for range 8 { // resources of both nodes, most likely
		l := &line{T: t, server: server, name: testenv.Unique(t, "cluster")}
		l.holder = backend(t, connectCluster(t, server))
		l.held = must(t, l.holder, request(l.name)).Token
		m := &member{t: t, Backend: backend(t, connectCluster(t, server)), r: request(l.name), woken: make(chan bool, 100)}
		m.waits("")
		m.waitsFor()
		l.release()
		m.waitsFor()
		m.release(m.gets().Token)
	}
}

// TestSubscription: there is one while somebody waits, and none for who need not.
func TestSubscription(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.StartRedis(t, nil))
	wants := func(want int) {
		t.Helper()
		testenv.Eventually(t, 20*time.Second, "the subscriptions begin and end", func() bool { return subscribed(t, l.redis) == want })
	}
	m := l.member("m")
	waiting := m.r
	m.r = request("free")
	must(t, m, request("warm"))
	var n atomic.Int64
	m.client.AddHook(hook{sends: func() { n.Add(1) }})
	h := m.gets()
	if got := n.Load(); got != 1 {
		t.Errorf("a Join that is granted at once took %d commands", got)
	}
	m.release(h.Token)
	m.lost()
	if got := subscribed(t, l.redis); got != 0 {
		t.Errorf("%d subscriptions although nobody waits", got)
	}

	m.r = waiting
	m.waits("holder")
	wants(1)
	m.waitsFor()
	other := request(l.name)
	if _, err := m.Join(t.Context(), other, func() {}); err == nil {
		t.Fatal("granted twice")
	}
	m.leave()
	wants(1)
	h, err := m.Transfer(t.Context(), l.held, other)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 20*time.Second, "the subscription ends while others are granted at once", func() bool {
		m.r = request("free")
		m.release(m.gets().Token)
		return subscribed(t, l.redis) == 0
	})
	m.r = waiting
	m.waits("")
	wants(1)
	m.waitsFor()
	m.release(h.Token)
	m.waitsFor()
	m.gets()
	wants(0)
	l.join("another").leave()
	m.r = request(l.name)
	m.waits("")
	l.expire()
	must(t, m, m.r) // one that has joined
	wants(0)
}

// TestPingPong: who waits again soon does not connect again.
func TestPingPong(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.StartRedis(t, nil))
	var n atomic.Int64
	m := l.member("m")
	m.client.AddHook(hook{connects: func() { n.Add(1) }})
	m.waits("holder")
	m.waitsFor()
	before := n.Load()
	for range 20 {
		m.leave()
		m.waits("holder")
	}
	if got := n.Load() - before; got > 2 { // a slow machine may take more than LookEvery
		t.Errorf("connected %d times", got)
	}
}

// TestWordBeforeTheReply: a word that comes while Join is under way is not missed.
func TestWordBeforeTheReply(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	busy, l := newLine(t, server), newLine(t, server)
	m := busy.join("m")
	m.waitsFor() // it listens
	m.r = request(l.name)
	words := make(chan bool, 10)
	m.client.AddHook(hook{hears: func() {
		l.release() // tells
		select {
		case <-words:
		case <-time.After(20 * time.Second):
			t.Error("no word")
		}
	}})
	if _, err := m.Join(t.Context(), m.r, func() { words <- true }); err == nil {
		t.Error("granted before the holder released")
	}
}

// TestLostWord: a waiter finds what it was not told, and is told again as soon as it can be.
func TestLostWord(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.StartRedis(t, nil))
	m := l.join("m")
	m.waitsFor()
	if err := l.redis.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
		t.Fatal(err)
	}
	m.waitsFor() // it may have missed something
	l.release()
	m.waitsFor()
	h := m.gets()

	l.server.Restart()
	next := l.member("next")
	testenv.Eventually(t, 20*time.Second, "the server is back", func() bool { return l.redis.Ping(t.Context()).Err() == nil })
	if _, err := l.holder.TryAcquire(t.Context(), request(l.name)); err != nil {
		t.Fatal(err) // all is forgotten
	}
	_ = h
	testenv.Eventually(t, 20*time.Second, "next waits", func() bool { _, err := next.join(); return fencing.OutcomeOf(err) == fencing.Refused })
	next.waitsFor()
}

// TestServerWasAway: the subscription comes back by itself, and tells.
func TestServerWasAway(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.StartRedis(t, nil))
	m := l.join("m")
	m.waitsFor()
	l.server.Kill()
	l.server.Restart()
	m.waitsFor()
	m.gets()
}

// TestServerIsSilent: a connection that nothing comes from is replaced.
func TestServerIsSilent(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.StartRedis(t, nil))
	m := l.join("m")
	m.waitsFor()
	l.server.Pause()
	resume := time.AfterFunc(8*time.Second, l.server.Resume) // longer than it is believed
	defer resume.Stop()
	m.waitsFor() // only who connects anew is told without a word
}

// TestNoWordAtAll: whoever looks as the contract says is granted all the same.
func TestNoWordAtAll(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	for _, rule := range []string{"resetchannels", "-publish", "-subscribe"} {
		c, admin := app(t, server)
		allow(t, admin, "+@all", "allchannels", rule)
		l := newLine(t, server)
		l.holder = backend(t, c)
		m := l.member("m")
		m.Backend = l.holder
		m.waits("holder")
		l.release()
		start := time.Now()
		testenv.Eventually(t, 20*time.Second, "granted", func() bool { _, err := m.join(); return err == nil })
		if took := time.Since(start); took > locking.LookEvery+5*time.Second {
			t.Errorf("%s: it took %v", rule, took)
		}
	}
}

// TestNoWakeAfterLeave, not even when Leave failed. A message names no more than the resource.
func TestNoWakeAfterLeave(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	a := l.join("a")
	a.waitsFor()
	stays := make(chan bool, 10)
	r := request(l.name)
	_, _ = a.Join(t.Context(), r, func() { stays <- true })
	place := strings.Fields(l.redis.HGet(t.Context(), l.key("waiters"), r.Grant).Val())
	if len(place) < 3 || !strings.HasPrefix(place[2], "fencegate:wake:") {
		t.Fatalf("got the place %q", place)
	}
	words := l.redis.Subscribe(t.Context(), place[2])
	defer words.Close()
	if _, err := words.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Leave(ended, a.r); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("Leave = %v, want failed", err)
	}
	for len(a.woken) > 0 {
		<-a.woken
	}
	l.release() // to a's place, which is still there
	message, err := words.ReceiveMessage(t.Context())
	if err != nil || message.Payload != l.name {
		t.Errorf("got the message %v, %v, want only the resource", message, err)
	}
	if err := l.redis.Publish(t.Context(), place[2], l.name).Err(); err != nil {
		t.Fatal(err)
	}
	<-stays
	<-stays // twice: the first word has gone to everybody
	if len(a.woken) > 0 {
		t.Error("woken after Leave")
	}
}

// TestFailedJoinLeavesNothing: neither a place nor somebody to wake, unless there was one.
func TestFailedJoinLeavesNothing(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	m, fresh := l.join("m"), request(l.name)
	m.waitsFor()
	called := make(chan bool, 10)
	if _, err := m.Join(ended, fresh, func() { called <- true }); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("Join = %v, want failed", err)
	}
	again := make(chan bool, 10)
	if _, err := m.Join(ended, m.r, func() { again <- true }); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("Join = %v, want failed", err)
	}
	l.wantStatus("holder", 1)
	l.release()
	<-again
	m.release(m.gets().Token)
	if len(called) > 0 {
		t.Error("a Join that failed is woken")
	}
}
