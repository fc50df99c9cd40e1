package redislock_test

import (
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
)

// TestPushedHold: it is short until it is claimed, and claimed once.
func TestPushedHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ttl, most time.Duration
		floor     int64
		number    int64
		claim     func(m *member) (locking.Hold, error)
	}{
		"by Join":       {minute, locking.PushTTL, 0, 2, (*member).join},
		"by TryAcquire": {minute, locking.PushTTL, 0, 2, func(m *member) (locking.Hold, error) { return m.TryAcquire(m.t.Context(), m.r) }},
		"short TTL":     {1500 * time.Millisecond, 1500 * time.Millisecond, 0, 2, (*member).join},
		"floor":         {minute, locking.PushTTL, 41, 42, (*member).join},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, testenv.SharedRedis(t))
			m := l.member("first")
			m.r.TTL = c.ttl
			m.waits("holder")
			l.release()
			wantLeft(t, l.redis, l.name, 0, c.most)
			m.r.Floor = c.floor
			h, err := c.claim(m)
			if err != nil || h.Token.Number != c.number || !h.Drawn || h.Remaining != c.ttl {
				t.Errorf("got %v, drawn %t, for %v, %v, want number %d for %v", h.Token, h.Drawn, h.Remaining, err, c.number, c.ttl)
			}
			wantLeft(t, l.redis, l.name, c.ttl/10, c.ttl)
			m.r.TTL = time.Hour
			again, err := c.claim(m) // say the reply was lost
			if err != nil || again.Token != h.Token || again.Drawn || again.Remaining > c.ttl {
				t.Errorf("the repeat: got %v, drawn %t, for %v, %v", again.Token, again.Drawn, again.Remaining, err)
			}
			renewed(t, l.holder, minute, h.Token)
			m.release(h.Token)
			m.lost()
		})
	}
}

// TestPushedHoldNobodyClaims goes on to the next, and has not ended the grant.
func TestPushedHoldNobodyClaims(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	a, b := l.join("a"), l.join("b")
	l.release()
	l.expire()
	a.waits("b") // b is first now
	l.wantStatus("b", 1)
	b.release(b.gets().Token)
	l.expire() // what was pushed to a, again
	if h := a.gets(); h.Token.Number != 5 {
		t.Errorf("got number %d, want 5: each push had its own", h.Token.Number)
	}
}

func TestPushedHoldRunsOut(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	a, b := l.join("a"), l.join("b")
	l.release()
	testenv.Eventually(t, 20*time.Second, "b is granted", func() bool {
		_, err := b.join()
		return err == nil
	})
	if h, err := b.join(); err != nil || h.Drawn {
		t.Errorf("the repeat: got %v, drawn %t, %v, want the same again", h.Token, h.Drawn, err)
	}
	a.waits("b")
}

func TestPushedHoldEnds(t *testing.T) {
	t.Parallel()
	evict := func(l *line, number int64) {
		l.Helper()
		if err := l.holder.Evict(l.Context(), l.name, number); err != nil {
			l.Fatal(err)
		}
	}
	for name, end := range map[string]func(l *line, m *member){
		"evicted": func(l *line, _ *member) { evict(l, 2) },
		"left":    func(_ *line, m *member) { m.leave() },
		"left when its time was up": func(l *line, m *member) {
			l.expire()
			m.leave()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, testenv.SharedRedis(t))
			a, b := l.join("a"), l.join("b")
			l.release()
			end(l, a)
			b.waitsFor()
			l.wantStatus("b", 0)
			b.release(b.gets().Token)

			l = newLine(t, testenv.SharedRedis(t))
			a = l.join("alone")
			l.release()
			end(l, a)
			l.wantStatus("", 0)
			a.lost()
			must(t, l.holder, request(l.name))
		})
	}
	t.Run("not by another who leaves", func(t *testing.T) {
		t.Parallel()
		l := newLine(t, testenv.SharedRedis(t))
		a, b := l.join("a"), l.join("b")
		b.leave()
		l.release()
		b.leave()
		l.wantStatus("a", 0)
		l.expire()
		b.leave()
		a.gets()
	})
}

func TestEvictServesTheLine(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	a := l.join("a")
	if err := l.holder.Evict(t.Context(), l.name, l.held.Number); err != nil {
		t.Fatal(err)
	}
	l.wantStatus("a", 0)
	a.gets()
}

// TestClockJumpedBackAfterAPush: nobody waits for longer than PushTTL.
func TestClockJumpedBackAfterAPush(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	l.join("a")
	b := l.join("b")
	l.release()
	if err := l.redis.PExpire(t.Context(), l.key("lock"), time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	b.waits("a")
	wantLeft(t, l.redis, l.name, 0, locking.PushTTL)
}
