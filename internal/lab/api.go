package lab

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fencegate/fencegate/gateway/wire"
)

const (
	sessionsPath = "/api/sessions/"
	// maxMessage bounds the JSON bodies of the lab's own API, in bytes.
	maxMessage = 4 << 10
	// maxStrange is how many requests a session's gateway takes from elsewhere than its clients.
	maxStrange = 500
	// patience is how long a command may take before it is answered as waiting.
	patience = 20 * time.Second
)

var errOver = wire.NewError(wire.SlugNotFound, "the session is over: begin a new one")

func (l *Lab) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", l.files.page)
	mux.HandleFunc("GET /assets/{file...}", l.files.asset)
	mux.HandleFunc("GET /api/about", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, l.about) })
	mux.HandleFunc("POST /api/sessions", l.answering(l.begin))
	mux.HandleFunc("GET /api/sessions/{id}", l.with(func(w http.ResponseWriter, _ *http.Request, s *session) error {
		reply(w, http.StatusOK, s.state())
		return nil
	}))
	mux.HandleFunc("DELETE /api/sessions/{id}", l.with(func(w http.ResponseWriter, _ *http.Request, s *session) error {
		s.end()
		l.forget(s)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}))
	mux.HandleFunc("GET /api/sessions/{id}/events", l.with(l.stream))
	mux.HandleFunc("POST /api/sessions/{id}/commands", l.with(l.command))
	mux.HandleFunc("/", l.answering(func(http.ResponseWriter, *http.Request) error {
		return wire.NewError(wire.SlugNotFound, "")
	}))
	guard := http.NewCrossOriginProtection() // no other page may drive the lab
	guard.SetDenyHandler(l.answering(func(http.ResponseWriter, *http.Request) error {
		return wire.NewError(wire.SlugForbidden, "a page of another origin must not drive the lab")
	}))
	return guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The gateway reads its own paths; the mux would clean them first.
		if id, rest, ok := gatewayPath(r); ok {
			l.answering(func(w http.ResponseWriter, r *http.Request) error { return l.toGateway(w, r, id, rest) })(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

// ServeHTTP implements http.Handler. The lab is mounted behind http.StripPrefix, such as /lab, and finds
// out by itself where.
func (l *Lab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	l.handler.ServeHTTP(w, r)
}

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
	s, err := l.newSession(r.Context(), n, origin, mount)
	if err != nil {
		return err
	}
	if err := l.admit(s); err != nil {
		s.end()
		s.tidy()
		return err
	}
	go s.run()
	w.Header().Set("Location", mount+sessionsPath+s.id)
	reply(w, http.StatusCreated, s.state())
	return nil
}

// where returns under which origin and path the lab was reached.
func where(r *http.Request) (origin, mount string) {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if u, err := url.Parse(r.Header.Get("Origin")); err == nil && u.Host == r.Host && u.Scheme == "https" {
		scheme = "https" // a proxy in front has the certificate
	}
	whole, _, _ := strings.Cut(r.RequestURI, "?")
	if mount, ok := strings.CutSuffix(whole, r.URL.EscapedPath()); ok && strings.HasPrefix(mount, "/") {
		return scheme + "://" + r.Host, mount
	}
	return scheme + "://" + r.Host, ""
}

// gatewayPath splits the path of a request to a session's gateway.
func gatewayPath(r *http.Request) (id, rest string, ok bool) {
	rest, ok = strings.CutPrefix(r.URL.EscapedPath(), sessionsPath)
	if !ok {
		return "", "", false
	}
	id, rest, ok = strings.Cut(rest, "/gateway/")
	return id, "/" + rest, ok && !strings.Contains(id, "/")
}

func (l *Lab) toGateway(w http.ResponseWriter, r *http.Request, id, rest string) error {
	s, err := l.session(id)
	if err != nil {
		return err
	}
	if err := s.admitStranger(r); err != nil {
		return err
	}
	path, err := url.PathUnescape(rest)
	if err != nil {
		return wire.NewError(wire.SlugNotFound, "")
	}
	r2 := r.Clone(r.Context())
	r2.URL.Path, r2.URL.RawPath = path, rest
	if !s.owns(r2) {
		return errNotOwn
	}
	s.gatewayHandler(w, r2)
	return nil
}

// admitStranger counts the requests that do not come from the session's own clients.
func (s *session) admitStranger(r *http.Request) error {
	if inside, _ := r.Context().Value(fromInside{}).(bool); inside {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.strange++; s.strange > maxStrange {
		return wire.NewError(wire.SlugRateLimited, "the session has taken as many requests as it may: begin a new one")
	}
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
