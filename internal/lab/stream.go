package lab

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/gateway/wire"
)

const (
	// heartbeat is how long a stream is silent at most, so that proxies do not cut it.
	heartbeat = 15 * time.Second
	// maxStreams is how many streams a session has at once.
	maxStreams = 8
	// maxBatch is how many events are made into text at a time: a reader who does not read holds no more.
	maxBatch = 16
)

// stream is GET /api/sessions/{id}/events: the session's events from the one after Last-Event-ID, and
// its state whenever it has changed, until the session is over or the reader goes.
func (l *Lab) stream(w http.ResponseWriter, r *http.Request, s *session) error {
	if !s.watch(1) {
		return wire.NewError(wire.SlugOverloaded, "too many watch this session")
	}
	defer s.watch(-1)
	seq, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
	if err != nil || seq > s.state().Seq {
		seq = 0 // from the beginning
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // a proxy that gathers replies would keep them for itself
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{}) // where it is not supported, the server's own holds
	w.WriteHeader(http.StatusOK)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		events, state, changed := s.after(seq)
		over := s.ctx.Err() != nil
		for batch := range slices.Chunk(events, maxBatch) {
			var text []byte
			for _, e := range batch {
				seq = e.Seq
				text = appendMessage(text, "event", strconv.Itoa(e.Seq), e)
			}
			if !send(w, rc, text) {
				return nil
			}
		}
		text := appendMessage(nil, "state", "", state)
		if over {
			text = append(text, "event: end\ndata: {}\n\n"...)
		}
		if !send(w, rc, text) || over {
			return nil
		}
		for waiting := true; waiting; {
			select {
			case <-changed:
				waiting = false
			case <-s.ctx.Done():
				waiting = false
			case <-r.Context().Done():
				return nil
			case <-beat.C:
				if !send(w, rc, []byte(":\n\n")) {
					return nil
				}
			}
		}
	}
}

// send writes to a stream. It reports false when nobody reads it.
func send(w http.ResponseWriter, rc *http.ResponseController, text []byte) bool {
	_ = rc.SetWriteDeadline(time.Now().Add(2 * heartbeat))
	_, err := w.Write(text)
	return err == nil && rc.Flush() == nil
}

// appendMessage appends one message of a stream. JSON has no line breaks.
func appendMessage(text []byte, kind, id string, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the messages always marshal
	}
	if id != "" {
		text = append(text, "id: "+id+"\n"...)
	}
	text = append(text, "event: "+kind+"\ndata: "...)
	text = append(text, data...)
	return append(text, "\n\n"...)
}

// watch counts those who watch the session.
func (s *session) watch(by int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams+by > maxStreams {
		return false
	}
	s.streams += by
	return true
}
