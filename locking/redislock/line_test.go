package redislock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redislock"
)

// line is a resource that is held, and a connection to look at its keys.
type line struct {
	*testing.T
	server *testenv.Redis
	redis  *redis.Client
	name   string
	holder *redislock.Backend
	held   fencing.Token
}

// member is somebody who waits: a Backend with a client of its own is a process.
type member struct {
	*redislock.Backend
	t      *testing.T
	client *redis.Client
	r      locking.Request
	woken  chan bool
}

func newLine(t *testing.T, server *testenv.Redis) *line {
	t.Helper()
	l := &line{T: t, server: server, redis: connect(t, server), name: testenv.Unique(t, "line")}
	l.holder = backend(t, connect(t, server))
	r := request(l.name)
	r.Label = "holder"
	l.held = must(t, l.holder, r).Token
	return l
}

// member returns one that has not joined.
func (l *line) member(name string) *member {
	l.Helper()
	c := connect(l.T, l.server)
	m := &member{t: l.T, client: c, Backend: backend(l.T, c), r: request(l.name), woken: make(chan bool, 100)}
	m.r.Label = name
	return m
}

// join returns one that has a place in line.
func (l *line) join(name string) *member {
	l.Helper()
	m := l.member(name)
	m.waits("")
	return m
}

func (m *member) join() (locking.Hold, error) {
	return m.Join(m.t.Context(), m.r, func() {
		select {
		case m.woken <- true:
		default:
		}
	})
}

// waits joins, and wants the lock to be held by the one with this label ("": whoever).
func (m *member) waits(label string) {
	m.t.Helper()
	_, err := m.join()
	held, ok := errors.AsType[*locking.HeldError](err)
	if !ok || label != "" && held.Label != label {
		m.t.Fatalf("%s: Join = %v, want held by %q", m.r.Label, err, label)
	}
}

// gets joins, and wants the lock.
func (m *member) gets() locking.Hold {
	m.t.Helper()
	h, err := m.join()
	if err != nil || !h.Drawn || h.Token.Grant != m.r.Grant || h.Remaining != m.r.TTL {
		m.t.Fatalf("%s: Join = %v, drawn %t, for %v, %v, want the lock", m.r.Label, h.Token, h.Drawn, h.Remaining, err)
	}
	return h
}

func (m *member) release(tok fencing.Token) {
	m.t.Helper()
	if freed, err := m.Release(m.t.Context(), tok); !freed || err != nil {
		m.t.Fatalf("%s: Release = %t, %v", m.r.Label, freed, err)
	}
}

func (m *member) leave() {
	m.t.Helper()
	if err := m.Leave(m.t.Context(), m.r); err != nil {
		m.t.Fatalf("%s: Leave = %v", m.r.Label, err)
	}
}

func (m *member) lost() {
	m.t.Helper()
	if h, err := m.join(); !errors.Is(err, locking.ErrLost) {
		m.t.Fatalf("%s: Join = %v, %v, want ErrLost", m.r.Label, h.Token, err)
	}
}

func (l *line) release() {
	l.Helper()
	if freed, err := l.holder.Release(l.Context(), l.held); !freed || err != nil {
		l.Fatalf("Release = %t, %v", freed, err)
	}
}

func (l *line) key(kind string) string { return "fencegate:{" + l.name + "}:" + kind }

// expire ends the hold, or what was pushed, as time does.
func (l *line) expire() {
	l.Helper()
	if n, err := l.redis.Del(l.Context(), l.key("lock")).Result(); n != 1 || err != nil {
		l.Fatal(n, err)
	}
}

// age makes m's last Join come earlier, or later, than it did.
func (l *line) age(m *member, by time.Duration) {
	l.Helper()
	value := l.redis.HGet(l.Context(), l.key("waiters"), m.r.Grant).Val()
	var seen int64
	if _, err := fmt.Sscan(value, &seen); err != nil {
		l.Fatal(value, err)
	}
	_, rest, _ := strings.Cut(value, " ")
	value = fmt.Sprint(seen-by.Milliseconds(), " ", rest)
	if err := l.redis.HSet(l.Context(), l.key("waiters"), m.r.Grant, value).Err(); err != nil {
		l.Fatal(err)
	}
}

func (l *line) wantStatus(label string, waiters int) {
	l.Helper()
	st, err := l.holder.Status(l.Context(), l.name)
	if err != nil || st.Label != label || st.Held != (label != "") || st.Waiters != waiters {
		l.Fatalf("Status = %+v, %v, want held by %q, %d waiters", st, err, label, waiters)
	}
}

func (l *line) wantOvertakenByNobody(label string) {
	l.Helper()
	r := request(l.name)
	_, err := l.holder.TryAcquire(l.Context(), r)
	if held, ok := errors.AsType[*locking.HeldError](err); !ok || held.Label != label {
		l.Fatalf("an attempt that does not wait: got %v, want held by %q", err, label)
	}
}

// waitsFor waits for word.
func (m *member) waitsFor() {
	m.t.Helper()
	select {
	case <-m.woken:
	case <-time.After(20 * time.Second):
		m.t.Fatalf("%s: no word", m.r.Label)
	}
}

func (l *line) toFront(m *member) {
	l.Helper()
	ctx := l.Context()
	if err := errors.Join(l.redis.LRem(ctx, l.key("queue"), 0, m.r.Grant).Err(), l.redis.LPush(ctx, l.key("queue"), m.r.Grant).Err()); err != nil {
		l.Fatal(err)
	}
}
