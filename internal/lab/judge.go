package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/storage"
)

// account keeps what was handed out, and compares it with what the store has: the truth check. It
// trusts no client: what a request did is told by its reply on the gateway's side, also where the
// client never got it.
type account struct {
	handedOut int64 // accepted writes of which the client was told
	pending   int64 // writes that were applied, and whose client does not know
	free      int64 // one-call writes under way: the store may have applied them already
	remaining int64
	stock     int64
	off       int64 // by how much the sum was wrong when it was looked at last
	lastWrite task  // the last one that was applied
	damage    []string
}

// task is a coupon to be handed out, by one request and its repeats.
type task struct {
	actor   string
	value   string // that was put; empty for an add
	applied bool
	told    bool
}

func (a *account) sum() int64 { return a.handedOut + a.pending + a.remaining - initial }

func (a *account) trace() trace.Account {
	t := trace.Account{
		Initial: strconv.Itoa(initial), HandedOut: strconv.FormatInt(a.handedOut, 10),
		Remaining: strconv.FormatInt(a.remaining, 10), Held: a.sum() == 0, Text: "all accounted for",
	}
	switch n := a.sum(); {
	case n > 0:
		t.Text = fmt.Sprintf("%d too many", n)
	case n < 0:
		t.Text = fmt.Sprintf("%d vanished", -n)
	case a.pending > 0:
		t.Text = fmt.Sprintf("all accounted for, but for %d of which the client was not told", a.pending)
	}
	return t
}

// judge takes in that a request of a task was answered, and returns the damage that it did. real is
// whether the store applied it, now or before (replayed); told is whether its client knows. Callers
// hold s.mu; remaining is what the store has after it.
func (a *account) judge(t *task, real, replayed, told bool) string {
	twice := real && !replayed && t.applied && t.value == ""
	before := a.lastWrite
	if real {
		if t.applied && !t.told {
			a.pending--
		}
		switch {
		case t.told:
		case told:
			a.handedOut++
			t.told = true
		default:
			a.pending++
		}
		t.applied = true
		if !replayed {
			a.lastWrite = *t
		}
	}
	off := a.sum()
	if off < a.off && a.off-off <= a.free {
		return "" // a one-call write whose reply is on its way
	}
	was := a.off
	a.off = off
	switch {
	case !real || off == was:
		return ""
	case twice:
		return fmt.Sprintf("one coupon has vanished: %s's request was applied twice, and the coupon was handed out once", t.actor)
	case off > was && before.actor != "" && before.actor != t.actor && t.value != "":
		return fmt.Sprintf("an update was lost: %s wrote %s over what %s had written, and the coupon that %s handed out is counted nowhere",
			t.actor, t.value, before.actor, before.actor)
	case off > was:
		return fmt.Sprintf("%d more handed out than counted down, by what %s wrote", off-was, t.actor)
	}
	return fmt.Sprintf("%d vanished, by what %s wrote", was-off, t.actor)
}

// look reads what the store has: what is left, and the marks.
func (s *session) look(ctx context.Context) error {
	var errs error
	for _, short := range []string{Coupon, Stock} {
		n, err := s.left(ctx, short)
		m, markErr := s.stage.store.Mark(ctx, s.resource(short))
		errs = errors.Join(errs, err, markErr)
		s.mu.Lock()
		if err == nil {
			if short == Coupon {
				s.account.remaining = n
			} else {
				s.account.stock = n
			}
		}
		if markErr == nil {
			s.marks[short] = markOf(short, m)
		}
		s.mu.Unlock()
	}
	return errs
}

func (s *session) left(ctx context.Context, short string) (int64, error) {
	rec, err := s.stage.store.Get(ctx, s.resource(short), leftKey)
	if errors.Is(err, storage.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, ok := storage.ParseCounter(rec.Value)
	if !ok {
		return 0, fmt.Errorf("the record %s of %s is no counter any more", leftKey, short)
	}
	return n, nil
}

func markOf(short string, m fencing.Mark) trace.Mark {
	return trace.Mark{Resource: short, Number: strconv.FormatInt(m.Number, 10), Retired: m.Retired}
}

// settled looks at the store after an event that may have changed it, and returns the marks if they
// are others than they were told to be. A classic store that heard of a new number by this write is
// told of by an event of its own, before it.
func (s *session) settled(ctx context.Context, e *trace.Event) {
	before := s.state().Marks
	if err := s.look(ctx); err != nil {
		s.lab.o.Logger.Warn("the lab could not look at the store", "error", err)
	}
	after := s.state().Marks
	if equalMarks(before, after) {
		return
	}
	e.Marks = after
	if s.mode == ModeWrites {
		for i, m := range after {
			if i < len(before) && before[i].Number != m.Number && !m.Retired {
				s.tell(trace.Event{
					AtMS: e.AtMS, DoneMS: s.now(), Actor: "store", Action: "raise", Resource: m.Resource, Number: m.Number, Outcome: outOK,
					Text:  "The store hears of " + m.Number + " for the first time, by this request: now it is the mark.",
					Marks: after, Source: s.lab.o.Source("store", "raise"),
				})
				e.Marks = nil
			}
		}
	}
}

func equalMarks(a, b []trace.Mark) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// strangerWrote takes in that somebody else than A and B may have written, with curl: that is no
// damage of theirs.
func (s *session) strangerWrote(ctx context.Context) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.look(context.WithoutCancel(ctx)); err != nil {
		s.lab.o.Logger.Debug("the lab could not look at the store", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account.off = s.account.sum()
	s.changedLocked()
}
