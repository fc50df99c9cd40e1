package redislock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
)

// TestServerForgets: whatever is gone, everybody is granted in the end.
func TestServerForgets(t *testing.T) {
	t.Parallel()
	for _, gone := range []string{"lock", "counter", "queue", "waiters", "lock counter", "counter queue", "lock counter queue waiters"} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, testenv.SharedRedis(t))
			a, b := l.join("a"), l.join("b")
			for kind := range strings.FieldsSeq(gone) {
				if err := l.redis.Del(t.Context(), l.key(kind)).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if !strings.Contains(gone, "lock") {
				l.release()
			}
			granted := map[*member]bool{}
			for deadline := time.Now().Add(30 * time.Second); len(granted) < 2; {
				for _, m := range []*member{b, a} {
					if h, err := m.join(); err == nil {
						granted[m] = true
						m.release(h.Token)
						m.r.Grant = fencing.NewGrant() // this one has ended
					}
				}
				if time.Now().After(deadline) {
					t.Fatalf("granted only %d", len(granted))
				}
			}
		})
	}
}

// TestQueueIsEvicted: who has waited goes on waiting, in a new order.
func TestQueueIsEvicted(t *testing.T) {
	t.Parallel()
	for _, gone := range []string{"queue", "waiters"} {
		l := newLine(t, testenv.SharedRedis(t))
		a, b := l.join("a"), l.join("b")
		if err := l.redis.Del(t.Context(), l.key(gone)).Err(); err != nil {
			t.Fatal(err)
		}
		a.waits("holder")
		b.waits("holder")
		l.wantStatus("holder", 2)
		l.release()
		a.release(a.gets().Token)
		b.gets()
	}
}

// TestMemoryIsShortForALine: who has a place keeps it, and the line moves on.
func TestMemoryIsShortForALine(t *testing.T) {
	t.Parallel()
	l := newLine(t, testenv.StartRedis(t, nil))
	a, b, c, d := l.join("a"), l.join("b"), l.join("c"), l.join("d")
	full := func(limit string) {
		t.Helper()
		if err := l.redis.ConfigSet(t.Context(), "maxmemory", limit).Err(); err != nil {
			t.Fatal(err)
		}
	}
	full("1")
	if _, err := l.member("new").join(); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("a new one: Join = %v, want failed", err)
	}
	a.waits("holder")
	l.release()
	l.wantOvertakenByNobody("a")
	a.release(a.gets().Token)
	b.leave() // hands on
	l.wantStatus("c", 1)
	if err := l.holder.Evict(t.Context(), l.name, 4); err != nil {
		t.Errorf("Evict = %v", err)
	}
	l.wantStatus("d", 0)
	h := d.gets()
	c.leave()
	d.release(h.Token)
	l.wantStatus("", 0)
	full("0")
	c.gets()
}

func TestNumbersRunOutInLine(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	l := newLine(t, server)
	m := l.join("a")
	l.release()
	m.r.Floor = fencing.MaxNumber
	if _, err := m.join(); !errors.Is(err, locking.ErrExhausted) {
		t.Errorf("Join = %v, want ErrExhausted", err)
	}
	m.r.Floor = fencing.MaxNumber - 1
	h := m.gets()
	b := l.join("b")
	m.release(h.Token)
	l.wantStatus("", 0)
	if _, err := b.join(); !errors.Is(err, locking.ErrExhausted) {
		t.Errorf("Join = %v, want ErrExhausted", err)
	}
	b.leave()

	l = newLine(t, server) // and before that, every digit counts
	l.release()
	r := request(l.name)
	r.Floor = 1e15
	l.held = must(t, l.holder, r).Token
	m = l.join("a")
	l.release()
	h = m.gets()
	m.release(h.Token)
	if last := must(t, l.holder, request(l.name)).Token.Number; h.Token.Number != 1e15+2 || last != 1e15+3 {
		t.Errorf("got the numbers %d and %d", h.Token.Number, last)
	}
}

func TestBadInputForALine(t *testing.T) {
	t.Parallel()
	b := backend(t, connect(t, testenv.SharedRedis(t)))
	r := request("a{b}")
	if _, err := b.Join(t.Context(), r, func() {}); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Join = %v, want ErrInvalid", err)
	}
	if err := b.Leave(t.Context(), r); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Leave = %v, want ErrInvalid", err)
	}
	if _, err := b.Join(t.Context(), request("a"), nil); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Join without wake = %v, want ErrInvalid", err)
	}
}
