package gateway

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
)

const (
	// heartbeat is how long a stream is silent at most, so that proxies do not cut it, and so that
	// a client that has vanished is found.
	heartbeat = 15 * time.Second
	// pace is the least time between two writes to a stream: what happens within it is one write.
	pace = 20 * time.Millisecond
	// streamBatch is how many events are taken from the feed at a time.
	streamBatch = 64
	// headerResume names the last event that a watcher has seen.
	headerResume = "Last-Event-ID"
	// never is the number of no event.
	never = math.MaxUint64
)

var eventKinds = []fencing.EventKind{
	fencing.EventGranted, fencing.EventReissued, fencing.EventRegression, fencing.EventRaised, fencing.EventRenewed,
	fencing.EventReleased, fencing.EventEvicted, fencing.EventLost, fencing.EventApplied, fencing.EventReplayed,
	fencing.EventRead, fencing.EventRefused, fencing.EventFailed, fencing.EventUnknown,
}

// events is GET /v1/events: what happens in this process from now on, or from the event after the
// one that Last-Event-ID names. It ends when the client goes, and when the gateway drains.
func (g *Gateway) events(c echo.Context) error {
	f := g.o.Feed
	if f == nil {
		return wire.NewError(wire.SlugNotFound, "")
	}
	want, err := eventFilter(c)
	if err != nil {
		return err
	}
	resume, resumes, err := header(c, headerResume)
	if err != nil {
		return err
	}
	ctx, cancel := g.waitContext(c.Request().Context())
	defer cancel()

	h := c.Response().Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy that gathers replies would keep them for itself
	c.Response().WriteHeader(http.StatusOK)
	if c.Request().Method == http.MethodHead {
		return nil
	}
	key := g.caller(c)
	s := &stream{
		feed: f, out: c.Response(), control: http.NewResponseController(c.Response().Writer),
		patience: max(g.o.Timeout, 2*heartbeat),
		allowed: func() bool { // a key that was taken away ends its streams
			p := &pass{}
			err := g.authenticate(c, p)
			key = p.key
			return err == nil && key.Scopes.Has(apikey.Read)
		},
		wants: func(e fencing.Event) bool { return want(e) && key.Covers(e.Resource) },
		at:    f.newest(), told: never,
	}
	if resumes && resume != "" {
		number, ok := f.resume(resume)
		if s.at = number; !ok {
			s.at, s.told = 0, 0 // no position yet
			s.gap(nil)
		}
	}
	return s.run(ctx)
}

// eventFilter reads the query: which events are wanted.
func eventFilter(c echo.Context) (func(fencing.Event) bool, error) {
	q, err := query(c, "resource", "prefix", "kind")
	if err != nil {
		return nil, err
	}
	name, prefix := q.Get("resource"), q.Get("prefix")
	for _, p := range []string{"resource", "prefix"} {
		if q.Has(p) {
			if err := fencing.ValidateResource(q.Get(p)); err != nil {
				return nil, err
			}
		}
	}
	var kinds []fencing.EventKind
	if q.Has("kind") {
		for k := range strings.SplitSeq(q.Get("kind"), ",") {
			if !slices.Contains(eventKinds, fencing.EventKind(k)) {
				return nil, &fencing.InvalidError{What: "kind", Allowed: "kinds of events, with commas"}
			}
			kinds = append(kinds, fencing.EventKind(k))
		}
	}
	return func(e fencing.Event) bool {
		return (name == "" || e.Resource == name) && strings.HasPrefix(e.Resource, prefix) &&
			(kinds == nil || slices.Contains(kinds, e.Kind))
	}, nil
}

// stream is one watcher's. Its goroutine is its request's.
type stream struct {
	feed     *Feed
	out      http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration // how long one write may take; more than there is between two
	allowed  func() bool   // whether the caller may still watch
	wants    func(fencing.Event) bool

	at    uint64 // the number of the last event that was looked at
	told  uint64 // the number of the last id that the client was sent; never before the first
	text  []byte // not yet written
	batch [streamBatch]fencing.Event
}

// run writes events until ctx ends. The error says that the client does not read any more.
func (s *stream) run(ctx context.Context) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	pause := time.NewTimer(pace)
	defer pause.Stop()
	s.beat() // so that the client knows that it is listening, and from where
	for {
		if err := s.flush(); err != nil {
			return err
		}
		pause.Reset(pace)
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			if !s.allowed() {
				return nil
			}
			s.beat()
		case <-s.feed.wait(s.at):
			s.take()
		}
	}
}

// beat adds a comment to text, and the position.
func (s *stream) beat() {
	s.text = append(s.text, ":\n"...)
	s.position()
	s.text = append(s.text, '\n')
}

// take puts the next events into text: all there are now, so that a watcher who reads fast enough
// stays ahead of the ring, but not more than one write should hold.
func (s *stream) take() {
	const most = 64 << 10
	for newest := s.feed.newest(); s.at < newest && len(s.text) < most; {
		n, missed := s.feed.read(s.at, s.batch[:])
		if missed > 0 {
			s.at += missed
			s.gap(wire.Ptr(int64(missed))) //nolint:gosec // a count of events
		}
		for _, e := range s.batch[:n] {
			s.at++
			if s.wants(e) {
				s.put(string(e.Kind), fromEvent(e))
			}
		}
	}
}

func (s *stream) gap(missed *wire.Int) { s.put(wire.KindGap, wire.Gap{Missed: missed}) }

// put adds one event to text. JSON has no line breaks.
func (s *stream) put(kind string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the wire types always marshal
	}
	s.position()
	s.text = append(s.text, "event: "...)
	s.text = append(s.text, kind...)
	s.text = append(s.text, "\ndata: "...)
	s.text = append(s.text, data...)
	s.text = append(s.text, "\n\n"...)
}

// position adds the id of the last event that was looked at, if the client does not have it yet.
// Heartbeats have one, too: where no event fits the filter, a client would else resume far back.
func (s *stream) position() {
	if s.told == s.at {
		return
	}
	s.told = s.at
	s.text = append(s.text, "id: "...)
	s.text = append(s.text, s.feed.eventID(s.at)...)
	s.text = append(s.text, '\n')
}

// flush sends text to the client, if there is any.
func (s *stream) flush() error {
	if len(s.text) == 0 {
		return nil
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.patience)) // where it is not supported, the server's own holds
	if _, err := s.out.Write(s.text); err != nil {
		return err
	}
	s.text = s.text[:0]
	return s.control.Flush()
}

// maxEventText bounds reason and label of an event on the wire, in bytes.
const maxEventText = 500

// fromEvent prepares an event for sending.
func fromEvent(e fencing.Event) wire.Event {
	out := wire.Event{
		Time: e.Time, Kind: e.Kind, Attempt: e.Attempt, Resource: e.Resource, Number: wire.Int(e.Number),
		Reason: shown(e.Reason), Label: shown(e.Label),
	}
	if e.Highest > 0 {
		out.Highest = wire.Ptr(e.Highest)
	}
	if e.Elapsed > 0 {
		out.Elapsed = wire.Span(e.Elapsed)
	}
	return out
}

func shown(s string) string {
	s = wire.Redact(s)
	if len(s) > maxEventText {
		s = strings.ToValidUTF8(s[:maxEventText], "") + "..."
	}
	return s
}
