package fault_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// On which rigs there are links for a fault, and which.
func TestNetworkFits(t *testing.T) {
	t.Parallel()
	rigs := map[string]rig.Spec{
		"redis+postgres":            {Lock: "redis", Store: "postgres"},
		"postgres+postgres":         {Lock: "postgres", Store: "postgres"},
		"redis+redis":               {Lock: "redis", Store: "redis"},
		"redlock+postgres":          {Lock: "redlock", Store: "postgres"},
		"memory+sqlite":             {Lock: "memory", Store: "sqlite", Gateways: 1},
		"gateway+postgres+postgres": {Lock: "postgres", Store: "postgres", Gateways: 2},
	}
	want := map[string]string{
		"net-latency":            "redis+postgres postgres+postgres redis+redis redlock+postgres gateway+postgres+postgres",
		"net-reply-loss":         "redis+postgres postgres+postgres redis+redis redlock+postgres gateway+postgres+postgres",
		"net-reply-loss-lock":    "redis+postgres redlock+postgres",
		"net-store-only":         "redis+postgres redlock+postgres",
		"net-lock-only":          "redis+postgres redlock+postgres",
		"net-duplicates":         "redis+postgres redis+redis",
		"net-gateway-cut":        "memory+sqlite gateway+postgres+postgres",
		"net-redlock-minority":   "redlock+postgres",
		"net-redlock-duplicates": "redlock+postgres",
		"net-nft-drop":           "redis+postgres postgres+postgres redis+redis redlock+postgres gateway+postgres+postgres",
		"clock-forward":          "redis+postgres redis+redis redlock+postgres",
	}
	for name, fits := range want {
		f, ok := fault.Named(name)
		if !ok {
			t.Errorf("there is no %s", name)
			continue
		}
		for on, s := range rigs {
			if got, want := f.Fits(s), slices.Contains(strings.Fields(fits), on); got != want {
				t.Errorf("%s fits %s: %v, want %v", name, on, got, want)
			}
			if !f.Fits(s) {
				continue
			}
			f.Prepare(&s)
			if gateway := strings.HasPrefix(name, "net-gateway"); strings.HasPrefix(name, "net-") && (s.GatewayLinks != gateway || s.Links == gateway) {
				t.Errorf("%s on %s: links %v, gateway links %v", name, on, s.Links, s.GatewayLinks)
			}
		}
	}
}

// probe is what a client of a Redis saw.
type probe struct {
	sent, answered, failed, late int           // late are those of more than 20 ms
	timeouts                     int           // of those that failed
	slowest, took                time.Duration // took is how long all took together
	counted                      int64         // by the server
}

// watch sends INCRs to addr until it is told to stop, each with a timeout. until waits, for slack at most, until
// enough was seen.
func watch(t *testing.T, addr, key string) (until func(enough func(probe) bool), stop func() probe) {
	t.Helper()
	more := make(chan struct{}, 1) // something was seen
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var p probe
	var running sync.WaitGroup
	running.Go(func() {
		c := dialRedis(t, addr, hasty)
		pace := time.NewTicker(time.Millisecond) // others want the processor, too
		defer pace.Stop()
		for ; ctx.Err() == nil; <-pace.C {
			began := time.Now()
			err := c.Incr(context.WithoutCancel(ctx), key).Err()
			took := time.Since(began)
			mu.Lock()
			p.sent++
			switch {
			case err == nil:
				p.answered++
			case timedOut(err):
				p.timeouts++
				fallthrough
			default:
				p.failed++
			}
			if took > 20*time.Millisecond {
				p.late++
			}
			p.slowest, p.took = max(p.slowest, took), p.took+took
			mu.Unlock()
			select {
			case more <- struct{}{}:
			default:
			}
		}
	})
	look := func() probe {
		mu.Lock()
		defer mu.Unlock()
		return p
	}
	until = func(enough func(probe) bool) {
		late := time.After(slack)
		for !enough(look()) {
			select {
			case <-more:
			case <-late:
				return
			}
		}
	}
	return until, func() probe { cancel(); running.Wait(); return look() }
}

// hasty is the patience of a client whose calls are to fail: it is short, so that many do in little time.
const hasty = 300 * time.Millisecond

