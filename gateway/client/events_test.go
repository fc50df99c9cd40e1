package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/gateway/wire"
)

// watcher reads a stream in a goroutine of its own.
type watcher struct {
	events chan client.Event
	err    chan error // why it ended; nil where ctx did
}

func watch(ctx context.Context, c *client.Client, r client.EventsRequest) *watcher {
	w := &watcher{make(chan client.Event, 1000), make(chan error, 1)}
	go func() {
		for e, err := range c.Events(ctx, r) {
			if err != nil {
				w.err <- err
				return
			}
			w.events <- e
		}
		w.err <- nil
	}()
	return w
}

func (w *watcher) next(t *testing.T) client.Event {
	t.Helper()
	select {
	case e := <-w.events:
		return e
	case err := <-w.err:
		t.Fatalf("the stream has ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("no event came")
	}
	return client.Event{}
}

// TestEvents: everything that happens at a replica arrives once and in order, however often the
// connection is cut; what the replica has forgotten, and a change to another one, is a gap.
func TestEvents(t *testing.T) {
	t.Parallel()
	var streams atomic.Int32
	cut := make(chan struct{}, 1)
	var downs [2]atomic.Bool
	f := replicas(t, 2, fencing.Strict, func(i int, h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if downs[i].Load() {
				panic(http.ErrAbortHandler)
			}
			if r.URL.Path != "/v1/events" {
				h.ServeHTTP(w, r)
				return
			}
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			go func() {
				select {
				case <-cut:
					cancel()
				case <-ctx.Done():
				}
			}()
			streams.Add(1)
			h.ServeHTTP(w, r.WithContext(ctx))
		})
	})
	c := f.client(t, client.Options{}, f.urls...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := watch(ctx, c, client.EventsRequest{Prefix: "coupon:", Kinds: []fencing.EventKind{fencing.EventGranted, fencing.EventReleased}})
	// The stream has begun once what happens is on it: an event from before is not.
	const hello = "coupon:hello"
	until(t, func() bool {
		g := grant(t, c.Issuer(), request(hello+fencing.NewGrant()))
		select {
		case e := <-w.events:
			if !strings.HasPrefix(e.Resource, hello) || e.Kind != fencing.EventGranted || e.Number != g.Token.Number || e.Time.IsZero() || e.Label != "tester" || e.ID == "" {
				t.Errorf("got %+v, want the grant", e)
			}
			return true
		case <-time.After(time.Second):
			return false
		}
	})
	next := func() client.Event {
		t.Helper()
		for {
			if e := w.next(t); !strings.HasPrefix(e.Resource, hello) { // a late one
				return e
			}
		}
	}
	last := ""
	for i := range 5 {
		if i > 0 {
			cut <- struct{}{}
		}
		name := fmt.Sprint("coupon:", i)
		g := grant(t, c.Issuer(), request(name))
		grant(t, c.Issuer(), request(fmt.Sprint("order:", i))) // of no interest
		if _, err := c.Issuer().Release(t.Context(), g.Token); err != nil {
			t.Fatal(err)
		}
		for _, want := range []fencing.EventKind{fencing.EventGranted, fencing.EventReleased} {
			e := next()
			if e.Kind != want || e.Resource != name || e.ID == last {
				t.Errorf("got %+v, want %s of %s", e, want, name)
			}
			last = e.ID
		}
		// The stream after the cut has begun, too: the next cut is not its end before that.
		until(t, func() bool { return streams.Load() == int32(i+1) })
		grant(t, c.Issuer(), request(name+"b"))
		last = next().ID
	}
	// The replica goes. The other one has events of its own only.
	downs[0].Store(true)
	cut <- struct{}{}
	if e := next(); e.Kind != client.KindGap || e.ID == "" {
		t.Errorf("got %+v, want a gap", e)
	}
	cancel()
	if err := <-w.err; err != nil {
		t.Errorf("got %v after the context ended, want nothing", err)
	}

	// From an ID on, with more events after it than are remembered.
	downs[0].Store(false)
	again := f.client(t, client.Options{}, f.urls[0])
	for range 20 {
		grant(t, again.Issuer(), request("coupon:"+fencing.NewGrant()))
	}
	for e, err := range again.Events(t.Context(), client.EventsRequest{After: last}) {
		if err != nil || e.Kind != client.KindGap || e.Missed < 4 {
			t.Errorf("got %+v, %v, want a gap of 4 or more", e, err)
		}
		break
	}
}

