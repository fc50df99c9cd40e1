package sim_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// profile is what a seed decides for a whole run.
type profile struct {
	processes, seats, resources int
	line                        bool    // the lock store keeps a line and hands over
	lose, late, slow, double    float64 // of messages
	rate                        float64 // of the lock store's clock
	heal                        int     // the cell from which on there are no faults
	crashes, cuts, evictions    int
	outage                      int // how many cells a crashed host is away at most
	forgets, jumps, older       bool
}

func newProfile(r *roller) profile {
	pick := func(p ...float64) float64 { return p[r.upTo(len(p))-1] }
	// How much faster the lock store's clock may be: a TTL of it lasts for TTL-drift here.
	fast := float64(drift) / float64(ttl-drift)
	return profile{
		processes: r.in(2, 3), seats: r.in(1, 2), resources: r.in(1, 2),
		line: r.chance(0.4),
		lose: pick(0, 0.02, 0.1), late: pick(0, 0.02, 0.05), slow: pick(0, 0.1, 0.5), double: pick(0, 0.05, 0.2),
		rate:    1 + fast*pick(-0.9, 0, 0.9),
		heal:    r.in(60, 140),
		crashes: r.in(0, 3), cuts: r.in(0, 3), evictions: r.in(0, 2), outage: r.in(2, 25),
		forgets: r.chance(0.3), jumps: r.chance(0.1), older: r.chance(0.3),
	}
}

// world is one run.
type world struct {
	p       profile
	planted planted
	roll    roller
	log     *log
	net     *network
	h       *history
	lock    *lockHost
	data    *dataHost
	all     []*process
}

func newWorld(t *testing.T, seed uint64, bug planted) *world {
	w := &world{planted: bug, roll: roller(mix(seed)), log: &log{}}
	w.p = newProfile(&w.roll)
	bug.shape(&w.p)
	w.net = &network{
		seed: seed, p: w.p, log: w.log, start: time.Now(), sent: map[string]int{}, heal: w.p.heal, earlier: make(chan struct{}, 1),
	}
	w.h = newHistory(w.net, w.log)
	w.lock = &lockHost{host: host{name: "lock"}, h: w.h, planted: bug, line: w.p.line, clock: skewed{net: w.net, rate: w.p.rate}}
	w.lock.fresh()
	w.data = &dataHost{host: host{name: "data"}, net: w.net, h: w.h, planted: bug, dataset: newDataset()}
	for i := range w.p.processes {
		w.all = append(w.all, w.newProcess(t, fmt.Sprintf("p%d", i+1)))
	}
	w.log.add(0, "seed %d: %+v", seed, w.p)
	return w
}

func (w *world) newProcess(t *testing.T, name string) *process {
	p := &process{name: name}
	toLock, toData := &link{net: w.net, from: p, to: &w.lock.host}, &link{net: w.net, from: p, to: &w.data.host}
	p.links = []*link{toLock, toData}
	lock := lockClient{link: toLock, to: w.lock}
	var backend locking.Backend = &lock
	poll := cell
	if w.p.line {
		backend = &lineClient{lockClient: lock, words: map[string]func(){}}
		poll = 4 * cell // jitter of a cell at most
	}
	mode := fencing.Strict
	if w.planted == noRaise {
		mode = fencing.Classic
	}
	var err error
	if p.store, err = storage.New(&dataClient{link: toData, to: w.data, planted: w.planted}, &storage.Options{Mode: mode}); err != nil {
		t.Fatal(err)
	}
	fences := []fencing.Fence{p.store}
	if w.planted == noRaise {
		fences = nil
	}
	count := func(e fencing.Event) {
		if e.Kind == fencing.EventReissued || e.Kind == fencing.EventRegression {
			w.h.count(func(c *counts) { c.reissues++ })
		}
	}
	if p.issuer, err = locking.NewIssuer(backend, fences, &locking.IssuerOptions{Poll: poll, Cleanup: time.Second, OnEvent: count}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (w *world) newSeat(t *testing.T, p *process, name string, n int) *seat {
	locker, err := newLocker(desk{p.issuer, w.planted})
	if err != nil {
		t.Fatal(err)
	}
	return &seat{
		w: w, p: p, name: p.name + name, phase: time.Duration(n+1) * time.Nanosecond, locker: locker,
		roll: roller(hash(w.net.seed, p.name+name, 0)),
	}
}

// run lets everybody work while there are faults, and then looks whether every resource is served
// again.
func (w *world) run(t *testing.T) result {
	var network, seats sync.WaitGroup
	w.faults()
	network.Go(w.net.run)
	n := 0
	for _, p := range w.all {
		for i := range w.p.seats {
			s := w.newSeat(t, p, fmt.Sprintf("s%d", i+1), n)
			seats.Go(s.run)
			n++
		}
	}
	operator := n
	seats.Go(func() { w.operate(operator) })
	after := w.newProcess(t, "after")
	for r := range w.p.resources {
		n++
		s := w.newSeat(t, after, fmt.Sprintf("s%d", r+1), n)
		seats.Go(func() { s.prove(fmt.Sprintf("r%d", r+1)) })
	}
	seats.Wait()
	w.net.close()
	network.Wait()
	w.h.end(w.data)
	return result{log: w.log.lines, violated: w.h.violated, counts: w.h.counts}
}

// operate evicts somebody now and then.
func (w *world) operate(phase int) {
	p := w.all[0]
	s := &seat{w: w, p: p, name: "operator", phase: time.Duration(phase+1) * time.Nanosecond, roll: roller(hash(w.net.seed, "operator", 0))}
	for range w.p.evictions {
		s.sleep(s.roll.upTo(60))
		resource := fmt.Sprintf("r%d", s.roll.upTo(w.p.resources))
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		st, err := p.issuer.Status(ctx, resource)
		if err == nil && st.Number > 0 {
			err = p.issuer.Evict(ctx, resource, st.Number, "simulated")
			s.note("evicted %s up to %d: %v", resource, st.Number, err)
			if err == nil {
				w.h.evictedUpTo(resource, st.Number)
			}
		}
		cancel()
	}
}

// prove: INV13, after the faults have ended a resource is served within a TTL and ten seconds.
func (s *seat) prove(resource string) {
	s.sleep(s.w.p.heal)
	limit := s.w.p.heal + int((ttl+10*time.Second)/cell)
	for !s.turn(resource, max(1, limit-s.w.net.now()), 1) {
		if s.w.net.now() >= limit {
			s.w.h.mu.Lock()
			s.w.h.violation("INV13: %s is not served %v after the faults ended", resource, ttl+10*time.Second)
			s.w.h.mu.Unlock()
			return
		}
		s.sleep(1)
	}
	s.note("is served again, %d cells after the faults ended", s.w.net.now()-s.w.p.heal)
}
