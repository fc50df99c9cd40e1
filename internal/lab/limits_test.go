package lab_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/lab"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/storage"
)

// TestCaps runs into the limits.
func TestCaps(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Sessions, o.Commands = 2, 3
	b := newBench(t, o)
	g := b.begin(lab.NewSession{Mode: lab.ModeGrant})
	other := b.begin(lab.NewSession{Mode: lab.ModeGrant})
	if status, text := b.send(http.MethodPost, "/api/sessions", `{"mode":"grant"}`); status != http.StatusServiceUnavailable || !strings.Contains(text, "too many sessions") {
		t.Errorf("got %d %s", status, text)
	}
	if status, _ := b.send(http.MethodDelete, other.path(""), ""); status != http.StatusNoContent {
		t.Errorf("got %d", status)
	}
	b.begin(lab.NewSession{Mode: lab.ModeGrant})
	for range 3 {
		g.do("A", lab.Read)
	}
	if status, text := b.send(http.MethodPost, g.path("/commands"), `{"actor":"A","action":"read"}`); status != http.StatusTooManyRequests || !strings.Contains(text, "begin a new one") {
		t.Errorf("got %d %s", status, text)
	}
	if _, h, _ := b.exchange(http.MethodPost, g.path("/commands"), `{"actor":"A","action":"read"}`); h.Get("Retry-After") != "1" {
		t.Errorf("Retry-After: %q", h.Get("Retry-After"))
	}
	big := `{"tokens":[],"ops":["` + strings.Repeat("x", 17<<10) + `"]}`
	if status, text := b.send("POST", g.path("/gateway/v1/commits"), big); status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s", status, text)
	}
}

// TestTooManyEvents fills a session.
func TestTooManyEvents(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Events = 100
	g := newBench(t, o).begin(lab.NewSession{Mode: lab.ModeNone})
	for range 100 {
		g.do("A", lab.Check)
	}
	if status, text := g.send(http.MethodPost, g.path("/commands"), `{"actor":"A","action":"check"}`); status != http.StatusTooManyRequests {
		t.Errorf("got %d %s", status, text)
	}
	if all := g.all(); len(all) != 100 {
		t.Errorf("got %d events", len(all))
	}
}

// TestAnIdleSessionMakesRoom begins a session where there is no place left but an idle one's.
func TestAnIdleSessionMakesRoom(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Sessions, o.Idle = 1, 15*time.Second
	b := newBench(t, o)
	idle := b.begin(lab.NewSession{Mode: lab.ModeGrant})
	refused := 0
	idle.until(func() bool {
		status, _ := b.send(http.MethodPost, "/api/sessions", `{"mode":"grant"}`)
		if status == http.StatusServiceUnavailable {
			refused++
		}
		return status == http.StatusCreated
	})
	if refused == 0 {
		t.Error("a session in use made room")
	}
	if status, _ := b.send(http.MethodGet, idle.path(""), ""); status != http.StatusNotFound {
		t.Errorf("got %d", status)
	}
}

// TestSessionsMustNotComeTooFast begins and ends sessions without a pause.
func TestSessionsMustNotComeTooFast(t *testing.T) {
	t.Parallel()
	b := newBench(t, inMemory())
	for range 200 {
		status, text := b.send(http.MethodPost, "/api/sessions", `{"mode":"grant"}`)
		var st lab.State
		if status == http.StatusTooManyRequests {
			return
		}
		if err := json.Unmarshal([]byte(text), &st); err != nil || status != http.StatusCreated {
			t.Fatalf("got %d %s", status, text)
		}
		b.send(http.MethodDelete, "/api/sessions/"+st.ID, "")
	}
	t.Error("200 sessions were begun at once")
}

// TestTooManyWatch opens one stream too many.
func TestTooManyWatch(t *testing.T) {
	t.Parallel()
	g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 9 {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+g.path("/events"), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if want := map[bool]int{true: 503, false: 200}[i == 8]; resp.StatusCode != want {
			t.Errorf("stream %d: got %d, want %d", i+1, resp.StatusCode, want)
		}
	}
}

// TestOptions are the ones that New refuses.
func TestOptions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*lab.Options){
		"Lock":     func(o *lab.Options) { o.Lock = nil },
		"Store":    func(o *lab.Options) { o.Store = nil },
		"Sessions": func(o *lab.Options) { o.Sessions = -1 },
		"Commands": func(o *lab.Options) { o.Commands = 1 << 20 },
		"Events":   func(o *lab.Options) { o.Events = 1 },
		"Idle":     func(o *lab.Options) { o.Idle = time.Millisecond },
		"MaxAge":   func(o *lab.Options) { o.MaxAge = 1000 * time.Hour },
	} {
		o := inMemory()
		change(&o)
		_, err := lab.New(o)
		if !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestAnIdleSessionEnds watches one end, and looks at what it leaves in the store.
func TestAnIdleSessionEnds(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Idle = 3 * time.Second // more than there is between two commands of a busy machine
	g := newBench(t, o).begin(lab.NewSession{Mode: lab.ModeGrant})
	g.do("A", lab.Acquire)
	g.do("A", lab.Pause)
	g.watch("", func(_ []trace.Event, kind string) bool { return kind == "end" })
	if status, _ := g.send(http.MethodGet, g.path(""), ""); status != http.StatusNotFound {
		t.Errorf("got %d", status)
	}
	name := "lab:" + g.id + ".coupon"
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := o.Store.Get(t.Context(), name, "left")
		st, statusErr := o.Lock.Status(t.Context(), name)
		if errors.Is(err, storage.ErrNotFound) && statusErr == nil && !st.Held {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("got %v, %+v", err, st)
		}
	}
}

// TestNothingIsLeft closes a lab with sessions at work in it.
func TestNothingIsLeft(t *testing.T) { //nolint:paralleltest // it looks at all goroutines
	before := goleak.IgnoreCurrent()
	t.Run("lab", func(t *testing.T) {
		b := newBench(t, inMemory())
		g := b.begin(lab.NewSession{Mode: lab.ModeGrant, TTL: "300ms"})
		g.do("A", lab.Acquire)
		g.command(lab.Command{Actor: "B", Action: lab.Acquire}) // waits
		b.begin(lab.NewSession{Mode: lab.ModeLock, Lock: "nodes"}).do("A", lab.Acquire)
		paused := b.begin(lab.NewSession{Mode: lab.ModeNone})
		paused.do("A", lab.AddFree)
		paused.do("A", lab.Pause)
		paused.command(lab.Command{Actor: "A", Action: lab.Read})
		closed := make(chan error, 1)
		var once sync.Once
		g.watch("", func(_ []trace.Event, kind string) bool {
			once.Do(func() {
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					closed <- b.lab.Close(ctx)
				}()
			})
			return kind == "end"
		})
		if err := <-closed; err != nil {
			t.Error(err)
		}
		g.until(func() bool {
			status, _ := b.send(http.MethodPost, "/api/sessions", `{"mode":"grant"}`)
			return status == http.StatusServiceUnavailable
		})
	})
	web.CloseIdleConnections()
	goleak.VerifyNone(t, append(testenv.Goroutines(), before)...)
}