// dialRedis returns a client that waits for an answer for as long as its patience is.
func dialRedis(t *testing.T, addr string, patience time.Duration) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1,
		PoolSize:    10_000, // so many failed dials make a pool wait for a second
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// build builds a rig without clients, on which some faults were prepared.
func build(t *testing.T, s rig.Spec, names ...string) *rig.Rig {
	t.Helper()
	for _, name := range names {
		f, _ := fault.Named(name)
		f.Prepare(&s)
	}
	s.Volatile = true
	s.Client.TTL = 400 * time.Millisecond
	r, err := rig.Build(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// inject makes a fault, has during called, and heals it.
func inject(t *testing.T, r *rig.Rig, name string, during func()) history.Fault {
	t.Helper()
	f, ok := fault.Named(name)
	if !ok || !f.Fits(r.Spec) {
		t.Fatalf("%s does not fit", name)
	}
	note := history.Fault{Name: name, Loses: f.Loses}
	heal, err := f.Inject(t.Context(), r, rand.New(rand.NewPCG(1, 2)), &note)
	if err == nil {
		during()
	}
	if heal != nil {
		if err := heal(t.Context()); err != nil {
			t.Errorf("heal %s: %v", name, err)
		}
	}
	if fault.IsVoid(err) {
		t.Logf("%s: %v", name, err)
		note.Void = err.Error()
	} else if err != nil {
		t.Fatalf("inject %s: %v", name, err)
	}
	return note
}

// Each fault is seen by a client, and gone when it is healed.
func TestNetwork(t *testing.T) {
	t.Parallel()
	r := build(t, rig.Spec{Lock: "redis", Store: "redis"}, "net-cut")
	some := func(n int) func(probe) bool { return func(p probe) bool { return p.sent >= n } }
	answered := func(n int) func(probe) bool { return func(p probe) bool { return p.answered >= n } }
	both := func(p probe) bool { return p.failed > 0 && p.answered > 0 }
	for name, c := range map[string]struct {
		enough func(probe) bool // it lasts until then
		seen   func(probe) bool // with what the server has counted
	}{
		"net-latency":       {answered(5), func(p probe) bool { return p.late == p.sent && p.answered > 0 }},
		"net-slow":          {answered(20), func(p probe) bool { return p.answered > 0 && p.took > time.Duration(p.sent)*2*time.Millisecond }},
		"net-jitter-spikes": {func(p probe) bool { return p.slowest > 150*time.Millisecond }, func(p probe) bool { return p.slowest > 150*time.Millisecond }},
		"net-held":          {both, both},
		"net-duplicates":    {some(300), func(p probe) bool { return int(p.counted) > p.sent+p.sent/10 }},
		"net-reply-loss":    {func(p probe) bool { return p.failed >= 10 && p.answered > 0 }, func(p probe) bool { return both(p) && int(p.counted) > p.answered }},
		"net-request-loss": {func(p probe) bool { return p.failed > p.timeouts && p.answered > 0 }, func(p probe) bool {
			return p.failed > p.timeouts && int(p.counted) >= p.answered && int(p.counted) <= p.answered+p.timeouts
		}},
		"net-flap":             {both, both},
		"net-cut":              {some(5), func(p probe) bool { return p.answered == 0 }},
		"net-one-way-requests": {some(2), func(p probe) bool { return p.answered == 0 && p.counted == 0 }},
		"net-one-way-replies":  {some(2), func(p probe) bool { return p.answered == 0 }},
		"net-nft-one-way":      {some(2), func(p probe) bool { return p.answered == 0 }},
		"net-nft-drop":         {some(2), func(p probe) bool { return p.answered == 0 && p.late > 0 }},
	} {
		l := r.Links["server"]
		direct := dialRedis(t, r.Server("server"), slack)
		_, background := watch(t, l.Addr(), "background") // who is there before the fault
		var p probe
		note := inject(t, r, name, func() {
			until, stop := watch(t, l.Addr(), name)
			until(c.enough)
			p = stop()
		})
		background()
		// What is on its way arrives: at last it is as it should be, and stays so.
		again := time.NewTicker(50 * time.Millisecond)
		for end, same := time.Now().Add(slack), 0; note.Void == "" && same < 5 && time.Now().Before(end); <-again.C {
			n, _ := direct.Get(t.Context(), name).Int64()
			if same++; n != p.counted || !c.seen(p) {
				same = 0
			}
			p.counted = n
		}
		again.Stop()
		if note.Void == "" && !c.seen(p) {
			t.Errorf("%s: a client saw %+v", name, p)
		}
		if note.Detail == "" && note.Void == "" {
			t.Errorf("%s does not say what it did", name)
		}
		after := dialRedis(t, l.Addr(), hasty)
		for end := time.Now().Add(slack); after.Ping(t.Context()).Err() != nil; {
			if time.Now().After(end) {
				t.Fatalf("after %s nobody is served", name)
			}
		}
	}
	halfOpen(t, r)
}

// halfOpen: the connections that are open are dead, new ones work.
func halfOpen(t *testing.T, r *rig.Rig) {
	t.Helper()
	ctx := t.Context()
	old := dialRedis(t, r.Links["server"].Addr(), hasty)
	for end := time.Now().Add(slack); ; {
		err := old.Ping(ctx).Err()
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	inject(t, r, "net-half-open", func() {
		if err := old.Ping(ctx).Err(); err == nil {
			t.Error("an open connection passes a PING")
		}
		for end := time.Now().Add(slack); ; {
			err := dialRedis(t, r.Links["server"].Addr(), hasty).Ping(ctx).Err()
			if err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("a new connection: %v", err)
			}
		}
	})
}

// reached returns the links by which a PING is answered.
func reached(t *testing.T, r *rig.Rig) (names []string) {
	t.Helper()
	const patience = 3 * time.Second // more than a busy machine takes; those that are not reached are waited for together
	var mu sync.Mutex
	var all sync.WaitGroup
	for name, l := range r.Links {
		c := dialRedis(t, l.Addr(), patience)
		all.Go(func() {
			if c.Ping(t.Context()).Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				names = append(names, name)
			}
		})
	}
	all.Wait()
	slices.Sort(names)
	return names
}

func TestNetworkOfRedlock(t *testing.T) {
	t.Parallel()
	r := build(t, rig.Spec{Lock: "redlock", Store: "redis"}, "net-redlock-majority")
	for name, want := range map[string]int{"net-redlock-minority": 4, "net-redlock-majority": 3, "net-redlock-one-way": 4} {
		note := inject(t, r, name, func() {
			if got := reached(t, r); len(got) != want || !slices.Contains(got, "store") {
				t.Errorf("%s: %v are reached, want %d, and the store among them", name, got, want)
			}
		})
		if n := strings.Count(note.Detail, "lock-"); n != 6-want {
			t.Errorf("%s says %q", name, note.Detail)
		}
		if got := reached(t, r); len(got) != 6 {
			t.Errorf("after %s only %v are reached", name, got)
		}
	}
	for name, want := range map[string]string{"net-store-only": "lock-0 lock-1 lock-2 lock-3 lock-4", "net-lock-only": "store"} {
		inject(t, r, name, func() {
			if got := strings.Join(reached(t, r), " "); got != want {
				t.Errorf("%s: %s are reached, want %s", name, got, want)
			}
		})
	}
}

// A rig without links is a mistake that is named.
func TestUnprepared(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"net-cut", "net-flap"} {
		f, _ := fault.Named(name)
		_, err := f.Inject(t.Context(), &rig.Rig{Spec: rig.Spec{Lock: "redis", Store: "redis"}}, rand.New(rand.NewPCG(1, 2)), &history.Fault{})
		if err == nil || fault.IsVoid(err) {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
}

// Commits without a key are promised nothing when they come twice.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]bool{
		"*3\r\n$7\r\nEVALSHA\r\n$3\r\nput\r\n$1\r\n1\r\n":                                          false,
		"*3\r\n$7\r\nEVALSHA\r\n$4\r\nmark\r\n$1\r\n1\r\n":                                         true,
		"POST /v1/commits HTTP/1.1\r\nHost: x\r\n\r\n":                                             false,
		"POST /v1/commits HTTP/1.1\r\nHost: x\r\nIdempotency-Key: a\r\n\r\n":                       true,
		"PUT /v1/resources/a/records/b HTTP/1.1\r\nHost: x\r\n\r\n":                                false,
		"GET /v1/resources/a/records/b HTTP/1.1\r\nHost: x\r\n\r\n":                                true,
		"POST /v1/resources/a/lock HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}":             true,
		"DELETE /v1/resources/a/lock HTTP/1.1\r\nHost: x\r\n\r\n":                                  true,
		"DELETE /v1/resources/a/records/b HTTP/1.1\r\nHost: x\r\nIdempotency-Key: \"abc\"\r\n\r\n": true,
	} {
		if got := fault.Repeatable([]byte(request)); got != want {
			t.Errorf("%q may be repeated: %v, want %v", request, got, want)
		}
	}
}
