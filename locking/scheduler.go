package locking

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// moment is a point in time: what has passed since the Locker was made, on this process's
// monotonic clock.
type moment = time.Duration

// never is after every other moment.
const never moment = math.MaxInt64

// scheduler knows what is due next for each hold of a Locker. One timer serves them all: it
// is set to the earliest moment, and stopped when there are no holds left. Between two
// firings nothing runs, so that there is nothing to close.
type scheduler struct {
	epoch time.Time // moment 0
	tick  func()    // called on a goroutine of its own when something is due

	mu    sync.Mutex // guards what follows, the keepers and the batches; neither the issuer nor a handler is called under it
	held  schedule
	timer *time.Timer // nil until the first hold
	fires moment      // when the timer calls tick; never: it does not
	woken int         // how often it has
}

func newScheduler(tick func()) *scheduler {
	return &scheduler{epoch: time.Now(), tick: tick, fires: never}
}

func (s *scheduler) now() moment { return time.Since(s.epoch) }

// at returns a moment as a time, by today's wall clock: that may have been set since the
// epoch.
func (s *scheduler) at(m moment) time.Time {
	now := time.Now()
	return now.Add(m - now.Sub(s.epoch))
}

// add puts a keeper on the schedule. Callers hold mu, and call arm when they are done; so
// do those of remove and moved.
func (s *scheduler) add(k *keeper) { heap.Push(&s.held, k) }

// remove takes a keeper off the schedule, unless it is off.
func (s *scheduler) remove(k *keeper) {
	if k.place >= 0 {
		heap.Remove(&s.held, k.place)
	}
}

// moved says that a keeper's moments have changed.
func (s *scheduler) moved(k *keeper) {
	if k.place >= 0 {
		heap.Fix(&s.held, k.place)
	}
}

// take takes off the schedule whatever is due by then. Callers hold mu and put back what
// stays.
func (s *scheduler) take(due []*keeper, by moment) []*keeper {
	for len(s.held) > 0 && s.held[0].due() <= by {
		k, _ := heap.Pop(&s.held).(*keeper)
		due = append(due, k)
	}
	return due
}

// arm sets the timer to the earliest moment. A timer that fires too early, because what it
// was set for is gone, is left alone: it does no harm, and leases come and go far more often
// than timers fire. Callers hold mu.
func (s *scheduler) arm() {
	if len(s.held) == 0 {
		s.held = nil
		if s.fires != never {
			s.timer.Stop()
			s.fires = never
		}
		return
	}
	first := s.held[0].due()
	if first >= s.fires {
		return
	}
	s.fires = first
	after := max(0, first-s.now())
	if s.timer == nil {
		s.timer = time.AfterFunc(after, s.tick)
	} else {
		s.timer.Reset(after)
	}
}

// schedule is a heap of keepers by what is due first; it implements [heap.Interface].
type schedule []*keeper

func (h schedule) Len() int           { return len(h) }
func (h schedule) Less(i, j int) bool { return h[i].due() < h[j].due() }

func (h schedule) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push is for container/heap.
func (h *schedule) Push(x any) {
	k, _ := x.(*keeper)
	k.place = len(*h)
	*h = append(*h, k)
}

// Pop is for container/heap.
func (h *schedule) Pop() any {
	old := *h
	k := old[len(old)-1]
	old[len(old)-1] = nil
	k.place = -1
	*h = old[:len(old)-1]
	return k
}
