package lab

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// Options says over which lock and store a Lab plays, and its limits. Lock and Store are required.
type Options struct {
	Lock  locking.Backend
	Store storage.Backend
	// What lock and store are called on the page, and the version of the program.
	LockName, StoreName, Version string
	// Forget makes the lock store forget the hold and the counter of one resource, as if it had been
	// flushed. Default: Flush is refused.
	Forget func(ctx context.Context, resource string) error
	// Source returns the statement or script by which a place (lock or store) decides on an action
	// (acquire, renew, release, evict, read, write, commit, raise); nil where there is none to show.
	// Default: none are shown.
	Source func(place, action string) *trace.Source
	// Sessions is how many there may be at once, 1 to 10,000. Where there are so many, a new one takes the
	// place of one that was idle for a fifteenth of Idle, or is refused. Default: 64.
	Sessions int
	// Commands is how many commands a session takes, 1 to 100,000. Default: 500.
	Commands int
	// Events is how many events a session remembers; one that has so many takes no more commands, 100
	// to 100,000. Default: 2,000.
	Events int
	// Idle is after how long without a command a session is forgotten, 1 s to 24 h. Default: 15 min.
	Idle time.Duration
	// MaxAge is when it is forgotten at the latest, 1 s to 24 h. Default: 2 h.
	MaxAge time.Duration
	// Logger gets what goes wrong within. Default: nothing is logged.
	Logger *slog.Logger
}

func (o *Options) complete() error {
	if o.Lock == nil {
		return &fencing.InvalidError{What: "Lock", Allowed: "one, not nil"}
	}
	if o.Store == nil {
		return &fencing.InvalidError{What: "Store", Allowed: "one, not nil"}
	}
	for _, n := range []struct {
		what             string
		v                *int
		def, least, most int
		allowed          string
	}{
		{"Sessions", &o.Sessions, 64, 1, 10_000, "1 to 10,000"},
		{"Commands", &o.Commands, 500, 1, 100_000, "1 to 100,000"},
		{"Events", &o.Events, 2000, 100, 100_000, "100 to 100,000"},
	} {
		if *n.v == 0 {
			*n.v = n.def
		}
		if *n.v < n.least || *n.v > n.most {
			return &fencing.InvalidError{What: n.what, Allowed: n.allowed}
		}
	}
	for _, d := range []struct {
		what string
		v    *time.Duration
		def  time.Duration
	}{{"Idle", &o.Idle, 15 * time.Minute}, {"MaxAge", &o.MaxAge, 2 * time.Hour}} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if *d.v < time.Second || *d.v > 24*time.Hour {
			return &fencing.InvalidError{What: d.what, Got: d.v.String(), Allowed: "1s to 24h"}
		}
	}
	if o.Source == nil {
		o.Source = func(string, string) *trace.Source { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Lab is the handler of the page and of its API. It is safe for concurrent use, and must be closed.
type Lab struct {
	o       Options
	about   About
	handler http.Handler
	files   files
	inside  *inside
	begins  *rate.Limiter // of sessions: what they leave in the store must not come too fast

	running sync.WaitGroup // the sessions' goroutines

	mu       sync.Mutex // guards what follows; nothing blocks under it
	sessions map[string]*session
	closed   bool
}

// New returns a Lab. The error says which option is wrong, or which chapter.
func New(o Options) (*Lab, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	chapters, err := Chapters()
	if err != nil {
		return nil, err
	}
	l := &Lab{
		o: o, sessions: map[string]*session{},
		begins: rate.NewLimiter(5, max(20, o.Sessions)),
		about: About{
			Lock: o.LockName, Store: o.StoreName, Version: o.Version, Modes: modes(), Chapters: chapters,
			TTLDefault: defaultTTL.String(), TTLLeast: leastTTL.String(), TTLMost: mostTTL.String(),
			Flush: o.Forget != nil,
		},
	}
	if l.files, err = loadFiles(); err != nil {
		return nil, err
	}
	l.handler = l.routes()
	l.inside = startInside(l)
	return l, nil
}

// Close ends all sessions and waits for what they run, or until ctx ends; then lock and store can be
// closed. It may be called again.
func (l *Lab) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	for _, s := range l.sessions {
		s.end()
	}
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		l.running.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = errors.New("sessions of the lab were still at work at the end")
	}
	return errors.Join(err, l.inside.close())
}

var errClosing = wire.NewError(wire.SlugOverloaded, "the lab is closing")

// crowded is which part of Options.Idle a session may be idle before it makes room where there are
// too many: a minute of 15.
const crowded = 15

// admit takes a session in, unless there are too many. One that nobody has used for a while makes room.
// Whoever was taken in has to run.
func (l *Lab) admit(s *session) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosing
	}
	if len(l.sessions) >= l.o.Sessions {
		var idlest *session
		for _, other := range l.sessions {
			if idlest == nil || other.idle() > idlest.idle() {
				idlest = other
			}
		}
		if idlest.idle() < l.o.Idle/crowded {
			return wire.NewError(wire.SlugOverloaded, "too many sessions are open in the lab: try again in a minute")
		}
		delete(l.sessions, idlest.id)
		idlest.end()
	}
	l.sessions[s.id] = s
	l.running.Add(1)
	return nil
}

// session returns a session that is not over.
func (l *Lab) session(id string) (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sessions[id]; s != nil {
		return s, nil
	}
	return nil, wire.NewError(wire.SlugNotFound, "there is no such session, or it is over: begin a new one")
}

// forget drops a session that is over.
func (l *Lab) forget(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions[s.id] == s {
		delete(l.sessions, s.id)
	}
}
