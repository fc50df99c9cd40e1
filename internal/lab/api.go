package lab

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/gateway/wire"
)

const (
	// maxMessage bounds the JSON bodies of the lab's own API, in bytes.
	maxMessage = 4 << 10
	// patience is how long a command may take before it is answered as waiting.
	patience = 20 * time.Second
)

var errOver = wire.NewError(wire.SlugNotFound, "the session is over: begin a new one")

func reply(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // the messages always marshal
	}
	w.Header().Set("Content-Type", wire.TypeJSON)
	w.WriteHeader(status)
	_, _ = w.Write(body) // who does not read it has gone
}

// answering makes a handler of fn; an error of it is answered as a problem.
func (l *Lab) answering(fn func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := fn(w, r)
		if err == nil {
			return
		}
		p := wire.FromError(err)
		if p.Status >= http.StatusInternalServerError && !errors.As(err, new(*wire.Error)) {
			l.o.Logger.Error("the lab could not serve a request", "error", wire.Redact(err.Error()))
		}
		w.Header().Set("Content-Type", wire.TypeProblem)
		if after := p.RetryAfter(); after > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(after))
		}
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p) // who does not read it has gone
	}
}

// with makes a handler for a session's route.
func (l *Lab) with(fn func(http.ResponseWriter, *http.Request, *session) error) http.HandlerFunc {
	return l.answering(func(w http.ResponseWriter, r *http.Request) error {
		s, err := l.session(r.PathValue("id"))
		if err != nil {
			return err
		}
		return fn(w, r, s)
	})
}

// read reads a small JSON body, strictly.
func read(w http.ResponseWriter, r *http.Request, v any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != wire.TypeJSON {
		return wire.NewError(wire.SlugUnsupportedMedia, "want Content-Type: "+wire.TypeJSON)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return wire.TooLarge("at most 4 KiB")
	}
	if err != nil {
		return wire.Malformed("the body could not be read")
	}
	return wire.Decode(body, v)
}

// begin is POST /api/sessions.
func (l *Lab) begin(w http.ResponseWriter, r *http.Request) error {
	var n NewSession
	if err := read(w, r, &n); err != nil {
		return err
	}
	if _, err := n.check(); err != nil {
		return err
	}
	if !l.begins.Allow() {
		return wire.NewError(wire.SlugRateLimited, "sessions are begun too fast: try again in a moment")
	}
	origin, mount := where(r)
	s, err := l.newSession(n, origin, mount)
	if err != nil {
		return err
	}
	if err := l.admit(s); err != nil {
		s.end()
		return err
	}
	if err := s.prepare(); err != nil {
		s.end()
		go s.run() // which tidies up
		return err
	}
	go s.run()
	w.Header().Set("Location", mount+sessionsPath+s.id)
	reply(w, http.StatusCreated, s.state())
	return nil
}

// command is POST /api/sessions/{id}/commands.
func (l *Lab) command(w http.ResponseWriter, r *http.Request, s *session) error {
	var cmd Command
	if err := read(w, r, &cmd); err != nil {
		return err
	}
	if err := s.check(&cmd); err != nil {
		return err
	}
	if err := s.admitCommand(); err != nil {
		return err
	}
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(2 * patience)) // where it is not supported, the server's own holds
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	done, err := s.command(ctx, cmd)
	if done.Status != statusDone && s.ctx.Err() != nil {
		return errOver
	}
	if err != nil {
		return err
	}
	done.State = s.state()
	reply(w, http.StatusOK, done)
	return nil
}

// admitCommand counts a command.
func (s *session) admitCommand() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return errOver
	case s.commands >= s.lab.o.Commands || len(s.events) >= s.lab.o.Events:
		return wire.NewError(wire.SlugRateLimited, "the session has taken as many commands as it may: begin a new one")
	}
	s.commands++
	s.last = time.Now()
	return nil
}

// command carries a command out, or has it carried out.
func (s *session) command(ctx context.Context, cmd Command) (Done, error) {
	c := s.clients[cmd.Actor]
	switch {
	case c == nil:
		work, cancel := context.WithTimeout(s.ctx, patience) // who asked may go away meanwhile
		defer cancel()
		e, err := s.operate(work, cmd)
		if err != nil {
			return Done{}, err
		}
		s.settles(ctx)
		return Done{Status: statusDone, Event: &e}, nil
	case cmd.Action == Pause || cmd.Action == Resume:
		e, parked := s.pauses(c, cmd)
		d := Done{Status: statusDone, Event: &e}
		for _, j := range parked {
			if s.until(ctx, c, j) != statusDone {
				break
			}
			d.Resumed = append(d.Resumed, j.event)
		}
		s.settles(ctx)
		return d, nil
	}
	j, paused := c.enqueue(cmd)
	if j == nil {
		return Done{}, wire.NewError(wire.SlugRateLimited, cmd.Actor+" has too much to do already")
	}
	d := Done{Status: statusParked}
	if !paused {
		d.Status = s.until(ctx, c, j)
	}
	if d.Status == statusDone {
		d.Event = &j.event
		s.settles(ctx)
	}
	return d, nil
}

// The status of a command that is answered.
const (
	statusDone    = "done"
	statusWaiting = "waiting"
	statusParked  = "parked"
)

// until waits until a command is done, or clearly will not be for a while.
func (s *session) until(ctx context.Context, c *client, j *job) string {
	for wait := 250 * time.Millisecond; ; wait = 50 * time.Millisecond {
		t := time.NewTimer(wait)
		select {
		case <-j.done:
			t.Stop()
			return statusDone
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return statusWaiting
		case <-s.ctx.Done():
			t.Stop()
			return statusWaiting
		}
		s.mu.Lock()
		paused := c.paused
		s.mu.Unlock()
		if paused {
			return statusParked
		}
		if blocked, _ := s.blocked(ctx, c); blocked {
			return statusWaiting
		}
	}
}
