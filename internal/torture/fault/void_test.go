package fault_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/link"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// void makes a fault that must be void, at once or when it is healed.
func void(t *testing.T, r *rig.Rig, name string, during func()) {
	t.Helper()
	heal, err := named(t, name).Inject(t.Context(), r, rand.New(rand.NewPCG(1, 2)), &history.Fault{})
	if err == nil {
		during()
	}
	if heal != nil {
		err = errors.Join(err, heal(context.WithoutCancel(t.Context())))
	}
	if !fault.IsVoid(err) {
		t.Errorf("%s: got %v, want a *VoidError", name, err)
	}
}

// TestNothingDone: what finds nothing to do says so, and is not a fault that was withstood.
func TestNothingDone(t *testing.T) {
	t.Parallel()
	r := build(t, rig.Spec{Lock: "redis", Store: "postgres"}, "postgres-cancel-sync-wait")
	for _, name := range []string{
		"redis-evict-locks", "redis-clients-killed",
		"postgres-terminate-backends", "postgres-cancel-sync-wait", "postgres-deadlocks",
		"evict-holders", "evict-all-marks", // these leave connections
	} {
		void(t, r, name, func() { // for some steps of it
			hold := time.NewTimer(200 * time.Millisecond)
			defer hold.Stop()
			<-hold.C
		})
	}
	if _, err := named(t, "client-pause").Inject(t.Context(), r, nil, &history.Fault{}); err == nil || fault.IsVoid(err) {
		t.Errorf("client-pause without clients: got %v, want an error", err)
	}
}

// TestBrokenLibrary: the servers were to load a library, and have not.
func TestBrokenLibrary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := filepath.Join(dir, "clocks")
	if err := os.WriteFile(table, make([]byte, 8*65536), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := rig.Build(t.Context(), rig.Spec{
		Lock: "redis", Store: "redis",
		RedisEnv: []string{"FENCEGATE_CLOCK=" + table, "LD_PRELOAD=" + filepath.Join(dir, "slowsync.so")}, // which is not there
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	c := redis.NewClient(&redis.Options{Addr: r.Server("server")})
	defer c.Close()
	for _, name := range []string{"clock-forward", "clock-back", "redis-slow-fsync"} {
		void(t, r, name, func() {
			for range 3 {
				if err := c.Set(t.Context(), "torture-probe", name, 0).Err(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// canceled makes every fault that fits under a context that has ended, and heals it.
func (s *scene) canceled() {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	for _, f := range fault.All() {
		if !f.Fits(s.r.Spec) || f.Name == "disk-full" { // which takes its time
			continue
		}
		began := time.Now()
		note := history.Fault{Name: f.Name, Loses: f.Loses}
		heal, err := f.Inject(ctx, s.r, s.rnd, &note)
		if fault.IsVoid(err) && (f.Name == "herd" || f.Name == "redis-evict-locks") {
			s.Errorf("%s was cut short, and not void: %v", f.Name, err)
		}
		if heal != nil {
			if err := heal(context.WithoutCancel(s.Context())); err != nil {
				s.Errorf("healing %s, which was cut short: %v", f.Name, err)
			}
		}
		if took := time.Since(began); took > time.Second {
			s.Logf("%s, which was cut short, took %v", f.Name, took.Round(time.Millisecond))
		}
	}
	for _, p := range s.r.Clients {
		at := s.written(p.ID())
		if err := s.within(slack, func() error { return s.goesOn(p.ID(), at) }); err != nil {
			s.Error(err)
		}
	}
	if err := s.within(slack, s.served); err != nil {
		s.Errorf("after faults that were cut short there is no service: %v", err)
	}
}

// noTransaction: no process is in a transaction before time is over, or before the run is.
func (s *scene) noTransaction() {
	s.Helper()
	for _, within := range []time.Duration{0, time.Hour} {
		ctx, cancel := context.WithCancel(s.Context())
		note := history.Fault{}
		heal, err := fault.PauseInTransaction(ctx, s.r, s.rnd, &note, func(context.Context, *rig.Rig) (int, error) {
			if within > 0 {
				cancel()
			}
			return 0, nil
		}, within)
		cancel()
		if err == nil || fault.IsVoid(err) != (within == 0) || len(note.Paused) > 0 {
			s.Errorf("within %v: got %v, and %v are paused", within, err, note.Paused)
		}
		if err := heal(s.Context()); err != nil {
			s.Error(err)
		}
	}
}

// TestRowLocksLost: a row lock is free with its connection, which its holder hears of later.
func TestRowLocksLost(t *testing.T) {
	t.Parallel()
	locks := []history.Loss{history.LosesLocks}
	short, long := 400*time.Millisecond, 5*time.Second
	for _, c := range []struct {
		fault, lock, store string
		ttl                time.Duration
		want               []history.Loss
	}{
		{"net-cut", "rowlock", "postgres", short, locks},
		{"net-flap", "rowlock", "postgres", short, locks},
		{"net-request-loss", "rowlock", "postgres", short, locks},
		{"net-reply-loss", "rowlock", "postgres", short, locks},
		{"net-reply-loss-lock", "rowlock", "redis", short, locks},
		{"net-reply-loss", "rowlock", "redis", short, nil}, // the store's
		{"net-half-open", "rowlock", "postgres", short, nil},
		{"net-half-open", "rowlock", "postgres", long, locks}, // healed before the leases are over
		{"net-one-way-replies", "rowlock", "postgres", long, locks},
		{"net-latency", "rowlock", "postgres", long, nil},
		{"net-cut", "postgres", "postgres", long, nil},
		{"net-request-loss", "redis", "postgres", long, nil},
		{"net-nft-drop", "rowlock", "postgres", short, locks},
		{"net-nft-drop", "postgres", "postgres", short, nil},
		{"net-redlock-duplicates", "redlock", "postgres", short, locks},
	} {
		f := named(t, c.fault)
		r := &rig.Rig{Spec: rig.Spec{Lock: c.lock, Store: c.store, Nodes: 3}, Links: map[string]*link.Link{}}
		r.Spec.Client.TTL = c.ttl
		for _, name := range []string{"lock", "lock-0", "lock-1", "lock-2", "store", "server"} {
			l, err := link.New("")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			r.Links[name] = l
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		note := history.Fault{Loses: f.Loses}
		heal, _ := f.Inject(ctx, r, rand.New(rand.NewPCG(1, 2)), &note) // some want a server
		if heal != nil {
			if err := heal(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(note.Loses, c.want) {
			t.Errorf("%s on %s+%s with leases of %v: loses %v, want %v", c.fault, c.lock, c.store, c.ttl, note.Loses, c.want)
		}
		for _, loss := range note.Loses {
			if !slices.Contains(f.Loses, loss) {
				t.Errorf("%s loses %v at most, and %v here", c.fault, f.Loses, loss)
			}
		}
	}
}
