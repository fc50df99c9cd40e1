package redislock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
)

func TestOrderOfArrival(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	var all []*member
	for i := range 4 {
		all = append(all, l.join(fmt.Sprint("member ", i)))
	}
	all[2].waits("holder") // and keeps its place
	all[0].waits("holder")
	l.wantStatus("holder", 4)
	l.release()
	last := l.held.Number
	for i, m := range all {
		l.wantStatus(m.r.Label, 3-i)
		l.wantOvertakenByNobody(m.r.Label)
		for _, later := range all[i+1:] {
			later.waits(m.r.Label)
		}
		h := m.gets()
		if h.Token.Number != last+1 {
			t.Errorf("got number %d after %d", h.Token.Number, last)
		}
		last = h.Token.Number
		m.release(h.Token)
	}
	l.wantStatus("", 0)
	must(t, l.holder, request(l.name))
	if keys := l.redis.Keys(t.Context(), l.key("*")).Val(); len(keys) != 2 {
		t.Errorf("got the keys %q, want lock and counter", keys)
	}
	if l.redis.HExists(t.Context(), l.key("counter"), "line").Val() {
		t.Error("an empty line is still looked for")
	}
}

func TestLeave(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	a, b, c := l.join("a"), l.join("b"), l.join("c")
	b.leave()
	b.leave() // has no place
	l.wantStatus("holder", 2)
	if n := l.redis.HLen(t.Context(), l.key("waiters")).Val(); n != 2 {
		t.Errorf("%d places are remembered, want 2", n)
	}
	l.release()
	h := a.gets()
	a.leave() // keeps its hold
	l.wantStatus("a", 1)
	a.release(h.Token)
	l.wantStatus("c", 0)
	c.gets()
	b.waits("c")
}

// TestHoldersTimeIsUp: whoever comes then gets the lock only if it is first.
func TestHoldersTimeIsUp(t *testing.T) {
	t.Parallel()
	for name, come := range map[string]func(l *line){
		"first":       func(*line) {},
		"another":     func(l *line) { l.member("new").waits("a") },
		"no waiter":   func(l *line) { l.wantOvertakenByNobody("a") },
		"second":      func(l *line) { l.join("b").waits("a") },
		"who held it": func(l *line) { m := l.member("x"); m.r.Grant = l.held.Grant; m.lost() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, testenv.SharedRedis(t))
			a := l.join("a")
			l.expire()
			come(l)
			a.gets()
		})
	}
}

// TestDeadPlaces are skipped, whichever way the clock has jumped.
func TestDeadPlaces(t *testing.T) {
	t.Parallel()
	const more = 2 * time.Second
	for _, by := range []time.Duration{locking.PlaceTTL + more, -locking.PlaceTTL - 20*time.Second} {
		for name, free := range map[string]func(l *line, live *member) string{
			"release": func(l *line, _ *member) string { l.release(); return "live" },
			"leave": func(l *line, _ *member) string {
				f := l.join("front")
				l.toFront(f)
				l.release()
				f.leave()
				return "live"
			},
			"its own": func(l *line, _ *member) string { l.expire(); return "" },
			"who does not wait": func(l *line, _ *member) string {
				l.expire()
				l.wantOvertakenByNobody("live")
				return "live"
			},
			"half dead": func(l *line, m *member) string {
				half := locking.PlaceTTL / 2
				if by < 0 {
					half = -half
				}
				l.age(m, half)
				l.release()
				return "live"
			},
		} {
			t.Run(fmt.Sprint(by, " ", name), func(t *testing.T) {
				t.Parallel()
				l := newLine(t, testenv.SharedRedis(t))
				a, b, live, z := l.join("a"), l.join("b"), l.join("live"), l.join("z")
				l.age(a, by)
				l.age(b, by)
				label := free(l, live)
				if label != "" {
					l.wantStatus(label, 1)
				}
				live.release(live.gets().Token)
				z.gets()
				a.waits("z")
			})
		}
	}
}

// TestJoinKeepsAPlace: a repeat makes it live for PlaceTTL again, and moves nobody.
func TestJoinKeepsAPlace(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.SharedRedis(t))
	a, b := l.join("a"), l.join("b")
	l.age(a, locking.PlaceTTL+time.Second)
	a.waits("holder")
	for _, kind := range []string{"queue", "waiters"} {
		if got := l.redis.PTTL(t.Context(), l.key(kind)).Val(); got <= locking.PlaceTTL || got > 2*locking.PlaceTTL {
			t.Errorf("%s lasts for %v more, want up to %v", kind, got, 2*locking.PlaceTTL)
		}
	}
	l.release()
	b.waits("a")
	a.release(a.gets().Token)
	b.gets()
}
