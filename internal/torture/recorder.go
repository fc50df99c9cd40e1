package torture

import (
	"slices"
	"sync"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
)

// recorder takes in what the clients write down. It is safe for concurrent use.
type recorder struct {
	stop func() // called at the first violation

	mu     sync.Mutex // guards what follows
	ops    []history.Op
	at     map[string]int // by id, the place in ops of a call without an answer
	live   check.Live
	served map[string]served
	leaks  []history.Leak
	notes  []string
	caught bool
}

// served is when a group was last granted, and last written with an acknowledgement.
type served struct{ granted, written int64 }

func newRecorder(stop func()) *recorder {
	return &recorder{stop: stop, at: map[string]int{}, served: map[string]served{}}
}

// line takes in a line of a client.
func (r *recorder) line(_ int, l history.Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case l.Op != nil:
		r.op(*l.Op)
	case l.Leak != nil:
		r.leaks = append(r.leaks, *l.Leak)
	case l.Note != "":
		r.notes = append(r.notes, l.Note)
	}
}

// add takes in calls that the nemesis made itself.
func (r *recorder) add(ops []history.Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, op := range ops {
		r.op(op)
	}
}

func (r *recorder) op(op history.Op) {
	i, called := r.at[op.ID]
	if called {
		r.ops[i] = op
	} else {
		r.at[op.ID] = len(r.ops)
		r.ops = append(r.ops, op)
	}
	r.live.Add(op)
	if !r.caught && len(r.live.Violations()) > 0 {
		r.caught = true
		r.stop()
	}
	if op.Return == 0 {
		return
	}
	delete(r.at, op.ID)
	// The data's own no is an answer, too: a store that was emptied has no stock left.
	if op.Outcome == "applied" || op.Reason == "below-minimum" {
		s := r.served[op.Group]
		switch op.Kind {
		case history.Acquire:
			s.granted = max(s.granted, op.Return)
		case history.Commit:
			s.written = max(s.written, op.Return)
			if op.Once {
				s.granted = max(s.granted, op.Return)
			}
		}
		r.served[op.Group] = s
	}
}

// fault tells of a fault before it is injected.
func (r *recorder) fault(f history.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live.Fault(f)
}

// unserved returns which of the groups have not been granted and written since a moment, and when the last of the others was.
func (r *recorder) unserved(groups []string, since int64) (missing []string, last int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range groups {
		s := r.served[g]
		if s.granted <= since || s.written <= since {
			missing = append(missing, g)
			continue
		}
		last = max(last, s.granted, s.written)
	}
	return missing, last
}

// history returns everything so far, by the time of the calls.
func (r *recorder) history() ([]history.Op, []history.Leak) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ops := slices.Clone(r.ops)
	slices.SortStableFunc(ops, func(a, b history.Op) int { return int(a.Call - b.Call) })
	return ops, slices.Clone(r.leaks)
}

// progress fills in the counts.
func (r *recorder) progress(p *Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.live.Figures()
	p.Ops, p.Takeovers, p.Refused, p.Unknown = f.Ops, f.Takeovers, f.Refused, f.Unknown
	p.Violations = len(r.live.Violations())
}
