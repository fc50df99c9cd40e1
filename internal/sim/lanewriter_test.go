package sim_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// writer sends commits one after the other.
type writer struct {
	w     *laneWorld
	name  string
	phase time.Duration
	roll  roller
}

// laneLimit is how long a commit may take at most: two batches before its own that began before
// it came, and one for each that was ahead of it, each of two things that the disk does.
const laneLimit = (2 + 12) * (2*4 + 1) * cell

func (r *writer) sleep(cells int) {
	time.Sleep(time.Duration(r.w.now()+cells+1)*cell + r.phase - time.Since(r.w.start))
}

func (r *writer) run() {
	for i := range r.roll.in(1, 6) {
		r.sleep(r.roll.upTo(6))
		r.write(fmt.Sprintf("%s-%d", r.name, i+1))
	}
}

// write tries a commit until its outcome is known, or gives up.
func (r *writer) write(name string) {
	c := storage.Commit{
		Tokens: []fencing.Token{laneToken}, Key: name,
		Ops: []storage.Op{storage.Add(laneToken.Resource, fmt.Sprintf("c%d", r.roll.upTo(2)), 1, 0)},
	}
	unknown := false
	for range r.roll.in(1, 5) {
		s := &sending{c: c}
		out := r.try(s)
		r.sleep(0)
		r.w.log.add(r.w.now(), "%s: %s", name, outcome(out, nil))
		r.w.heard(s, out, unknown)
		if out.Err == nil {
			return
		}
		unknown = unknown || fencing.OutcomeOf(out.Err) == fencing.Unknown
		r.sleep(r.roll.upTo(3))
	}
}

// try sends the commit once: alone, if it may have the lane for itself, or with others.
func (r *writer) try(s *sending) storage.Outcome {
	if r.roll.chance(0.3) {
		if visit := r.w.lane.Enter(3 * cell); visit != 0 {
			s.taken = 1
			r.w.disk(&r.roll)
			r.w.mu.Lock()
			out := r.w.apply(s.c)
			r.w.mu.Unlock()
			r.w.lane.Leave(visit)
			return out
		}
	}
	ctx, cancel := context.Background(), func() {}
	if r.roll.chance(0.4) {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.roll.upTo(12))*cell+5*time.Microsecond)
	}
	defer cancel()
	r.w.mu.Lock()
	r.w.came++
	s.seq = r.w.came
	r.w.mu.Unlock()
	begun := time.Now()
	out := r.w.lane.Do(ctx, s)[0]
	if took := time.Since(begun); took > laneLimit {
		r.w.fail("lane: %s waited for %v", s.c.Key, took)
	}
	return out
}

// TestLanes: whatever the disk does and whoever leaves, everybody gets the answer to its own
// commit, and nothing is lost or done twice.
//
//nolint:paralleltest // it takes all processors, one simulation after the other
func TestLanes(t *testing.T) {
	total := many(t, 0.4, func(t *testing.T, seed uint64) result { return simulateLane(t, seed, none) })
	if *seedFlag == 0 && (total.writes == 0 || total.unknowns == 0 || total.failures == 0) {
		t.Errorf("void: too little happened: %v", total)
	}
}

// TestSameSeedInLanes: a seed decides a run.
func TestSameSeedInLanes(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 100; seed++ {
		if first, again := simulateLane(t, seed, none), simulateLane(t, seed, none); !slices.Equal(first.log, again.log) {
			t.Errorf("seed %d: the runs differ", seed)
		}
	}
}

const (
	swapsResults planted = "two results of a batch are swapped"
	failedIsNot  planted = "a batch is called failed, and was written"
	lastFirst    planted = "who came last is taken first"
	takesTheGone planted = "who has left is taken all the same"
	twoAtOnce    planted = "two batches at once"
	losesOne     planted = "one of those in line is forgotten"
	dawdles      planted = "the lane rests before a batch"
)

var laneBugs = map[planted]finds{
	swapsResults: {"lane: ", 300},
	failedIsNot:  {"INV6", 300},
	keyForgotten: {"INV7", 300},
	lastFirst:    {"lane: ", 300},
	takesTheGone: {"lane: ", 300},
	twoAtOnce:    {"lane: two", 300},
	losesOne:     {"INV13", 300},
	dawdles:      {"lane: ", 300},
}

// TestPlantedInLanes: the rules of TestLanes find each planted bug.
func TestPlantedInLanes(t *testing.T) {
	t.Parallel()
	for bug, want := range laneBugs {
		t.Run(string(bug), func(t *testing.T) {
			t.Parallel()
			find(t, bug, want, simulateLane)
		})
	}
}

// badLane is a lane with a bug.
type badLane struct {
	bug  planted
	most int
	run  func(take func() []*sending) []storage.Outcome

	mu      sync.Mutex // guards what follows
	queue   []*inLine
	running int
	idle    sync.Cond
}

type inLine struct {
	s    *sending
	out  storage.Outcome
	done chan struct{}
}

func newBadLane(bug planted, most int, run func(take func() []*sending) []storage.Outcome) *badLane {
	l := &badLane{bug: bug, most: most, run: run}
	l.idle.L = &l.mu
	return l
}

func (l *badLane) Enter(time.Duration) int { return 0 }
func (l *badLane) Leave(int)               {}

func (l *badLane) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.running > 0 {
		l.idle.Wait()
	}
}

func (l *badLane) Do(ctx context.Context, values ...*sending) []storage.Outcome {
	it := &inLine{s: values[0], done: make(chan struct{})}
	l.mu.Lock()
	if l.queue = append(l.queue, it); l.bug == lastFirst {
		l.queue = append([]*inLine{it}, l.queue[:len(l.queue)-1]...)
	}
	if l.running == 0 || l.bug == twoAtOnce && l.running == 1 {
		l.running++
		go l.work()
	}
	l.mu.Unlock()
	select {
	case <-it.done:
		return []storage.Outcome{it.out}
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, it)
	if i < 0 {
		return []storage.Outcome{{Err: fencing.AsUnknown(ctx.Err())}}
	}
	if l.bug != takesTheGone {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	return []storage.Outcome{{Err: fencing.AsFailed(ctx.Err())}}
}

func (l *badLane) work() {
	for {
		if l.bug == dawdles {
			time.Sleep(laneLimit)
		}
		var batch []*inLine
		out := l.run(func() []*sending {
			l.mu.Lock()
			defer l.mu.Unlock()
			n := min(len(l.queue), l.most)
			batch = slices.Clone(l.queue[:n])
			if l.queue = l.queue[n:]; l.bug == losesOne && len(l.queue) > 1 {
				l.queue = l.queue[1:]
			}
			var all []*sending
			for _, it := range batch {
				all = append(all, it.s)
			}
			return all
		})
		for i, it := range batch {
			it.out = out[i]
			close(it.done)
		}
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.running--
			l.idle.Broadcast()
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}
