package fault_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// counter counts on a server through its link, from before a fault, to see what the fault loses.
type counter struct {
	stop func() counted
	read func() (int64, error)
}

// counted is how far it came: high was acknowledged, and open are those that were tried since and were not, of which some may
// have come through.
type counted struct{ high, open int64 }

// count counts in a Redis.
func (s *scene) count(name string) counter {
	s.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: s.r.Links[name].Addr(), MaxRetries: -1, DialerRetries: 1, ReadTimeout: time.Second, ContextTimeoutEnabled: true,
	})
	const key = "torture-counter"
	return s.counting(func(ctx context.Context) (int64, error) { return c.Incr(ctx, key).Result() },
		func(ctx context.Context) (int64, error) {
			n, err := c.Get(ctx, key).Int64()
			if errors.Is(err, redis.Nil) {
				return 0, nil
			}
			return n, err
		}, func() { _ = c.Close() })
}

// counting calls add again and again, by one at a time, and remembers the last count before it failed. done is called in the
// end, when nobody adds any more.
func (s *scene) counting(add, read func(context.Context) (int64, error), done func()) counter {
	ctx, cancel := context.WithCancel(s.Context())
	last, ended := make(chan counted, 1), make(chan struct{})
	first := make(chan struct{})
	go func() {
		defer close(ended)
		var c counted
		for ctx.Err() == nil {
			call, end := context.WithTimeout(ctx, time.Second)
			n, err := add(call)
			end()
			if err == nil && n < c.high {
				break // lost: what follows does not count
			}
			if c.open++; err == nil {
				if c.high == 0 {
					close(first)
				}
				c = counted{high: n}
			}
			time.Sleep(time.Millisecond)
		}
		last <- c
	}()
	select {
	case <-first:
	case <-time.After(slack):
		s.Error("nothing can be counted")
	}
	stop := func() counted {
		cancel()
		return <-last
	}
	s.Cleanup(func() {
		cancel()
		<-ended
		done()
	})
	return counter{stop, func() (int64, error) {
		ctx, cancel := context.WithTimeout(s.Context(), 2*time.Second)
		defer cancel()
		return read(ctx)
	}}
}

// lossOf is a look that finds out how much was lost.
func (s *scene) lossOf(c counter, lost *int64) func() error {
	return func() error {
		got := c.stop()
		return s.within(slack, func() error {
			n, err := c.read()
			if *lost = got.high - n; *lost < 0 && -*lost <= got.open {
				*lost = 0 // carried out, and the answer did not arrive
			}
			return err
		})
	}
}

func (s *scene) runID(name string) (id string) {
	s.Helper()
	err := s.within(slack, func() error {
		return s.redis(name, func(ctx context.Context, c *redis.Client) error {
			text, err := c.Info(ctx, "server").Result()
			_, id, _ = strings.Cut(text, "\nrun_id:")
			id, _, _ = strings.Cut(id, "\r")
			return err
		})
	})
	if err != nil {
		s.Fatal(err)
	}
	return id
}

func begins(word string) func(error) bool {
	return func(err error) bool { return strings.HasPrefix(err.Error(), word) }
}

func timedOut(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

// TestRedis makes the faults of a Redis that is lock and store.
func TestRedis(t *testing.T) {
	t.Parallel()
	s := start(t, rig.Spec{Lock: "redis", Store: "redis"}, "redis-failover-lagging", "redis-slow-fsync")
	ping := func(ctx context.Context, c *redis.Client) error { return c.Ping(ctx).Err() }
	write := func(ctx context.Context, c *redis.Client) error { return c.Set(ctx, "torture-probe", "x", 0).Err() }

	was := s.runID("server")
	s.make("redis-kill", func() error { return want(s.redis("server", ping), anyError) })
	if is := s.runID("server"); is == was {
		t.Error("redis-kill: it is the same run")
	}
	s.make("redis-pause", func() error { return want(s.redis("server", ping), timedOut) })
	s.make("redis-oom", func() error { return want(s.redis("server", write), begins("OOM")) })
	s.make("redis-readonly", func() error { return want(s.redis("server", write), begins("READONLY")) })
	s.make("redis-busy-script", func() error { return want(s.redis("server", ping), begins("BUSY")) })
	s.clientsKilled()
	s.slow(write)
	for _, kind := range []string{"counters", "locks", "queues"} {
		s.make("redis-evict-"+kind, nil)
	}

	for _, c := range []struct {
		name string
		lost bool
		want []history.Loss
	}{
		{"redis-failover-in-step", false, nil},
		{"redis-failover-lagging", true, []history.Loss{history.LosesLocks, history.LosesCommits}},
		{"redis-failover-in-step", false, nil}, // back again
		{"redis-older-copy", true, []history.Loss{history.LosesLocks, history.LosesData}},
		{"redis-restart-empty", true, []history.Loss{history.LosesLocks, history.LosesData}},
		{"redis-flushall", true, []history.Loss{history.LosesLocks, history.LosesData}},
	} {
		var lost int64
		addr := s.r.Server("server")
		note := s.make(c.name, s.lossOf(s.count("server"), &lost))
		if (lost > 0) != c.lost || lost < 0 || !slices.Equal(note.Loses, c.want) {
			t.Errorf("%s: %d counts are lost, and it says %v", c.name, lost, note.Loses)
		}
		if moved := s.r.Server("server") != addr; moved != strings.Contains(c.name, "failover") {
			t.Errorf("%s: the server moved: %t", c.name, moved)
		}
	}
}

// clientsKilled: a connection of ours dies.
func (s *scene) clientsKilled() {
	s.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.r.Server("server"), MaxRetries: -1})
	defer c.Close()
	conn := c.Conn()
	defer conn.Close()
	if err := conn.Ping(s.Context()).Err(); err != nil {
		s.Fatal(err)
	}
	s.make("redis-clients-killed", func() error { return want(conn.Ping(s.Context()).Err(), anyError) })
}

// slow: the quickest of some writes is slow, and then it is not.
func (s *scene) slow(write func(context.Context, *redis.Client) error) {
	s.Helper()
	quickest := func() (best time.Duration, err error) {
		best = time.Hour
		for range 8 {
			began := time.Now()
			if err := s.redis("server", write); err != nil {
				return 0, err
			}
			best = min(best, time.Since(began))
		}
		return best, nil
	}
	s.make("redis-slow-fsync", func() error {
		best, err := quickest()
		if err == nil && best < 15*time.Millisecond {
			err = fmt.Errorf("a write took %v", best)
		}
		return err
	})
	if err := s.within(slack, func() error {
		best, err := quickest()
		if err == nil && best > 15*time.Millisecond {
			err = fmt.Errorf("after it was healed a write took %v", best)
		}
		return err
	}); err != nil {
		s.Error(err)
	}
}

// redisLosses: what a Redis loses depends on what it is there for.
func (s *scene) redisLosses(loss history.Loss) {
	s.Helper()
	for _, name := range []string{"redis-restart-empty", "redis-flushall"} {
		note := s.make(name, nil)
		if want := []history.Loss{loss}; !slices.Equal(note.Loses, want) {
			s.Errorf("%s: it says %v, want %v", name, note.Loses, want)
		}
	}
}
