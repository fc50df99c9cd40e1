package lab_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/lab"
	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage/memstore"
)

// bench is a lab behind a server, as a page sees it.
type bench struct {
	tb  testing.TB
	lab *lab.Lab
	url string // of the lab, without the last slash
}

// newBench serves a lab under /lab until the test ends.
func newBench(tb testing.TB, o lab.Options) *bench {
	tb.Helper()
	l, err := lab.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	srv := httptest.NewServer(http.StripPrefix("/lab", l))
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			tb.Error(err)
		}
		srv.Close()
	})
	return &bench{tb, l, srv.URL + "/lab"}
}

// patience is how long what is sure to come may take on a busy machine.
const patience = time.Minute

// inMemory are the options of a lab in memory.
func inMemory() lab.Options {
	lock := memlock.New()
	return lab.Options{
		Lock: lock, Store: memstore.New(nil), LockName: "memory", StoreName: "memory", Version: "test",
		Forget: func(_ context.Context, resource string) error {
			lock.Forget(resource)
			return nil
		},
	}
}

// send sends a request and returns the reply's status and body.
func (b *bench) send(method, path, body string, headers ...string) (int, string) {
	b.tb.Helper()
	status, _, text := b.exchange(method, path, body, headers...)
	return status, text
}

// exchange is send with the reply's headers.
func (b *bench) exchange(method, path, body string, headers ...string) (int, http.Header, string) {
	b.tb.Helper()
	address := path
	if strings.HasPrefix(path, "/") {
		address = b.url + path
	}
	r, err := http.NewRequestWithContext(b.tb.Context(), method, address, strings.NewReader(body))
	if err != nil {
		b.tb.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := web.Do(r)
	if err != nil {
		b.tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.tb.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// game is a session under way.
type game struct {
	*bench
	id string
}

func (b *bench) begin(n lab.NewSession) *game {
	b.tb.Helper()
	body, err := json.Marshal(n)
	if err != nil {
		b.tb.Fatal(err)
	}
	status, text := b.send(http.MethodPost, "/api/sessions", string(body))
	var st lab.State
	if err := json.Unmarshal([]byte(text), &st); status != http.StatusCreated || err != nil {
		b.tb.Fatalf("got %d %s", status, text)
	}
	if st.ID == "" || st.Mode != n.Mode || len(st.Clients) != 2 || st.Account.Remaining != "10" || !st.Account.Held {
		b.tb.Fatalf("got %+v", st)
	}
	return &game{b, st.ID}
}

func (g *game) path(rest string) string { return "/api/sessions/" + g.id + rest }

// command sends a command that must be taken.
func (g *game) command(c lab.Command) lab.Done {
	g.tb.Helper()
	body, err := json.Marshal(c)
	if err != nil {
		g.tb.Fatal(err)
	}
	status, text := g.send(http.MethodPost, g.path("/commands"), string(body))
	var d lab.Done
	if err := json.Unmarshal([]byte(text), &d); status != http.StatusOK || err != nil {
		g.tb.Fatalf("%+v: got %d %s", c, status, text)
	}
	return d
}

// do lets an actor act and returns the event, which must be there.
func (g *game) do(actor string, action lab.Action) trace.Event {
	g.tb.Helper()
	d := g.command(lab.Command{Actor: actor, Action: action})
	if d.Status != "done" || d.Event == nil {
		g.tb.Fatalf("%s %s: got %+v", actor, action, d)
	}
	return *d.Event
}

func (g *game) state() (st lab.State) {
	g.tb.Helper()
	status, text := g.send(http.MethodGet, g.path(""), "")
	if err := json.Unmarshal([]byte(text), &st); status != http.StatusOK || err != nil {
		g.tb.Fatalf("got %d %s", status, text)
	}
	return st
}

// watch reads the session's stream from after an event until want says so, and returns the events.
func (g *game) watch(last string, want func(events []trace.Event, kind string) bool) []trace.Event {
	g.tb.Helper()
	ctx, cancel := context.WithTimeout(g.tb.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+g.path("/events"), http.NoBody)
	if err != nil {
		g.tb.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := web.Do(r)
	if err != nil {
		g.tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var events []trace.Event
	kind, id := "", ""
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			if kind == "event" {
				var e trace.Event
				if err := json.Unmarshal([]byte(value), &e); err != nil || id != fmt.Sprint(e.Seq) {
					g.tb.Fatalf("id %s: %v: %s", id, err, value)
				}
				events = append(events, e)
			}
			if want(events, kind) {
				return events
			}
		}
	}
	g.tb.Fatalf("the stream ended with %v after %s", lines.Err(), show(events))
	return nil
}

// all returns every event so far.
func (g *game) all() []trace.Event {
	g.tb.Helper()
	return g.watch("", func(_ []trace.Event, kind string) bool { return kind == "state" })
}

func show(events []trace.Event) string {
	var b bytes.Buffer
	for _, e := range events {
		fmt.Fprintf(&b, "\n%2d %s %s %s %s %s %s: %s", e.Seq, e.Actor, e.Action, e.Number, e.Value, e.Outcome, e.Reason, e.Text)
		if e.Damage != "" {
			fmt.Fprintf(&b, " DAMAGE: %s", e.Damage)
		}
	}
	return b.String()
}

// play plays a chapter through the HTTP API and reports where it goes another way than it says.
func play(b *bench, c lab.Chapter) {
	b.tb.Helper()
	for i, p := range c.Parts {
		g := b.begin(lab.NewSession{Mode: p.Mode, TTL: p.TTL, Lock: p.Lock})
		for k, step := range p.Steps {
			d := g.command(step.Command)
			if wrong := compare(step.Expect, d); wrong != "" {
				b.tb.Errorf("%s, part %d, step %d, %s %s: %s\n%s", c.Slug, i+1, k+1,
					step.Command.Actor, step.Command.Action, wrong, show(g.all()))
				break
			}
		}
		for _, e := range g.all() {
			if e.Text == "" || e.Actor == "" || e.Outcome == "" {
				b.tb.Errorf("%s: an event without text, actor or outcome: %+v", c.Slug, e)
			}
		}
		if status, text := g.send(http.MethodDelete, g.path(""), ""); status != http.StatusNoContent {
			b.tb.Errorf("got %d %s", status, text)
		}
	}
}

func compare(want lab.Expect, d lab.Done) string {
	e := trace.Event{}
	if d.Event != nil {
		e = *d.Event
	}
	if n := len(d.Resumed); n > 0 {
		e = d.Resumed[n-1]
	}
	status := want.Status
	if status == "" {
		status = "done"
	}
	switch {
	case d.Status != status:
		return fmt.Sprintf("got status %s, want %s", d.Status, status)
	case want.Outcome != "" && e.Outcome != want.Outcome:
		return fmt.Sprintf("got outcome %s (%s), want %s", e.Outcome, e.Text, want.Outcome)
	case want.Reason != "" && e.Reason != want.Reason:
		return fmt.Sprintf("got reason %s, want %s", e.Reason, want.Reason)
	case want.Damage != (e.Damage != ""):
		return fmt.Sprintf("got damage %q, want %v", e.Damage, want.Damage)
	case want.Left != "" && d.State.Account.Remaining != want.Left:
		return fmt.Sprintf("got %s left, want %s", d.State.Account.Remaining, want.Left)
	}
	return ""
}
