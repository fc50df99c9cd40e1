package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redislock"
)

// untilGranted joins when it is woken and every look; the contract says LookEvery.
func (m *member) untilGranted(ctx context.Context, look time.Duration) (locking.Hold, error) {
	for {
		h, err := m.join()
		if !errors.Is(err, locking.ErrHeld) {
			return h, err
		}
		select {
		case <-m.woken:
		case <-time.After(look):
		case <-ctx.Done():
			return locking.Hold{}, ctx.Err()
		}
	}
}

// TestMaxStall: waiters that are dead delay the living for no longer than documented.
func TestMaxStall(t *testing.T) {
	t.Parallel()
	const slack = 8 * time.Second // for what a loaded machine takes for the calls
	for _, dead := range []int{5, 10} {
		t.Run(fmt.Sprint(dead), func(t *testing.T) {
			t.Parallel()
			l := newLine(t, testenv.SharedRedis(t))
			first := time.Now()
			for i := range dead {
				l.join(fmt.Sprint("dead ", i))
			}
			start := time.Now()
			l.release()
			live := l.member("live")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := live.untilGranted(ctx, locking.LookEvery); err != nil {
				t.Fatal(err)
			}
			took := time.Since(start)
			if live.MaxStall() != redislock.MaxStall || took > live.MaxStall()+slack {
				t.Errorf("%d dead waiters: granted after %v, want at most %v", dead, took, live.MaxStall())
			}
			if start.Sub(first) < locking.PlaceTTL/2 && took < locking.PushTTL/2 {
				t.Errorf("granted after %v: the dead were not in the way", took)
			}
		})
	}
}

// TestStorm: many who wait, leave and do not wait, in several processes, at once. Whatever
// happens the lock store has one holder at a time, numbers only grow, and nobody starves.
func TestStorm(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	for name, ttl := range map[string]time.Duration{"nobody is late": time.Minute, "holds expire": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			resource := testenv.Unique(t, "storm")
			s := &storm{exclusive: ttl == time.Minute, numbers: map[int64]string{}}
			var wg sync.WaitGroup
			for range 4 {
				b := backend(t, connect(t, server))
				for range 4 {
					wg.Go(func() {
						for range 20 {
							r := locking.Request{Resource: resource, Grant: fencing.NewGrant(), TTL: ttl}
							if err := s.once(ctx, &member{t: t, Backend: b, r: r, woken: make(chan bool, 1)}); err != nil {
								t.Errorf("%v", err)
								return
							}
						}
					})
				}
			}
			wg.Wait()
			if st, err := backend(t, connect(t, server)).Status(ctx, resource); err != nil || st.Number < int64(len(s.numbers)) || len(s.numbers) < 100 {
				t.Errorf("Status = %+v, %v after %d grants", st, err, len(s.numbers))
			}
		})
	}
}

type storm struct {
	exclusive bool // no hold expires before it is released
	inside    atomic.Int32
	last      atomic.Int64

	mu      sync.Mutex // guards numbers
	numbers map[int64]string
}

// once waits for a grant, or sometimes gives up, or does not wait.
func (s *storm) once(ctx context.Context, m *member) error {
	var h locking.Hold
	var err error
	switch rand.N(6) {
	case 0:
		if h, err = m.TryAcquire(ctx, m.r); errors.Is(err, locking.ErrHeld) {
			return nil
		}
	case 1:
		if h, err = m.join(); errors.Is(err, locking.ErrHeld) {
			if rand.N(2) == 0 {
				select {
				case <-m.woken: // and leaves with what was pushed
				case <-time.After(time.Second):
				}
			}
			return m.Leave(ctx, m.r)
		}
	default:
		look := locking.LookEvery
		if !s.exclusive {
			look /= 10 // nobody tells that a hold has expired
		}
		h, err = m.untilGranted(ctx, look)
	}
	if err != nil {
		return fmt.Errorf("not granted: %w", err)
	}
	if err := s.note(h); err != nil {
		return err
	}
	if !s.exclusive && rand.N(4) == 0 {
		return nil // never releases
	}
	if s.exclusive {
		if n := s.inside.Add(1); n != 1 {
			return fmt.Errorf("%d holders", n)
		}
		if last := s.last.Swap(h.Token.Number); last >= h.Token.Number {
			return fmt.Errorf("number %d after %d", h.Token.Number, last)
		}
	}
	next := m.r
	next.Grant = fencing.NewGrant()
	transfers := rand.N(8) == 0
	if s.exclusive {
		s.inside.Add(-1)
	}
	if transfers {
		h, err = m.Transfer(ctx, h.Token, next)
		if errors.Is(err, locking.ErrLost) && !s.exclusive {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not transferred: %w", err)
		}
		if err := s.note(h); err != nil {
			return err
		}
	}
	freed, err := m.Release(ctx, h.Token)
	if err != nil || !freed && s.exclusive {
		return fmt.Errorf("not released: %t, %w", freed, err)
	}
	return nil
}

// note finds out whether a number was granted before.
func (s *storm) note(h locking.Hold) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.numbers[h.Token.Number] != "" || !h.Drawn {
		return fmt.Errorf("%v was granted before, or not drawn (%t)", h.Token, h.Drawn)
	}
	s.numbers[h.Token.Number] = h.Token.Grant
	return nil
}
