package redlock_test

import (
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redlock"
)

// A request that is overtaken by what takes it back must not leave a lock that nobody holds.
// There is no connection on which one comes after the other: the client may send them on
// two, and gives up the one on which it waited in vain.

// late is one process whose messages to the third of three nodes are late.
type late struct {
	*testing.T
	c       *cluster
	b       *redlock.Backend
	third   *proxy
	window  time.Duration
	request locking.Request
}

func newLate(t *testing.T) *late {
	t.Helper()
	const timeout = 3 * time.Second // in which the others answer
	c := start(t, 3, nil)
	known(t, c.ready(t, redlock.Options{NodeTimeout: patient}))
	b, proxies := c.proxied(t, redlock.Options{NodeTimeout: timeout})
	l := &late{T: t, c: c, b: b, third: proxies[2], window: locking.PushTTL + 2*timeout, request: request("r")}
	// The connections are made before anything is measured against the timeout.
	testenv.Eventually(t, 30*time.Second, "every node to answer", func() bool {
		for _, st := range b.Nodes(t.Context()) {
			if st.State != ok {
				return false
			}
		}
		return true
	})
	return l
}

// left is how long the lock on the third node lasts; 0 if there is none.
func (l *late) left() time.Duration {
	l.Helper()
	d := connect(l.c.servers[2])
	defer d.Close()
	left, err := d.PTTL(l.Context(), lock("r")).Result()
	if err != nil {
		l.Fatal(err)
	}
	return max(left, 0)
}

// TestNoGhostLock: however a grant or a confirm is overtaken, no lock is left behind, or
// none that outlives the window between the phases.
func TestNoGhostLock(t *testing.T) {
	t.Parallel()
	t.Run("the grant arrives after the release", func(t *testing.T) {
		t.Parallel()
		l := newLate(t)
		l.third.set(holding("grant"))
		h := must(t, l.b, l.request)
		l.third.set(holding())
		testenv.Eventually(t, time.Minute, "the node to be asked again", func() bool { return l.b.Nodes(t.Context())[2].State == ok })
		release(t, l.b, h.Token)
		if said := l.third.next("grant").send(); said != "*1 $5 ended" {
			t.Errorf("the late grant: %s, want it to find the tombstone", said)
		}
		if left := l.left(); left > 0 {
			t.Errorf("a lock that nobody holds lasts for %v", left)
		}
	})
	t.Run("the confirm arrives after the release", func(t *testing.T) {
		t.Parallel()
		l := newLate(t)
		l.third.set(holding("confirm"))
		h := must(t, l.b, l.request)
		release(t, l.b, h.Token)
		testenv.Eventually(t, time.Minute, "what is owed to be paid", func() bool {
			l.b.Nodes(t.Context())
			return l.left() == 0
		})
		if said := l.third.next("confirm").send(); said != "*1 $4 gone" {
			t.Errorf("the late confirm: %s, want it to find nothing", said)
		}
		if left := l.left(); left > 0 {
			t.Errorf("a lock that nobody holds lasts for %v", left)
		}
	})
	t.Run("the grant arrives last of all, and its process is gone", func(t *testing.T) {
		t.Parallel()
		l := newLate(t)
		l.third.set(func(kind string) fate {
			if kind == "grant" {
				return hold
			}
			return lose
		})
		h := must(t, l.b, l.request)
		release(t, l.b, h.Token)
		l.third.next("grant").send() // nobody is left to take it back
		if left := l.left(); left == 0 || left > l.window {
			t.Fatalf("the lock that nobody holds lasts for %v, want more than 0 and up to %v", left, l.window)
		}
		// The others need this node, and have it soon.
		l.c.servers[0].Kill()
		other := l.c.backend(t, redlock.Options{NodeTimeout: 3 * time.Second})
		began := time.Now()
		if h, err := acquire(t.Context(), other, request("r")); err != nil || h.Token.Number < 2 {
			t.Errorf("got %v, %v", h.Token, err)
		}
		if took := time.Since(began); took > other.MaxStall()+5*time.Second {
			t.Errorf("it took %v, want at most %v", took, other.MaxStall())
		}
	})
}

// TestDeadNodeDoesNotSlowAGrant: a node that is killed costs nothing, one that is stopped
// costs one NodeTimeout now and then, and not one a grant.
func TestDeadNodeDoesNotSlowAGrant(t *testing.T) {
	t.Parallel()
	const timeout, rounds = 3 * time.Second, 30
	for name, fault := range map[string]func(*testenv.Redis){
		"killed":  func(r *testenv.Redis) { r.Kill() },
		"stopped": func(r *testenv.Redis) { r.Pause() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, 3, nil)
			b := c.ready(t, redlock.Options{NodeTimeout: timeout})
			known(t, b)
			fault(c.servers[1])
			began, slow := time.Now(), 0
			for range rounds {
				before := time.Now()
				release(t, b, must(t, b, request("r")).Token)
				if time.Since(before) >= timeout {
					slow++
				}
			}
			t.Logf("%d grants and releases in %v, %d of them slow", rounds, time.Since(began), slow)
			if slow > rounds/3 {
				t.Errorf("%d of %d grants waited for the node, want the first and few more", slow, rounds)
			}
			if name == "stopped" {
				c.servers[1].Resume()
				testenv.Eventually(t, time.Minute, "the node to take part again", func() bool {
					h := must(t, b, request("r"))
					defer release(t, b, h.Token)
					d := connect(c.servers[1])
					defer d.Close()
					return d.HGet(t.Context(), lock("r"), "number").Val() != ""
				})
			}
		})
	}
}

// TestRestingNodesAreAskedWhenNeeded: nodes that did not answer a moment ago are left alone,
// unless without them there is no majority.
func TestRestingNodesAreAskedWhenNeeded(t *testing.T) {
	t.Parallel()
	c := start(t, 5, nil)
	b := c.ready(t, redlock.Options{NodeTimeout: 2 * time.Second})
	known(t, b)
	c.servers[0].Pause()
	c.servers[1].Pause()
	release(t, b, must(t, b, request("r")).Token)
	c.servers[2].Kill()
	c.servers[0].Resume()
	c.servers[1].Resume()
	release(t, b, must(t, b, request("r")).Token)
}
