package lab

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/fencegate/fencegate/gateway/wire"
)

const (
	sessionsPath = "/api/sessions/"
	// maxStrange is how many requests a session's gateway takes from elsewhere than its clients.
	maxStrange = 500
)

// routes is the whole of the lab's HTTP, behind a guard against pages of other origins.
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
		l.answering(func(w http.ResponseWriter, r *http.Request) error { return route(mux, w, r) })(w, r)
	}))
}

// route serves what the mux knows. Its own answers to all else are no problems, and its redirects to
// clean paths know nothing of where the lab is mounted.
func route(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) error {
	_, pattern := mux.Handler(r)
	switch {
	case path.Clean(r.URL.Path) != strings.TrimSuffix(r.URL.Path, "/") && r.URL.Path != "/":
		return wire.NewError(wire.SlugNotFound, "")
	case pattern != "":
		mux.ServeHTTP(w, r)
		return nil
	}
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return wire.NewError(wire.SlugNotFound, "")
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return wire.NewError(wire.SlugMethodNotAllowed, "")
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
	plain, err := url.PathUnescape(rest)
	if err != nil {
		return wire.NewError(wire.SlugNotFound, "")
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)() // what a session leaves behind is tidied up once
	r2 := r.Clone(ctx)
	r2.URL.Path, r2.URL.RawPath = plain, rest
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
