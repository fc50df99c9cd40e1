package torture

import (
	"cmp"
	"fmt"
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
	wait   *recovery // what is waited for; nil: nothing
	draws  []history.Draw
	leaks  []history.Leak
	notes  []string
	caught bool
}

// recovery is who has not been served since a moment: granted a lock by a call after it, and then answered by the data.
type recovery struct {
	since   int64
	groups  map[string]*served
	clients map[int]*served
	last    int64 // when the last of them was served that is
}

type served struct{ granted, written bool }

func newRecorder(stop func()) *recorder {
	return &recorder{stop: stop, at: map[string]int{}}
}

// line takes in a line of a client.
func (r *recorder) line(_ int, l history.Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case l.Op != nil:
		r.op(*l.Op)
	case l.Draw != nil:
		r.draws = append(r.draws, *l.Draw)
		r.live.Draw(*l.Draw)
		r.catch()
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
	r.catch()
	if op.Return == 0 {
		return
	}
	delete(r.at, op.ID)
	r.wait.take(op)
}

// catch stops the run at the first violation. Callers hold r.mu.
func (r *recorder) catch() {
	if !r.caught && len(r.live.Violations()) > 0 {
		r.caught = true
		r.stop()
	}
}

// take strikes out who was served by a call.
func (w *recovery) take(op history.Op) {
	// The data's own no is an answer, too: a store that was emptied has no stock left.
	if w == nil || op.Call <= w.since || op.Outcome != "applied" && op.Reason != "below-minimum" {
		return
	}
	strike := func(s *served) (done bool) {
		if s == nil {
			return false
		}
		switch op.Kind {
		case history.Acquire:
			s.granted = true
		case history.Commit:
			s.written, s.granted = true, s.granted || op.Once
		}
		if done = s.granted && s.written; done {
			w.last = max(w.last, op.Return)
		}
		return done
	}
	if strike(w.groups[op.Group]) {
		delete(w.groups, op.Group)
	}
	if strike(w.clients[op.Process]) {
		delete(w.clients, op.Process)
	}
}

// await begins to look who is served by calls after a moment.
func (r *recorder) await(since int64, groups []string, clients []int) {
	w := &recovery{since: since, groups: map[string]*served{}, clients: map[int]*served{}}
	for _, g := range groups {
		w.groups[g] = &served{}
	}
	for _, c := range clients {
		w.clients[c] = &served{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wait = w
}

// awaited returns who has not been served yet, in words, and when the last of the others was.
func (r *recorder) awaited() (missing []string, last int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for g := range r.wait.groups {
		missing = append(missing, g)
	}
	for c := range r.wait.clients {
		missing = append(missing, fmt.Sprintf("client %d", c))
	}
	slices.Sort(missing)
	return missing, r.wait.last
}

// violations returns what was found on the way.
func (r *recorder) violations() []check.Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live.Violations()
}

// fault tells of a fault before it is injected.
func (r *recorder) fault(f history.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live.Fault(f)
}

// fill gives a history everything that was written down, by the time of the calls.
func (r *recorder) fill(h *history.History) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.Ops = slices.Clone(r.ops)
	slices.SortStableFunc(h.Ops, func(a, b history.Op) int { return cmp.Compare(a.Call, b.Call) })
	h.Draws = slices.Clone(r.draws)
	h.Leaks = append(h.Leaks, r.leaks...)
}

// progress fills in the counts.
func (r *recorder) progress(p *Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.live.Figures()
	p.Ops, p.Takeovers, p.Refused, p.Unknown = f.Ops, f.Takeovers, f.Refused, f.Unknown
	p.Violations = len(r.live.Violations())
}
