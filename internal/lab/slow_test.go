package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/lab"
	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// held is a store whose commits wait while it is stopped.
type held struct {
	storage.Backend
	stopped atomic.Pointer[chan struct{}]
	begun   chan struct{} // gets one for each commit that waits
	commits atomic.Int64
}

func hold(o *lab.Options) *held {
	h := &held{Backend: o.Store, begun: make(chan struct{}, 100)}
	o.Store = h
	return h
}

// stop lets commits wait until the returned function is called.
func (h *held) stop() (goOn func()) {
	gate := make(chan struct{})
	h.stopped.Store(&gate)
	return func() {
		h.stopped.Store(nil)
		close(gate)
	}
}

// Apply implements storage.Backend.
func (h *held) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	h.commits.Add(1)
	if gate := h.stopped.Load(); gate != nil {
		h.begun <- struct{}{}
		<-*gate
	}
	return h.Backend.Apply(ctx, batch)
}

// post sends a request whose reply is read later.
func (b *bench) post(path, body string) <-chan string {
	done := make(chan string, 1)
	go func() {
		r, err := http.NewRequestWithContext(b.tb.Context(), http.MethodPost, b.url+path, strings.NewReader(body))
		if err != nil {
			done <- err.Error()
			return
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := web.Do(r)
		if err != nil {
			done <- err.Error()
			return
		}
		defer func() { _ = resp.Body.Close() }()
		var text bytes.Buffer
		_, _ = text.ReadFrom(resp.Body)
		done <- fmt.Sprint(resp.StatusCode, " ", text.String())
	}()
	return done
}

// TestCloseWaitsForABeginning closes a lab in which a session is being prepared: when Close returns, the
// store is left alone.
func TestCloseWaitsForABeginning(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Sessions = 1
	store := hold(&o)
	b := newBench(t, o)
	goOn := store.stop()
	begun := b.post("/api/sessions", `{"mode":"grant"}`)
	<-store.begun
	closed := make(chan error, 1)
	go func() { closed <- b.lab.Close(t.Context()) }()
	b.until(func() bool {
		_, text := b.send(http.MethodPost, "/api/sessions", `{"mode":"grant"}`)
		return strings.Contains(text, "the lab is closing")
	})
	select {
	case err := <-closed:
		t.Errorf("Close returned %v while a session was being prepared", err)
	case <-time.After(100 * time.Millisecond):
	}
	goOn()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	commits := store.commits.Load()
	if got := <-begun; !strings.HasPrefix(got, "404 ") || !strings.Contains(got, "is over") {
		t.Errorf("got %s", got)
	}
	if n := store.commits.Load(); n != commits {
		t.Errorf("%d commits after Close", n-commits)
	}
}

// TestAFullLabLeavesTheStoreAlone begins a session for which there is no place.
func TestAFullLabLeavesTheStoreAlone(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Sessions = 1
	store := hold(&o)
	b := newBench(t, o)
	b.begin(lab.NewSession{Mode: lab.ModeGrant})
	before := store.commits.Load()
	if status, text := b.send(http.MethodPost, "/api/sessions", `{"mode":"grant"}`); status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", status, text)
	}
	if n := store.commits.Load() - before; n != 0 {
		t.Errorf("a session that was refused has made %d commits", n)
	}
}

// TestWhoGoesAwayLeavesASession begins one and does not wait for the reply: it is prepared to its end, so
// that it is tidied up as any other.
func TestWhoGoesAwayLeavesASession(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Sessions = 1
	store := hold(&o)
	b := newBench(t, o)
	goOn := store.stop()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/api/sessions", strings.NewReader(`{"mode":"grant"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := web.Do(r); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-store.begun
	cancel()
	<-gone
	goOn()
	b.until(func() bool { return store.commits.Load() == 2 }) // coupon and stock
	if status, _ := b.send(http.MethodPost, "/api/sessions", `{"mode":"grant"}`); status != http.StatusServiceUnavailable {
		t.Errorf("got %d: the session is not counted", status)
	}
}

// TestASessionEndsUnderACommand deletes a session while it works.
func TestASessionEndsUnderACommand(t *testing.T) {
	t.Parallel()
	o := inMemory()
	store := hold(&o)
	g := newBench(t, o).begin(lab.NewSession{Mode: lab.ModeGrant})
	g.do("A", lab.Acquire)
	g.do("A", lab.Read)
	goOn := store.stop()
	done := g.post(g.path("/commands"), `{"actor":"A","action":"write"}`)
	<-store.begun
	if status, _ := g.send(http.MethodDelete, g.path(""), ""); status != http.StatusNoContent {
		t.Errorf("got %d", status)
	}
	if got := <-done; !strings.HasPrefix(got, "404 ") || !strings.Contains(got, "is over") {
		t.Errorf("got %s", got)
	}
	goOn()
}

