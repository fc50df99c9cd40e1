package lab

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/trace"
)

// heard takes in what the session's issuer and store tell of. It is called while a request is served,
// so that what it tells comes before the request's own event.
func (s *session) heard(e fencing.Event) {
	short, ok := s.short(e.Resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok || !s.ready {
		return
	}
	switch e.Kind {
	case fencing.EventRaised:
		s.overtakenLocked(short, e.Number)
		m := trace.Mark{Resource: short, Number: strconv.FormatInt(e.Number, 10)}
		s.marks[short] = m
		switch s.mode {
		case ModeGrant:
			s.raisedLocked(short, e, outOK, fmt.Sprintf("The lock tells the store of %d%s: it is the mark now, and every older token is refused.", e.Number, of(short)))
		case ModeLock:
			s.raisedLocked(short, e, outOK, fmt.Sprintf("The lock tells the store of %d%s: it is the mark now, and nothing will come of it, for the check is defeated.", e.Number, of(short)))
		case ModeNone, ModeWrites: // there is no lock, or it does not tell
		}
	case fencing.EventRefused:
		if e.Attempt == fencing.EventRaised {
			s.raisedLocked(short, e, outRefused, fmt.Sprintf(
				"The lock store drew %d%s, which cannot be right: the store has seen %d and refuses it. The lock draws again, above that.", e.Number, of(short), e.Highest))
		}
	case fencing.EventGranted:
		s.overtakenLocked(short, e.Number)
		s.holds[short] = &hold{number: e.Number, label: e.Label, until: time.Now().Add(s.ttl)}
		s.changedLocked()
	case fencing.EventRenewed:
		if h := s.holds[short]; h != nil && h.number == e.Number {
			h.until = time.Now().Add(s.ttl)
		}
	case fencing.EventReleased, fencing.EventEvicted:
		if h := s.holds[short]; h != nil && h.number == e.Number {
			h.over = true
		}
	case fencing.EventReissued, fencing.EventRegression, fencing.EventLost, fencing.EventApplied,
		fencing.EventReplayed, fencing.EventRead, fencing.EventFailed, fencing.EventUnknown:
		// The clients' own events tell of these.
	}
}

func (s *session) raisedLocked(short string, e fencing.Event, outcome, text string) {
	at := s.since(time.Now().Add(-e.Elapsed))
	out := trace.Event{
		AtMS: at, Actor: "lock", To: "store", Action: "raise", Resource: short, Number: strconv.FormatInt(e.Number, 10),
		Outcome: outcome, Reason: e.Reason, Text: text, Source: s.lab.o.Source("store", "raise"),
	}
	if e.Highest > 0 {
		out.Highest = strconv.FormatInt(e.Highest, 10)
	}
	if outcome == outOK {
		out.Reason = ""
		out.Marks = s.stateLocked().Marks
	}
	s.tellLocked(out)
}

// overtakenLocked takes in that a higher number was granted: if nobody gave the lock back before, its
// time was up. Among the three nodes, where two can hold it, nothing follows from that.
func (s *session) overtakenLocked(short string, number int64) {
	if h := s.holds[short]; h != nil && !h.over && h.number < number && s.nodes == nil {
		s.expireLocked(short, h)
	}
}

func (s *session) expireLocked(short string, h *hold) {
	h.over = true
	s.tellLocked(trace.Event{
		AtMS: s.now(), Actor: "lock", Action: string(Expire), Resource: short,
		Number: strconv.FormatInt(h.number, 10), Outcome: outOK, Text: s.endedText(short, h),
	})
}

// endedText says whose time was up, and whether that one can know. Callers hold s.mu.
func (s *session) endedText(short string, h *hold) string {
	text := fmt.Sprintf("The time of %d%s is up: the lock is free.", h.number, of(short))
	c := s.clients[h.label]
	switch {
	case c == nil:
		return text
	case c.paused:
		return text + " " + c.name + " is paused and does not know."
	}
	return text + " " + c.name + " does not know until its next renewal."
}

// nextLook is when the session has to look again whether something has ended by itself.
func (s *session) nextLook() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.endsLocked().Add(time.Millisecond)
	if soon := time.Now().Add(time.Second); soon.Before(next) {
		next = soon // a new hold has a time of its own
	}
	for _, h := range s.holds {
		if !h.over && h.until.Before(next) {
			next = h.until
		}
	}
	if least := time.Now().Add(20 * time.Millisecond); next.Before(least) {
		return least // the lock store's clock decides, and it may be a little late
	}
	return next
}

// expired tells of the holds that the lock store has ended.
func (s *session) expired(ctx context.Context) {
	for _, short := range []string{Coupon, Stock} {
		s.mu.Lock()
		h := s.holds[short]
		due := h != nil && !h.over && time.Now().After(h.until)
		s.mu.Unlock()
		if !due {
			continue
		}
		st, err := s.stage.issuer.Status(ctx, s.resource(short))
		if err != nil || st.Held && st.Number == h.number {
			continue
		}
		s.mu.Lock()
		if !h.over {
			s.expireLocked(short, h)
		}
		s.mu.Unlock()
	}
}
