package check_test

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// The simulation makes histories: seats take turns on a lock and a store in memory, in virtual time
// and on one thread, with lost and late messages, processes that stand still or are killed, a store
// that goes back to an older copy, and a lock that forgets. Without a bug all it makes is right.

const ms = int64(1e6)

// plan is what a simulation is like.
type plan struct {
	seed   uint64
	bug    string   // see bugs; empty: none
	fault  string   // "", "pause", "kill", "restore", "forget"
	resend bool     // what has a key may be sent twice in one attempt, as through a gateway
	work   []string // workloads; empty: all
	groups int      // of each workload; default 2
	ops    int      // about how many calls; default 1,500
}

var workloads = []string{"register", "bank", "set", "coupon", "task", "log", "table"}

type sim struct {
	plan
	now    int64
	rnd    *rand.Rand
	queue  events
	serial int
	ids    int
	calls  []*history.Op
	h      history.History
	*store
	*locks
	until  map[int]int64 // a process stands still until then
	dead   map[int]bool
	struck int
	over   bool
}

type event struct {
	at     int64
	serial int
	do     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].serial, e[j].serial)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func (s *sim) at(t int64, do func()) {
	s.serial++
	heap.Push(&s.queue, event{t, s.serial, do})
}

// strikes reports whether the planted bug acts now.
func (s *sim) strikes(bug string) bool {
	rare := slices.Contains([]string{"forged", "twice", "duplicate", "revive", "bump"}, bug)
	if s.bug != bug || !rare && s.rnd.IntN(3) > 0 {
		return false
	}
	s.struck++
	return true
}

// simulate returns a history, and how often the bug acted.
func simulate(p plan) (*history.History, int) {
	if len(p.work) == 0 {
		p.work = workloads
	}
	p.groups, p.ops = cmp.Or(p.groups, 2), cmp.Or(p.ops, 1500)
	s := &sim{plan: p, now: 1000 * ms, rnd: rand.New(rand.NewPCG(p.seed, 1)), until: make(map[int]int64), dead: make(map[int]bool)}
	s.store, s.locks = newStore(), newLocks()
	s.h.Began = s.now
	var groups []target
	for _, w := range p.work {
		for i := range p.groups {
			groups = append(groups, s.seed(w, i))
		}
	}
	var stops []func()
	for p := range 4 {
		for n := range 3 {
			stops = append(stops, s.start(p, n, groups))
		}
	}
	s.at(s.now+300*ms, s.nemesis)
	for s.queue.Len() > 0 {
		e := heap.Pop(&s.queue).(event)
		s.now = max(s.now, e.at)
		s.over = s.over || len(s.calls) >= s.ops
		e.do()
	}
	for _, stop := range stops {
		stop()
	}
	s.h.Ended = s.now
	for i := range s.h.Faults {
		if f := &s.h.Faults[i]; f.Recovered == 0 {
			f.Recovered = f.To + 200*ms
		}
	}
	for _, op := range s.calls {
		s.h.Ops = append(s.h.Ops, *op)
	}
	for id, rec := range s.data {
		s.h.Final = append(s.h.Final, history.Cell{Resource: id[0], Key: id[1], Value: rec.value, Version: rec.version})
	}
	s.h.FinalRead, s.h.Direct = true, !s.resend
	slices.SortFunc(s.h.Final, func(a, b history.Cell) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Key, b.Key))
	})
	return &s.h, s.struck
}

// nemesis makes the plan's fault three times.
func (s *sim) nemesis() {
	if s.fault == "" || s.over || len(s.h.Faults) == 3 {
		return
	}
	f := history.Fault{Name: s.fault, From: s.now, Injected: s.now + 2*ms, Heal: s.now + 700*ms, To: s.now + 702*ms}
	p := s.rnd.IntN(4)
	switch s.fault {
	case "pause":
		f.Paused = []int{p}
		s.at(f.Injected, func() { s.until[p] = f.Heal })
	case "kill":
		f.Killed = []int{p}
		s.at(f.From+ms, func() { s.dead[p] = true })
	case "restore":
		f.Loses = []history.Loss{history.LosesData}
		old := s.copy()
		f.From += 60 * ms // the copy is of before
		f.Injected += 60 * ms
		f.Heal, f.To = f.From+5*ms, f.From+6*ms
		s.at(f.From+ms, func() { s.restore(old, s.bug != "incarnation") })
	case "forget":
		f.Loses = []history.Loss{history.LosesLocks}
		s.at(f.From+ms, func() { s.forget(s) })
	}
	s.h.Faults = append(s.h.Faults, f)
	s.at(f.Heal+300*ms, s.nemesis)
}

// killed unwinds a seat.
type killed struct{}

// start starts a seat, and returns what ends it.
func (s *sim) start(process, n int, groups []target) (stop func()) {
	next, stop := iter.Pull(iter.Seq[int64](func(yield func(int64) bool) {
		defer func() {
			if r := recover(); r != nil && r != (killed{}) {
				panic(r)
			}
		}()
		c := &seat{sim: s, process: process, seat: n, wait: func(d int64) {
			if !yield(d) {
				panic(killed{})
			}
		}}
		for !s.over {
			c.turn(groups[s.rnd.IntN(len(groups))])
			c.wait(s.rnd.Int64N(10 * ms))
		}
	}))
	var resume func()
	resume = func() {
		if s.dead[process] {
			return
		}
		if t := s.until[process]; t > s.now {
			s.at(t+s.rnd.Int64N(ms), resume)
			return
		}
		if d, ok := next(); ok {
			s.at(s.now+d, resume)
		}
	}
	s.at(s.now+s.rnd.Int64N(10*ms), resume)
	return stop
}

func (s *sim) next() string {
	s.ids++
	return fmt.Sprintf("o%d", s.ids)
}