// TestASlowCommand takes longer than the server in front gives a reply.
func TestASlowCommand(t *testing.T) {
	t.Parallel()
	o := inMemory()
	store := hold(&o)
	l, err := lab.New(o)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(l)
	const deadline = 2 * time.Second // the quick commands must be through by then
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = deadline, deadline
	srv.Start()
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
		srv.Close()
	})
	g := (&bench{t, l, srv.URL}).begin(lab.NewSession{Mode: lab.ModeGrant})
	g.do("A", lab.Acquire)
	g.do("A", lab.Read)
	goOn := store.stop()
	done := g.post(g.path("/commands"), `{"actor":"A","action":"write"}`)
	<-store.begun
	time.AfterFunc(3*deadline, goOn)
	got := <-done
	if !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"status":"done"`) {
		t.Errorf("got %s, want it done", got)
	}
}

// TestALateRequest ends a session while a request to its gateway is still being sent: nothing comes of it.
func TestALateRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, soon, late string }{
		{"/v1/commits", `{"lock":{},"ops":[{"kind":"put","resource":"RESOURCE",`, `"key":"late","value":"eA=="}]}`},
		{"/v1/resources/RESOURCE/lock", `{"ttl":`, `"1h"}`},
	} {
		o := inMemory()
		g := newBench(t, o).begin(lab.NewSession{Mode: lab.ModeGrant})
		name := "lab:" + g.id + ".coupon"
		fill := func(s string) string { return strings.ReplaceAll(s, "RESOURCE", name) }
		body, rest := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+g.path("/gateway"+fill(c.path)), body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Expect", "100-continue") // so that the body is sent when it is read
		patient := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
		defer patient.CloseIdleConnections()
		status := make(chan int, 1)
		go func() {
			resp, err := patient.Do(r)
			if err != nil {
				status <- 0
				return
			}
			_ = resp.Body.Close()
			status <- resp.StatusCode
		}()
		if _, err := io.WriteString(rest, fill(c.soon)); err != nil {
			t.Fatal(err)
		}
		if status, _ := g.send(http.MethodDelete, g.path(""), ""); status != http.StatusNoContent {
			t.Errorf("got %d", status)
		}
		g.until(func() bool {
			_, err := o.Store.Get(t.Context(), name, "left")
			st, statusErr := o.Lock.Status(t.Context(), name)
			return errors.Is(err, storage.ErrNotFound) && statusErr == nil && !st.Held
		})
		if _, err := io.WriteString(rest, c.late); err != nil {
			t.Fatal(err)
		}
		_ = rest.Close()
		if got := <-status; got/100 == 2 {
			t.Errorf("%s: got %d", c.path, got)
		}
		if rec, err := o.Store.Get(t.Context(), name, "late"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: got %v, %v", c.path, rec, err)
		}
		if st, err := o.Lock.Status(t.Context(), name); err != nil || st.Held {
			t.Errorf("%s: got %+v, %v", c.path, st, err)
		}
	}
}

// TestNothingIsLeftInTheStore ends a session with more records than one list returns.
func TestNothingIsLeftInTheStore(t *testing.T) {
	t.Parallel()
	o := inMemory()
	g := newBench(t, o).begin(lab.NewSession{Mode: lab.ModeGrant})
	name := "lab:" + g.id + ".coupon"
	e := g.do("A", lab.Acquire)
	var reply struct{ Token string }
	if err := json.Unmarshal([]byte(e.Exchanges[0].Reply), &reply); err != nil {
		t.Fatal(err)
	}
	token, err := fencing.ParseToken(name, reply.Token)
	if err != nil {
		t.Fatal(err)
	}
	store, err := storage.New(o.Store, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1001 {
		if _, err := store.Put(t.Context(), token, fmt.Sprint("k", i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if status, _ := g.send(http.MethodDelete, g.path(""), ""); status != http.StatusNoContent {
		t.Errorf("got %d", status)
	}
	g.until(func() bool {
		records, err := store.List(t.Context(), name, "", "", 10)
		if err != nil {
			t.Fatal(err)
		}
		st, err := o.Lock.Status(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return len(records) == 0 && st == locking.Status{Resource: name, Number: st.Number}
	})
}

// sizes is the reader of a stream who notes how much comes at a time.
type sizes struct {
	http.ResponseWriter
	most, all int
	end       func()
}

// Write implements http.ResponseWriter.
func (s *sizes) Write(text []byte) (int, error) {
	s.most, s.all = max(s.most, len(text)), s.all+len(text)
	if bytes.Contains(text, []byte("event: state")) {
		s.end()
	}
	return len(text), nil
}

// TestAStreamComesInPieces reads a long session again: however long it is, who does not read it holds
// little of it in memory.
func TestAStreamComesInPieces(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Source = func(string, string) *trace.Source { return &trace.Source{Text: strings.Repeat("x", 4<<10)} }
	g := newBench(t, o).begin(lab.NewSession{Mode: lab.ModeNone})
	for range 100 {
		g.do("A", lab.Read)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &sizes{ResponseWriter: httptest.NewRecorder(), end: cancel}
	g.lab.ServeHTTP(flushing{w}, httptest.NewRequestWithContext(ctx, http.MethodGet, g.path("/events"), http.NoBody))
	if w.all < 400<<10 || w.most > 128<<10 {
		t.Errorf("%d bytes came, %d of them at once", w.all, w.most)
	}
}

// flushing can flush.
type flushing struct{ *sizes }

// Flush implements http.Flusher.
func (flushing) Flush() {}