func TestEventsRefused(t *testing.T) {
	t.Parallel()
	f := replicas(t, 1, fencing.Strict, nil)
	c := f.client(t, client.Options{}, f.urls[0])
	stranger, err := client.New(f.urls[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stranger.Close)
	nobody, err := client.New(dead(t), &client.Options{Retries: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		c    *client.Client
		r    client.EventsRequest
		want error
	}{
		{stranger, client.EventsRequest{}, client.ErrUnauthorized},
		{c, client.EventsRequest{Resource: "a b"}, fencing.ErrInvalid},
		{c, client.EventsRequest{Kinds: []fencing.EventKind{"grated"}}, fencing.ErrInvalid},
		{c, client.EventsRequest{After: "a\r\nX: y"}, fencing.ErrInvalid},
		{nobody, client.EventsRequest{}, fencing.ErrFailed},
	} {
		n := 0
		for e, err := range tc.c.Events(t.Context(), tc.r) {
			if n++; !errors.Is(err, tc.want) {
				t.Errorf("%+v: got %+v, %v, want %v", tc.r, e, err, tc.want)
			}
		}
		if n != 1 {
			t.Errorf("%+v: got %d errors, want 1", tc.r, n)
		}
	}
}

// TestEventsFormat: what a stream may look like, and what must not bring the reader down.
func TestEventsFormat(t *testing.T) {
	t.Parallel()
	const granted = `data: {"time":"2026-11-21T12:00:00Z","kind":"granted","resource":"coupon:42","number":"34","elapsed":"2ms","highest":"33"}` + "\n"
	long := strings.Repeat("x", 2<<20)
	for _, tc := range []struct {
		name, body string
		want       string // kind@id of each event
		resume     string // the Last-Event-ID with which the next connection is made; "none": there is none
	}{
		{"one", "id: p-7\nevent: granted\n" + granted + "\n", "granted@p-7", "p-7"},
		{"line ends", strings.ReplaceAll("id: p-7\nevent: granted\n"+granted+"\n", "\n", "\r\n"), "granted@p-7", "p-7"},
		{"no spaces", "id:p-7\n" + strings.Replace(granted, "data: ", "data:", 1) + "\n", "granted@p-7", "p-7"},
		{"data in lines", "id: p-7\ndata: {\"kind\":\ndata: \"granted\"}\n\n", "granted@p-7", "p-7"},
		{"comments", ":\n\n: hello\nid: p-7\n" + granted + ":\n\n", "granted@p-7", "p-7"},
		{"the id stays", "id: p-7\n" + granted + "\n" + granted + "\n", "granted@p-7 granted@p-7", "p-7"},
		{"heartbeats move on", "id: p-7\n" + granted + "\n:\nid: p-9\n\n", "granted@p-7", "p-9"},
		{"cut off", "id: p-7\n" + granted + "\nid: p-8\nevent: granted\n" + granted, "granted@p-7", "p-7"},
		{"cut in a line", "id: p-7\n" + granted + "\nid: p-8\nevent: granted\ndata: {", "granted@p-7", "p-7"},
		{"gap", "id: p-0\nevent: gap\ndata: {\"missed\":\"12\"}\n\n", "gap@p-0", "p-0"},
		{"gap of nobody knows", "id: p-0\nevent: gap\ndata: {}\n\n", "gap@p-0", "p-0"},
		{"another kind", "id: p-7\nevent: melted\ndata: {\"kind\":\"melted\",\"heat\":\"1\"}\n\n", "melted@p-7", "p-7"},
		{"unknown fields", "retry: 1\nfoo: bar\nid: p-7\n" + granted + "\n", "granted@p-7", "p-7"},
		{"bad ids", "id: p-7\n" + granted + "\nid: p 8\n" + granted + "\nid: p\x01\n\n", "granted@p-7 granted@p-7", "p-7"},
		{"no event", "id: p-7\n" + granted + "\ndata: hello\n\n", "granted@p-7 error", "none"},
		{"long line", "id: p-7\n" + granted + "\ndata: " + long + "\n\n", "granted@p-7 error", "none"},
		{"long comment", ":" + long + "\n\n", "error", "none"},
		{"long event", strings.Repeat("data: "+long[:1<<19]+"\n", 3) + "\n", "error", "none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n, resume := 0, "none"
			stream := says(http.StatusOK, map[string]string{"Content-Type": "text/event-stream"}, tc.body)
			network := fakes{"a": func(r *http.Request) reply {
				if n++; n == 1 {
					return stream(r)
				}
				resume = r.Header.Get("Last-Event-ID")
				cancel()
				return refused(r)
			}}
			c, err := client.New("http://a", &client.Options{HTTPClient: &http.Client{Transport: network}})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for e, err := range c.Events(ctx, client.EventsRequest{}) {
				if err != nil {
					got = append(got, "error")
					continue
				}
				got = append(got, string(e.Kind)+"@"+e.ID)
				if tc.name == "one" && (e.Number != 34 || e.Highest != 33 || e.Resource != "coupon:42" || e.Elapsed != 2*time.Millisecond || e.Time.IsZero()) {
					t.Errorf("got %+v", e)
				}
			}
			if s := strings.Join(got, " "); s != tc.want || resume != tc.resume {
				t.Errorf("got %s, resumed at %q, want %s, %q", s, resume, tc.want, tc.resume)
			}
		})
	}
}

// TestEventsReconnect: a stream that is silent for too long is made anew, and so is one that ends;
// the pauses grow while nobody answers. A slow reader is no silence.
func TestEventsReconnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration // when connections were made
		n := 0
		network := fakes{"a": func(r *http.Request) reply {
			at = append(at, time.Since(start))
			n++
			pr, pw := io.Pipe()
			go func() {
				<-r.Context().Done()
				_ = pw.CloseWithError(r.Context().Err())
			}()
			switch n {
			case 1: // an event, heartbeats for two minutes, then silence
				go func() {
					_, _ = io.WriteString(pw, "id: p-1\ndata: {\"kind\":\"granted\"}\n\n")
					for range 8 {
						time.Sleep(15 * time.Second)
						_, _ = io.WriteString(pw, ":\n\n")
					}
				}()
			case 2:
				return saysProblem(wire.SlugDraining, "3")(r)
			case 3, 4:
				return refused(r)
			case 5:
				go func() { _, _ = io.WriteString(pw, "id: p-2\ndata: {\"kind\":\"released\"}\n\n") }()
			}
			return reply{status: http.StatusOK, header: map[string]string{"Content-Type": "text/event-stream"}, body: pr}
		}}
		c, err := client.New("http://a", &client.Options{HTTPClient: &http.Client{Transport: network}})
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for e, err := range c.Events(t.Context(), client.EventsRequest{}) {
			if err != nil {
				t.Error(err)
				break
			}
			kinds = append(kinds, string(e.Kind))
			if e.Kind == fencing.EventReleased {
				break
			}
			time.Sleep(10 * time.Minute)
		}
		if want := []string{"granted", "released"}; !slices.Equal(kinds, want) {
			t.Errorf("got %v, want %v", kinds, want)
		}
		silent := 10*time.Minute + 7*15*time.Second + 45*time.Second // a pipe does not buffer: all but one came after the pause
		want := []time.Duration{0, silent + 50*time.Millisecond}
		want = append(want, want[1]+3*time.Second)
		want = append(want, want[2]+200*time.Millisecond, want[2]+600*time.Millisecond)
		if !slices.Equal(at, want) {
			t.Errorf("connected at %v, want %v", at, want)
		}
	})
}

