package sim_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/lane"
	"github.com/fencegate/fencegate/storage"
)

// group is what the simulation asks of a lane: the real one, and broken ones to test the rules.
type group interface {
	Do(ctx context.Context, values ...*sending) []storage.Outcome
	Enter(patience time.Duration) int
	Leave(visit int)
	Close()
}

// sending is one attempt of a commit.
type sending struct {
	c     storage.Commit
	seq   int // in the order in which they came
	taken int
	gone  bool // its caller was told that it failed, without having been taken
}

// laneWorld is one run of writers that share a lane to a disk.
type laneWorld struct {
	planted planted
	log     *log
	start   time.Time
	lane    group
	batches roller  // what becomes of them
	fails   float64 // of batches
	most    int

	mu       sync.Mutex // guards what follows
	violated string
	counts   counts
	came     int
	taken    int // the seq of the last one that was taken
	busy     bool
	data     dataset
	told     map[string]storage.Result // by key, what writers were told
}

const laneMark = 7

var laneToken = fencing.Token{Resource: "r1", Number: laneMark, Grant: "AAAAAAAAAAAAAAAAAAAAAAAAAA"}

// simulateLane is one run. Writers add to a few counters through a lane whose disk is slow and
// fails; some leave before they are answered; each tries again under its key.
func simulateLane(t *testing.T, seed uint64, bug planted) result {
	t.Helper()
	w := &laneWorld{planted: bug, log: &log{}, batches: roller(hash(seed, "batches", 0)), told: map[string]storage.Result{}}
	r := inBubble(t, func(*testing.T) result {
		roll := roller(mix(seed))
		w.start = time.Now()
		w.data = newDataset()
		w.data.marks[laneToken.Resource] = fencing.Mark{Number: laneMark, Grant: laneToken.Grant}
		w.fails = []float64{0, 0.1, 0.4}[roll.upTo(3)-1]
		w.most = []int{1, 3, 100}[roll.upTo(3)-1]
		gone := func(err error) storage.Outcome { return storage.Outcome{Err: err} }
		switch bug {
		case lastFirst, takesTheGone, twoAtOnce, losesOne, dawdles:
			w.lane = newBadLane(bug, w.most, w.run)
		default:
			w.lane = lane.New(w.most, w.run, gone)
		}
		var writers sync.WaitGroup
		n := roll.in(2, 12)
		w.log.add(0, "seed %d: %d writers, batches of %d, %.0f %% fail", seed, n, w.most, 100*w.fails)
		for i := range n {
			wr := &writer{w: w, name: fmt.Sprintf("w%d", i+1), phase: time.Duration(i+1) * time.Nanosecond, roll: roller(hash(seed, "writer", uint64(i)))}
			writers.Go(wr.run)
		}
		writers.Wait()
		w.lane.Close()
		w.end()
		return result{log: w.log.lines, violated: w.violated, counts: w.counts}
	})
	if r.log == nil {
		r.log = w.log.lines
	}
	return r
}

func (w *laneWorld) now() int { return int(time.Since(w.start) / cell) }

func (w *laneWorld) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violation(format, args...)
}

// violation keeps the first one. Callers hold w.mu.
func (w *laneWorld) violation(format string, args ...any) {
	if w.violated == "" {
		w.violated = fmt.Sprintf(format, args...)
		w.log.add(w.now(), "VIOLATED: %s", w.violated)
	}
}

// disk takes its time: whole cells and a little, so that it never ends in the same instant in which a
// writer does something.
func (w *laneWorld) disk(r *roller) {
	w.mu.Lock() // a broken lane runs two batches at once
	cells := r.in(0, 4)
	w.mu.Unlock()
	time.Sleep(time.Duration(cells)*cell + 20*time.Microsecond)
}

var errDisk = errors.New("sim: the disk")

