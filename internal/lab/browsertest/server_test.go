package browsertest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencegate/fencegate/internal/lab"
	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// serve starts a lab over a lock in memory and an SQLite file, mounted at /lab/ of a server on the
// loopback interface, and returns the page's address.
func serve(t *testing.T) string {
	t.Helper()
	return host(t, house{}).url
}

// house says how a lab is served, where it matters.
type house struct {
	prefix   string // where it is mounted; default /lab
	secure   bool   // behind TLS
	sessions int    // how many it takes; default 500
}

// server is a lab that is served, with a door through which every request goes.
type server struct {
	t     *testing.T
	house house
	url   string // of the page
	front *httptest.Server

	// door, where it is set, decides what becomes of a request; inside is the lab.
	door atomic.Pointer[func(w http.ResponseWriter, r *http.Request, inside http.Handler)]

	mu  sync.Mutex
	lab *lab.Lab
}

// host serves a lab until the end of the test.
func host(t *testing.T, h house) *server {
	t.Helper()
	if h.prefix == "" {
		h.prefix = "/lab"
	}
	if h.sessions == 0 {
		h.sessions = 500
	}
	s := &server{t: t, house: h, lab: newLab(t, h)}
	mux := http.NewServeMux()
	mux.HandleFunc(h.prefix+"/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		inside := http.StripPrefix(h.prefix, s.lab)
		s.mu.Unlock()
		if door := s.door.Load(); door != nil {
			(*door)(w, r, inside)
			return
		}
		inside.ServeHTTP(w, r)
	})
	if h.secure {
		s.front = httptest.NewTLSServer(mux)
	} else {
		s.front = httptest.NewServer(mux)
	}
	s.url = s.front.URL + h.prefix + "/"
	t.Cleanup(s.front.Close)
	t.Cleanup(s.front.CloseClientConnections)
	return s
}

// newLab makes a lab that ends with the test.
func newLab(t *testing.T, h house) *lab.Lab {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "lab.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	lock := memlock.New()
	l, err := lab.New(lab.Options{
		Lock: lock, Store: store, LockName: "memory", StoreName: "sqlite", Version: "v0.0.0-test",
		Forget: func(_ context.Context, resource string) error { lock.Forget(resource); return nil },
		Source: source, Sessions: h.sessions,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// guard puts a doorkeeper at the door, or takes it away.
func (s *server) guard(door func(w http.ResponseWriter, r *http.Request, inside http.Handler)) {
	if door == nil {
		s.door.Store(nil)
		return
	}
	s.door.Store(&door)
}

// restart replaces the lab by one that knows of no session, as when the program is started again.
func (s *server) restart() {
	s.t.Helper()
	fresh := newLab(s.t, s.house)
	s.mu.Lock()
	s.lab = fresh
	s.mu.Unlock()
	s.front.CloseClientConnections()
}

// source is a text of two languages to show beside the events.
func source(place, action string) *trace.Source {
	if place == "lock" {
		return &trace.Source{Language: "go", Name: "memlock.go", Text: "// " + action + "\nfunc (b *Backend) grant(r locking.Request) (locking.Hold, error) {\n\treturn b.shard(r.Resource).grant(r)\n}\n"}
	}
	return &trace.Source{Language: "sql", Name: action + ".sql", Text: "-- " + action + "\nSELECT number, retired FROM marks WHERE resource = ?1 AND (number > ?2 OR number = ?2 AND (retired OR grant_id <> ?3))\n"}
}
