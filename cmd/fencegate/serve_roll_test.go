//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// TestServeRollingRestart restarts three replicas one after the other while clients work: leases
// with read-modify-write, commits with a key, and commits without one, which nobody may repeat. No
// call fails, and every counter is what was counted.
func TestServeRollingRestart(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		rollingRestart(t, "--lock", "postgres", "--store", "postgres", "--postgres-url", pgtxtest.Database(t))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		rollingRestart(t, "--lock", "redis", "--store", "redis", "--redis-url", testenv.SharedRedis(t).URL())
	})
}

func rollingRestart(t *testing.T, args ...string) {
	args = append(args, "--drain-delay", "2s", "--log-level", "warn")
	const replicas = 3
	var running [replicas]*replica
	var urls []string
	for i := range running {
		running[i] = startReplica(t, append(args, "--listen", freePort(t))...)
		urls = append(urls, running[i].url)
	}
	l := &rollingLoad{t: t, names: testenv.Unique(t, "stock")}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers sync.WaitGroup
	for n := range 3 { // each replica is somebody's first
		c, err := client.New(urls[n], &client.Options{Others: []string{urls[(n+1)%replicas], urls[(n+2)%replicas]}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		workers.Go(func() { l.leases(ctx, c) })
		workers.Go(func() { l.commits(ctx, c, "keyed", n) })
		workers.Go(func() { l.commits(ctx, c, "plain", n) })
	}
	l.progress("the first calls")
	for i, r := range running {
		r.stop()
		l.progress("calls without replica " + strconv.Itoa(i))
		running[i] = startReplica(t, append(args, "--listen", r.url[len("http://"):])...)
		l.progress("calls after its restart")
	}
	stop()
	workers.Wait()
	c, err := client.New(urls[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	l.compare(c)
	for _, r := range running {
		r.stop()
	}
}

// rollingLoad counts what clients do.
type rollingLoad struct {
	t     *testing.T
	names string
	done  sync.Map // by resource: *atomic.Int64, how often it was added to
	calls atomic.Int64
}

func (l *rollingLoad) did(resource string) {
	n, _ := l.done.LoadOrStore(resource, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	l.calls.Add(1)
}

// progress waits until the clients have done something more.
func (l *rollingLoad) progress(what string) {
	l.t.Helper()
	from := l.calls.Load()
	testenv.Eventually(l.t, time.Minute, what, func() bool { return l.calls.Load() >= from+30 || l.t.Failed() })
}

// leases adds to a counter that all share, by reading and writing under its lock.
func (l *rollingLoad) leases(ctx context.Context, c *client.Client) {
	locker, err := locking.New(c.Issuer(), nil)
	if err != nil {
		l.t.Error(err)
		return
	}
	resource := l.names + ":shared"
	for ctx.Err() == nil {
		// What has begun is brought to its end, so that everything that is counted was counted here.
		err := locker.Do(context.WithoutCancel(ctx), resource, func(ctx context.Context, t fencing.Token) error {
			n, err := counterOf(c.Store().GetFenced(ctx, t, "left"))
			if err != nil {
				return fmt.Errorf("read: %w", err)
			}
			_, err = c.Store().Commit(ctx, storage.Commit{
				Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Put(resource, "left", storage.Counter(n+1))},
			})
			return err
		})
		if err != nil {
			l.t.Errorf("a lease: %v", err)
			return
		}
		l.did(resource)
	}
}

// counterOf is a record's counter; 0 if there is no record.
func counterOf(rec storage.Record, err error) (int64, error) {
	if errors.Is(err, storage.ErrNotFound) {
		return 0, nil
	}
	n, ok := storage.ParseCounter(rec.Value)
	if err == nil && !ok {
		err = fmt.Errorf("%q is no counter", rec.Value)
	}
	return n, err
}

// commits adds to a counter of its own, under one lease that lasts for all of it.
func (l *rollingLoad) commits(ctx context.Context, c *client.Client, kind string, n int) {
	locker, err := locking.New(c.Issuer(), nil)
	if err != nil {
		l.t.Error(err)
		return
	}
	resource := fmt.Sprint(l.names, ":", kind, n)
	err = locker.Do(context.WithoutCancel(ctx), resource, func(held context.Context, t fencing.Token) error {
		for i := 0; ctx.Err() == nil; i++ {
			com := storage.Commit{Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Add(resource, "left", 1, 0)}}
			if kind == "keyed" {
				com.Key = "add-" + strconv.Itoa(i)
			}
			if _, err := c.Store().Commit(held, com); err != nil {
				return fmt.Errorf("commit %d: %w", i, err)
			}
			l.did(resource)
		}
		return nil
	})
	if err != nil {
		l.t.Errorf("%s: %v", resource, err)
	}
}

// compare finds in the store what was counted.
func (l *rollingLoad) compare(c *client.Client) {
	counters := 0
	l.done.Range(func(name, n any) bool {
		counters++
		got, err := counterOf(c.Store().Get(l.t.Context(), name.(string), "left"))
		if want := n.(*atomic.Int64).Load(); err != nil || got != want {
			l.t.Errorf("%s is %d, %v, want %d", name, got, err, want)
		}
		return true
	})
	if counters != 7 {
		l.t.Errorf("%d counters, want 7", counters)
	}
	l.t.Logf("%d calls", l.calls.Load())
}