// TestEventsLeft: a stream that its reader ends, before or after it has begun, says nothing of the
// replica; one that is silent does.
func TestEventsLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begins bool
		after  time.Duration // until the reader goes
		want   string        // who is asked for a write then
	}{
		"no reply":         {false, time.Second, "a"},
		"no event":         {true, time.Second, "a"},
		"no reply in time": {false, 16 * time.Second, "b"},
		"silence":          {true, 46 * time.Second, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := ""
				network := fakes{
					"a": func(r *http.Request) reply {
						if r.URL.Path != "/v1/events" {
							asked += "a"
							return written(r)
						}
						if !c.begins {
							<-r.Context().Done()
							return reply{err: r.Context().Err()}
						}
						pr, pw := io.Pipe()
						context.AfterFunc(r.Context(), func() { _ = pw.CloseWithError(r.Context().Err()) })
						return reply{status: http.StatusOK, header: map[string]string{"Content-Type": "text/event-stream"}, body: pr}
					},
					"b": func(r *http.Request) reply {
						if r.URL.Path != "/v1/events" {
							asked += "b"
							return written(r)
						}
						<-r.Context().Done()
						return reply{err: r.Context().Err()}
					},
				}
				cl, err := client.New("http://a", &client.Options{Others: []string{"http://b"}, HTTPClient: &http.Client{Transport: network}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.after)
				defer cancel()
				for e, err := range cl.Events(ctx, client.EventsRequest{}) {
					t.Errorf("got %v, %v, want nothing", e, err)
				}
				if _, err := cl.Store().Put(t.Context(), token, "a", nil); err != nil || asked != c.want {
					t.Errorf("asked %q, %v, want %q", asked, err, c.want)
				}
			})
		})
	}
}

// FuzzEvents: whatever a stream contains, its events have ids that can be sent back, and reading
// it ends.
func FuzzEvents(f *testing.F) {
	f.Add("id: p-7\nevent: granted\ndata: {\"kind\":\"granted\",\"number\":\"34\"}\n\n")
	f.Add("id: p-0\nevent: gap\ndata: {\"missed\":\"3\"}\n\n:\nid: p-1\n\n")
	f.Add(":\r\n\r\nid\ndata\ndata:\n\n")
	f.Add("data: {}\n\ndata: [\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		stream := says(http.StatusOK, map[string]string{"Content-Type": "text/event-stream"}, body)
		network := fakes{"a": func(r *http.Request) reply {
			if n++; n == 1 {
				return stream(r)
			}
			cancel()
			return refused(r)
		}}
		c, err := client.New("http://a", &client.Options{HTTPClient: &http.Client{Transport: network}})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range c.Events(ctx, client.EventsRequest{}) {
			if err == nil && (len(e.ID) > 200 || strings.ContainsFunc(e.ID, func(r rune) bool { return r <= ' ' || r > '~' })) {
				t.Errorf("got the id %q", e.ID)
			}
		}
	})
}