// run is one batch: it gets the connection, takes what has come, writes it and says what came of it.
func (w *laneWorld) run(take func() []*sending) []storage.Outcome {
	w.mu.Lock()
	if w.busy {
		w.violation("lane: two batches at once")
	}
	w.busy = true
	w.mu.Unlock()
	w.disk(&w.batches)
	batch := take()
	w.took(batch)
	w.disk(&w.batches)
	out := make([]storage.Outcome, len(batch))
	w.mu.Lock()
	defer w.mu.Unlock()
	what := w.batches.upTo(3)
	broken := w.batches.chance(w.fails)
	w.busy = false
	if !broken || what > 1 {
		for i, s := range batch {
			out[i] = w.apply(s.c)
		}
	}
	if broken {
		for i := range out {
			switch {
			case what == 1, what == 2 && w.planted == failedIsNot: // nothing was written
				out[i] = storage.Outcome{Err: fencing.AsFailed(errDisk)}
			default: // it was, and nobody knows
				out[i] = storage.Outcome{Err: fencing.AsUnknown(errDisk)}
			}
		}
	}
	if w.planted == swapsResults && len(out) > 1 {
		out[0], out[1] = out[1], out[0]
	}
	w.log.add(w.now(), "a batch of %d: %s", len(batch), map[bool]string{false: "written", true: fmt.Sprintf("fails in way %d", what)}[broken])
	return out
}

// took: in the order in which they came, each once, and none whose caller was told that it failed.
func (w *laneWorld) took(batch []*sending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(batch) > w.most {
		w.violation("lane: a batch of %d, at most %d are allowed", len(batch), w.most)
	}
	for _, s := range batch {
		s.taken++
		switch {
		case s.taken > 1:
			w.violation("lane: %s was taken twice", s.c.Key)
		case s.gone:
			w.violation("lane: %s was taken after its caller was told that it failed", s.c.Key)
		case s.seq < w.taken:
			w.violation("lane: %s was overtaken", s.c.Key)
		}
		w.taken = max(w.taken, s.seq)
	}
}

// apply judges one commit and writes it. Callers hold w.mu.
func (w *laneWorld) apply(c storage.Commit) storage.Outcome {
	v := storage.View{
		Marks: w.data.marks, Bases: map[string]int64{}, Records: w.data.records,
	}
	id, _ := c.KeyID()
	if a, ok := w.data.answers[id]; ok && w.planted != keyForgotten {
		v.Answer = &a
	}
	res, ch, err := storage.Evaluate(c, v)
	if ch.Answer != nil {
		w.data.answers[id] = *ch.Answer
	}
	v.Apply(ch)
	for _, rec := range ch.Put {
		w.data.values[rec.Key] = append(w.data.values[rec.Key], c.Key)
	}
	return storage.Outcome{Result: res, Err: err}
}

// heard: everybody gets the answer to its own commit, and what is said is true.
func (w *laneWorld) heard(s *sending, out storage.Outcome, unknown bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, _ := s.c.KeyID()
	answer, applied := w.data.answers[id]
	switch fencing.OutcomeOf(out.Err) {
	case fencing.Applied:
		if !applied || !reflect.DeepEqual(out.Result.Ops, answer.Result.Ops) {
			w.violation("lane: %s was told %+v, its commit's answer is %+v", s.c.Key, out.Result.Ops, answer.Result.Ops)
		}
		w.told[s.c.Key] = out.Result
		w.counts.writes++
	case fencing.Failed:
		w.counts.failures++
		if s.taken == 0 {
			s.gone = true
		}
		if applied && !unknown {
			w.violation("INV6: %s was told that it failed, and is applied", s.c.Key)
		}
	case fencing.Refused:
		w.violation("lane: %s was refused: %v", s.c.Key, out.Err)
	default:
		w.counts.unknowns++
		if s.taken == 0 {
			w.violation("lane: the outcome of %s is unknown, and it was never taken", s.c.Key)
		}
	}
}

// end: what was acknowledged is there, and everything once.
func (w *laneWorld) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[string]int{}
	for counter, keys := range w.data.values {
		for _, k := range keys {
			if seen[k]++; seen[k] > 1 {
				w.violation("INV7: %s was applied twice", k)
			}
		}
		rec := w.data.records[storage.RecordID{Resource: laneToken.Resource, Key: counter}]
		if got := string(rec.Value); got != string(storage.Counter(int64(len(keys)))) {
			w.violation("INV5: %s is %s after %d additions", counter, got, len(keys))
		}
	}
	for k := range w.told {
		if seen[k] == 0 {
			w.violation("INV5: %s was acknowledged, and is lost", k)
		}
	}
}
