package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
)

// EventsRequest says which events are wanted; the zero value means all that happen from now on.
type EventsRequest struct {
	Resource string              // of this resource; empty: of all
	Prefix   string              // of the resources that begin with it; empty: of all
	Kinds    []fencing.EventKind // of these kinds; none: of all
	After    string              // those after the event of this ID; empty: from now on
}

// KindGap is the kind of an [Event] that stands for missed ones.
const KindGap fencing.EventKind = wire.KindGap

// Event is an event of the gateway's.
type Event struct {
	fencing.Event
	ID     string // for EventsRequest.After
	Missed int64  // of KindGap: how many events, of all kinds and resources; 0: not known
}

// silence is how long a stream may send nothing at all; a gateway has a heartbeat of 15 s.
const silence = 45 * time.Second

// Events streams what happens at the gateway until ctx ends, which ends the sequence without an
// error. A connection that is lost is made anew, and the stream goes on after the last event that
// was seen; where the gateway has forgotten the ones that followed, an event of KindGap says so.
//
// Each replica of a gateway tells of what it did itself: a stream that has to go on at another
// one begins there with a gap.
//
// An error ends the sequence: a refusal ([ErrUnauthorized], [ErrForbidden], a
// [*fencing.InvalidError], a gateway that has no events), what is no event stream, and a first
// connection that could not be made after Options.Retries.
func (c *Client) Events(ctx context.Context, r EventsRequest) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if !validEventID(r.After) {
			yield(Event{}, &fencing.InvalidError{What: "After", Allowed: "the ID of an event"})
			return
		}
		s := &stream{c: c, query: r.query(), id: r.After, yield: yield}
		for n, pause := 0, firstPause; ctx.Err() == nil; n++ {
			heard, err := s.run(ctx)
			if heard {
				s.begun, pause = true, firstPause
			}
			switch {
			case s.done || ctx.Err() != nil:
				return
			case s.over || fencing.OutcomeOf(err) == fencing.Refused || !s.begun && n >= c.o.Retries:
				yield(Event{}, err)
				return
			}
			_ = sleep(ctx, max(pause, min(s.last.retryAfter(), longest)))
			pause = min(2*pause, lastPause)
		}
	}
}

func (r EventsRequest) query() url.Values {
	q := url.Values{}
	if r.Resource != "" {
		q.Set("resource", r.Resource)
	}
	if r.Prefix != "" {
		q.Set("prefix", r.Prefix)
	}
	if len(r.Kinds) > 0 {
		kinds := make([]string, len(r.Kinds))
		for i, k := range r.Kinds {
			kinds[i] = string(k)
		}
		q.Set("kind", strings.Join(kinds, ","))
	}
	return q
}

// stream is one loop over events.
type stream struct {
	c     *Client
	query url.Values
	yield func(Event, error) bool
	id    string // of the last event
	begun bool   // a connection was made
	done  bool   // the loop was left
	over  bool   // another connection would not help
	last  answer // what came in place of the last connection
}

// run makes one connection and yields its events. It reports whether there was one, and why there
// is none any more.
func (s *stream) run(caller context.Context) (heard bool, _ error) {
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	watch := time.AfterFunc(s.c.o.Timeout, cancel)
	defer watch.Stop()
	at := s.c.fleet.choose(true)
	sent := time.Now()
	resp, err := s.connect(ctx, at)
	if err != nil {
		if s.last.status == 0 && !s.over && caller.Err() == nil { // who has gone says nothing of the replica
			s.c.fleet.avoid(at, 0)
		}
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	s.c.fleet.answered(at, sent)
	events := newSSE(resp.Body, s.id, func() { watch.Reset(silence) })
	for {
		watch.Reset(silence)
		kind, data, err := events.next()
		s.id = events.id
		if err != nil {
			if errors.Is(err, errEventTooLong) {
				return true, s.hopeless(err)
			}
			if ctx.Err() != nil && caller.Err() == nil { // it was silent for too long
				s.c.fleet.avoid(at, 0)
			}
			return true, fencing.AsFailed(err)
		}
		e, err := event(kind, data)
		if err != nil {
			return true, s.hopeless(err)
		}
		e.ID = s.id
		watch.Stop() // what the loop does takes as long as it takes
		if s.done = !s.yield(e, nil); s.done {
			return true, nil
		}
	}
}

func (s *stream) hopeless(err error) error {
	s.over = true
	return fencing.AsFailed(err)
}

// connect asks a replica for the stream.
func (s *stream) connect(ctx context.Context, at int) (*http.Response, error) {
	s.last = answer{}
	req, err := s.c.request(ctx, s.c.fleet.bases[at], call{method: http.MethodGet, path: "/v1/events", query: s.query})
	if err != nil {
		return nil, s.hopeless(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if s.id != "" {
		req.Header.Set("Last-Event-ID", s.id)
	}
	client := s.c.http
	client.Timeout = 0 // it would bound the whole stream
	resp, err := client.Do(req)
	if err != nil {
		return nil, fencing.AsFailed(err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	s.last = answer{header: resp.Header, status: resp.StatusCode}
	if p := problem(resp, body); p != nil {
		if slug := p.Slug(); slug == wire.SlugDraining || slug == wire.SlugOverloaded {
			s.c.fleet.avoid(at, s.last.retryAfter())
		}
		if p.Outcome == fencing.Unknown.String() { // a read is never that
			p.Outcome = fencing.Failed.String()
		}
		return nil, p.Err()
	}
	s.c.fleet.avoid(at, s.last.retryAfter())
	return nil, fencing.AsFailed(errors.Join(fmt.Errorf("GET /v1/events: HTTP status %d, and no event stream", resp.StatusCode), err))
}

// event reads the data of one event.
func event(kind string, data []byte) (Event, error) {
	if kind == wire.KindGap {
		var m wire.Gap
		err := json.Unmarshal(data, &m)
		e := Event{Event: fencing.Event{Kind: KindGap}}
		if m.Missed != nil {
			e.Missed = int64(*m.Missed)
		}
		return e, err
	}
	var m wire.Event
	if err := json.Unmarshal(data, &m); err != nil {
		return Event{}, err
	}
	e := fencing.Event{
		Time: m.Time, Kind: m.Kind, Attempt: m.Attempt, Resource: m.Resource, Number: int64(m.Number), Reason: m.Reason, Label: m.Label,
	}
	if m.Highest != nil {
		e.Highest = int64(*m.Highest)
	}
	if m.Elapsed != nil {
		e.Elapsed = time.Duration(*m.Elapsed)
	}
	return Event{Event: e}, nil
}
