package sim_test

import (
	"fmt"
	"sync"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// hash makes a number of a seed and a name, the same in every process.
func hash(seed uint64, name string, n uint64) uint64 {
	h := seed ^ 14695981039346656037
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mix(h ^ n*0x9E3779B97F4A7C15)
}

func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 27
	x *= 0x94D049BB133111EB
	return x ^ x>>31
}

// roller is a small source of chance. Whoever acts has one of its own, so that nobody's choices
// depend on another's.
type roller uint64

func (r *roller) next() uint64 {
	*r += 0x9E3779B97F4A7C15
	return mix(uint64(*r))
}

func (r *roller) chance(p float64) bool { return float64(r.next()>>11)/(1<<53) < p }

// upTo returns 1..n.
func (r *roller) upTo(n int) int { return 1 + int(r.next()%uint64(n)) }

// in returns from..to.
func (r *roller) in(from, to int) int { return from + int(r.next()%uint64(to-from+1)) }

// log is what happened in a run, in order.
type log struct {
	mu    sync.Mutex
	off   bool
	lines []string
}

func (l *log) add(at int, format string, args ...any) {
	if l.off {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%4d  ", at)+fmt.Sprintf(format, args...))
}

// outcome says what an answer was, without grant ids: those are new in every run.
func outcome(r any, err error) string {
	if err != nil {
		return fencing.OutcomeOf(err).String() + ": " + err.Error()
	}
	switch r := r.(type) {
	case locking.Hold:
		return fmt.Sprintf("number %d, drawn %v, for %v", r.Token.Number, r.Drawn, r.Remaining)
	case storage.Record:
		return fmt.Sprintf("%s, version %d", r.Value, r.Version)
	case storage.Outcome:
		if r.Err != nil {
			return outcome(nil, r.Err)
		}
		return fmt.Sprintf("applied, replayed %v", r.Result.Replayed)
	case struct{}, nil:
		return "done"
	}
	return fmt.Sprint(r)
}
