package redlock_test

import (
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking/redlock"
)

// TestClockThatJumpsBack: where the clocks of the nodes jump back, an expiry lies further
// away than the TTL. The next attempt, or renewal, cuts it to the TTL.
func TestClockThatJumpsBack(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	b := c.ready(t, redlock.Options{NodeTimeout: patient})
	held := request("r")
	h := must(t, b, held)
	left := func() (most time.Duration) {
		for _, s := range c.servers {
			d := connect(s)
			most = max(most, d.PTTL(t.Context(), lock("r")).Val())
			_ = d.Close()
		}
		return most
	}
	jump := func() {
		for _, s := range c.servers {
			d := connect(s)
			if err := d.PExpire(t.Context(), lock("r"), 2*time.Hour).Err(); err != nil {
				t.Fatal(err)
			}
			_ = d.Close()
		}
	}
	jump()
	if st, err := b.Status(t.Context(), "r"); err != nil || st.Remaining > held.TTL {
		t.Errorf("Status = %+v, %v, want at most %v", st, err, held.TTL)
	}
	if again := must(t, b, held); again.Remaining > held.TTL {
		t.Errorf("a repeat has %v left, want at most %v", again.Remaining, held.TTL)
	}
	if got := left(); got > held.TTL {
		t.Errorf("after an attempt %v are left, want at most %v", got, held.TTL)
	}
	jump()
	if err := b.Renew(t.Context(), held.TTL, []fencing.Token{h.Token})[0]; err != nil {
		t.Fatal(err)
	}
	if got := left(); got > held.TTL {
		t.Errorf("after a renewal %v are left, want at most %v", got, held.TTL)
	}
}

// TestReissueWhileNodesFail: a hold is numbered anew while nodes die, or lose the confirm. It
// keeps its expiry, gets a higher number, or stays as it was.
func TestReissueWhileNodesFail(t *testing.T) {
	t.Parallel()
	const fast = time.Second
	setUp := func(t *testing.T) (*cluster, *redlock.Backend, []*proxy, func(floor int64) (int64, error)) {
		t.Helper()
		c := start(t, 5, nil)
		known(t, c.ready(t, redlock.Options{NodeTimeout: patient}))
		b, proxies := c.proxied(t, redlock.Options{NodeTimeout: fast})
		r := request("r")
		r.TTL = 20 * time.Second
		must(t, c.backend(t, redlock.Options{NodeTimeout: patient}), r)
		r.TTL = 30 * time.Second
		return c, b, proxies, func(floor int64) (int64, error) {
			r.Floor = floor
			h, err := b.TryAcquire(t.Context(), r)
			if err == nil && (!h.Drawn || h.Remaining > 20*time.Second) {
				t.Errorf("the re-issue is drawn: %v, and lasts for %v", h.Drawn, h.Remaining)
			}
			return h.Token.Number, err
		}
	}
	t.Run("a minority is dead", func(t *testing.T) {
		t.Parallel()
		c, _, _, reissue := setUp(t)
		c.servers[0].Kill()
		c.servers[3].Kill()
		if number, err := reissue(40); err != nil || number != 41 {
			t.Errorf("got %d, %v, want 41", number, err)
		}
	})
	t.Run("a minority loses the confirm", func(t *testing.T) {
		t.Parallel()
		_, b, proxies, reissue := setUp(t)
		for _, p := range proxies[:2] {
			p.set(holding("confirm"))
		}
		if number, err := reissue(40); err != nil || number != 41 {
			t.Errorf("got %d, %v, want 41", number, err)
		}
		// What is late finds another granting: the two nodes have the old number and cannot
		// come to have one that was given up.
		for _, p := range proxies[:2] {
			p.set(holding())
		}
		b.Nodes(t.Context()) // pays what is owed
		for _, p := range proxies[:2] {
			if said := p.next("confirm").send(); said != "*1 $4 gone" {
				t.Errorf("a late confirm: %s, want it to find nothing", said)
			}
		}
		if st, err := b.Status(t.Context(), "r"); err != nil || !st.Held || st.Number != 41 {
			t.Errorf("Status = %+v, %v, want 41 held", st, err)
		}
	})
	t.Run("a majority loses the confirm", func(t *testing.T) {
		t.Parallel()
		_, b, proxies, reissue := setUp(t)
		for _, p := range proxies[:3] {
			p.set(func(kind string) fate {
				if kind == "confirm" {
					return lose
				}
				return pass
			})
		}
		number, err := reissue(40)
		if fencing.OutcomeOf(err) != fencing.Failed {
			t.Errorf("got %d, %v, want failed", number, err)
		}
		if st, err := b.Status(t.Context(), "r"); err != nil || !st.Held {
			t.Errorf("Status = %+v, %v, want the hold to be there still", st, err)
		}
		for _, p := range proxies[:3] {
			p.set(holding())
		}
		if number, err := reissue(60); err != nil || number < 61 {
			t.Errorf("got %d, %v, want 61 or more", number, err)
		}
	})
	t.Run("a majority is dead", func(t *testing.T) {
		t.Parallel()
		c, b, _, reissue := setUp(t)
		for _, s := range c.servers[:3] {
			s.Pause()
		}
		if number, err := reissue(40); fencing.OutcomeOf(err) != fencing.Failed {
			t.Errorf("got %d, %v, want failed", number, err)
		}
		for _, s := range c.servers[:3] {
			s.Resume()
		}
		if st, err := b.Status(t.Context(), "r"); err != nil || !st.Held {
			t.Errorf("Status = %+v, %v, want the hold to be there still", st, err)
		}
		if number, err := reissue(40); err != nil || number < 41 {
			t.Errorf("got %d, %v, want 41 or more", number, err)
		}
	})
}
