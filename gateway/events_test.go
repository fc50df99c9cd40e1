package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

func feed(tb testing.TB, size int) *gateway.Feed {
	tb.Helper()
	f, err := gateway.NewFeed(size)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func happened(resource string, number int64, kind fencing.EventKind) fencing.Event {
	return fencing.Event{Time: time.Now(), Kind: kind, Resource: resource, Number: number}
}

// frame is one block of a stream.
type frame struct{ id, event, data string }

func (f frame) of(tb testing.TB) wire.Event {
	tb.Helper()
	var e wire.Event
	if err := json.Unmarshal([]byte(f.data), &e); err != nil || string(e.Kind) != f.event {
		tb.Fatalf("the frame %+v is no event: %v", f, err)
	}
	return e
}

// watch is one open stream.
type watch struct {
	testing.TB
	reply  *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// open starts to watch; the reply to come is a stream.
func (r *rig) open(tb testing.TB, query, last string) *watch {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/v1/events"+query, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		cancel()
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
	})
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
		tb.Fatalf("the reply is %s %s", resp.Status, got)
	}
	return &watch{tb, resp, bufio.NewScanner(resp.Body), cancel}
}

// block reads until the next empty line; false if the stream has ended.
func (w *watch) block() (f frame, ok bool) {
	w.Helper()
	for w.lines.Scan() {
		name, value, _ := strings.Cut(w.lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case w.lines.Text() == "":
			return f, true
		case name == "id":
			f.id = value
		case name == "event":
			f.event = value
		case name == "data":
			f.data += value
		}
	}
	return f, false
}

// next is the next block with data.
func (w *watch) next() frame {
	w.Helper()
	for {
		f, ok := w.block()
		if !ok {
			w.Fatalf("the stream has ended: %v", w.lines.Err())
		}
		if f.data != "" {
			return f
		}
	}
}

func TestEventsOfARealLock(t *testing.T) {
	t.Parallel()
	f := feed(t, 100)
	store, err := storage.New(memstore.New(nil), &storage.Options{OnEvent: f.Add})
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, &locking.IssuerOptions{OnEvent: f.Add})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, setup{
		options: gateway.Options{Feed: f},
		issuer:  func(locking.Issuer) locking.Issuer { return issuer },
		store:   func(gateway.Store) gateway.Store { return store },
	})
	w := r.open(t, "", "")
	hello, _ := w.block()
	if !strings.HasSuffix(hello.id, "-0") || hello.data != "" {
		t.Errorf("the stream begins with %+v, and should say where it is", hello)
	}
	granted, err := issuer.Grant(t.Context(), locking.Request{Resource: "coupon:42", Label: "a " + canary, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	forged := granted.Token
	forged.Grant = fencing.NewGrant()
	if _, err := store.Put(t.Context(), forged, "k", nil); err == nil {
		t.Fatal("a write with another grant was accepted")
	}
	if err := issuer.Evict(t.Context(), "coupon:42", granted.Token.Number, "because of "+canary); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 4 {
		frame := w.next()
		if strings.Contains(frame.data, granted.Token.Grant) || strings.Contains(frame.data, forged.Grant) || strings.Contains(frame.data, canary) {
			t.Errorf("a secret in %s", frame.data)
		}
		e := frame.of(t)
		if e.Time.IsZero() || e.Resource != "coupon:42" {
			t.Errorf("got %+v", e)
		}
		got = append(got, fmt.Sprint(e.Kind, " ", e.Number, " ", e.Attempt, " ", e.Reason, " ", e.Label))
	}
	want := []string{"raised 1   ", "granted 1   a [hidden]", "refused 1 applied duplicate ", "evicted 1  because of [hidden] "}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	w.cancel()
}

func TestEventsFilter(t *testing.T) {
	t.Parallel()
	f := feed(t, 100)
	r := newRig(t, setup{options: gateway.Options{Feed: f}})
	all := r.open(t, "", "")
	one := r.open(t, "?resource=coupon:1", "")
	some := r.open(t, "?prefix=coupon:", "")
	kinds := r.open(t, "?kind=lost,refused&prefix=coupon:1", "")
	f.Add(happened("coupon:1", 1, fencing.EventGranted))
	f.Add(happened("coupon:10", 2, fencing.EventLost))
	f.Add(happened("order:1", 3, fencing.EventRefused))
	f.Add(happened("coupon:1", 4, fencing.EventRefused))
	f.Add(happened("coupon:1", 5, fencing.EventGranted)) // the last one for who watches no kind
	for name, c := range map[string]struct {
		w    *watch
		want []int64
	}{
		"all": {all, []int64{1, 2, 3, 4, 5}}, "resource": {one, []int64{1, 4, 5}},
		"prefix": {some, []int64{1, 2, 4, 5}}, "kind": {kinds, []int64{2, 4}},
	} {
		for _, want := range c.want {
			if got := c.w.next().of(t); int64(got.Number) != want {
				t.Errorf("%s: got number %d, want %d", name, got.Number, want)
			}
		}
	}
	for _, query := range []string{"?kind=granted,none", "?kind=", "?kind=Granted", "?resource=a/b", "?prefix=", "?resource=" + strings.Repeat("a", 201)} {
		r.problem(http.StatusUnprocessableEntity, wire.SlugInvalid, http.MethodGet, "/v1/events"+query, "")
	}
	for _, query := range []string{"?kind=lost&kind=lost", "?since=1"} {
		r.problem(http.StatusBadRequest, wire.SlugMalformed, http.MethodGet, "/v1/events"+query, "")
	}
}

func TestEventsResume(t *testing.T) {
	t.Parallel()
	f := feed(t, 4)
	r := newRig(t, setup{options: gateway.Options{Feed: f}})
	first := r.open(t, "", "")
	f.Add(happened("r", 1, fencing.EventGranted))
	id := first.next().id
	process, digits, _ := strings.Cut(id, "-")
	if digits != "1" || len(process) != 16 {
		t.Fatalf("the first event's id is %q", id)
	}
	for n := int64(2); n <= 4; n++ {
		f.Add(happened("r", n, fencing.EventGranted))
	}
	expect := func(t *testing.T, last, gap string, numbers ...int64) {
		t.Helper()
		w := r.open(t, "", last)
		if gap != "" {
			if got := w.next(); got.event != "gap" || got.data != gap {
				t.Errorf("after %s: got %+v, want the gap %s", last, got, gap)
			}
		}
		for _, want := range numbers {
			got := w.next()
			if int64(got.of(t).Number) != want || got.id != fmt.Sprint(process, "-", want) {
				t.Errorf("after %s: got %+v, want number %d", last, got, want)
			}
		}
		w.cancel()
	}
	expect(t, id, "", 2, 3, 4)
	expect(t, process+"-3", "", 4)
	expect(t, process+"-0", "", 1, 2, 3, 4)
	for _, foreign := range []string{"0123456789abcdef-3", "nonsense", process + "-99", process + "-x", process} {
		expect(t, foreign, "{}", 1, 2, 3, 4)
	}
	for n := int64(5); n <= 7; n++ {
		f.Add(happened("r", n, fencing.EventGranted)) // 1, 2 and 3 are forgotten
	}
	expect(t, id, `{"missed":"2"}`, 4, 5, 6, 7)
	expect(t, process+"-0", `{"missed":"3"}`, 4, 5, 6, 7)
	w := r.open(t, "", process+"-7")
	f.Add(happened("r", 8, fencing.EventGranted))
	if got := w.next().of(t); got.Number != 8 {
		t.Errorf("got number %d, want only what is new", got.Number)
	}
}

// stuck is a reply whose reader takes nothing until it is told to go on.
type stuck struct {
	*httptest.ResponseRecorder
	mu     sync.Mutex // guards the recorder
	reads  chan struct{}
	writes chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	s.writes <- struct{}{}
	<-s.reads
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ResponseRecorder.Write(p)
}

func (s *stuck) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Body.String()
}

func TestEventsSlowReader(t *testing.T) {
	t.Parallel()
	f := feed(t, 10)
	g := bare(t, gateway.Options{Feed: f})
	ctx, cancel := context.WithCancel(t.Context())
	w := &stuck{ResponseRecorder: httptest.NewRecorder(), reads: make(chan struct{}), writes: make(chan struct{}, 100)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/events", http.NoBody))
	}()
	<-w.writes // it begins, and nobody reads
	for n := range int64(35) {
		f.Add(happened("r", n+1, fencing.EventGranted)) // never blocks
	}
	close(w.reads)
	until(t, "the last event is there", func() bool { return strings.Contains(w.text(), `"number":"35"`) })
	cancel()
	<-ended
	got := w.text()
	for _, want := range []string{"event: gap\ndata: {\"missed\":\"25\"}\n", `"number":"26"`} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in:\n%s", want, got)
		}
	}
	if strings.Contains(got, `"number":"25"`) {
		t.Errorf("an event that was missed is there:\n%s", got)
	}
}

// bare is a gateway over backends in memory, without a server.
func bare(tb testing.TB, o gateway.Options) *gateway.Gateway {
	tb.Helper()
	store, err := storage.New(memstore.New(nil), nil)
	if err != nil {
		tb.Fatal(err)
	}
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	if o.Issuer == nil {
		o.Issuer = issuer
	}
	if o.Store == nil {
		o.Store = store
	}
	g, err := gateway.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// keys is a ring whose one key can be changed.
type keys struct {
	mu  sync.Mutex // guards key
	key apikey.Key
}

func (k *keys) Find(text string) (apikey.Key, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.key, text == "secret" && k.key.ID != ""
}

func (k *keys) set(key apikey.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.key = key
}

func TestEventsHeartbeatAndKeys(t *testing.T) { //nolint:paralleltest // synctest's clock
	synctest.Test(t, func(t *testing.T) {
		f := feed(t, 10)
		ring := &keys{key: apikey.Key{ID: "k1", Scopes: apikey.Read, Prefixes: []string{"coupon:"}}}
		g := bare(t, gateway.Options{Feed: f, Keys: ring})
		w := &stuck{ResponseRecorder: httptest.NewRecorder(), reads: make(chan struct{}), writes: make(chan struct{}, 100)}
		close(w.reads)
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/events", http.NoBody)
		req.Header.Set("Authorization", "Bearer secret")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.ServeHTTP(w, req)
		}()
		time.Sleep(time.Second)
		f.Add(happened("order:1", 1, fencing.EventGranted)) // not the key's
		f.Add(happened("coupon:1", 2, fencing.EventGranted))
		f.Add(happened("order:1", 3, fencing.EventGranted))
		time.Sleep(15 * time.Second)
		f.Add(happened("order:1", 4, fencing.EventGranted))
		time.Sleep(15 * time.Second)
		got := w.text()
		id, _, _ := strings.Cut(got[strings.Index(got, "id: ")+4:], "-")
		_, after, _ := strings.Cut(got, `"number":"2"}`)
		want := "\n\n:\nid: " + id + "-3\n\n:\nid: " + id + "-4\n\n"
		if after != want || strings.Contains(got, "order:1") {
			t.Errorf("got %q, want it to end in %q", got, want)
		}

		ring.set(apikey.Key{ID: "k1", Scopes: apikey.Read, Prefixes: []string{"order:"}}) // as of the next beat
		time.Sleep(15 * time.Second)
		f.Add(happened("order:1", 5, fencing.EventGranted))
		time.Sleep(time.Second)
		if !strings.Contains(w.text(), `"number":"5"`) {
			t.Errorf("the key's new prefix does not count: %q", w.text())
		}
		ring.set(apikey.Key{})
		time.Sleep(16 * time.Second)
		select {
		case <-ended:
		default:
			t.Error("the stream outlives its key")
		}
	})
}

func TestEventsEnd(t *testing.T) {
	t.Parallel()
	f := feed(t, 10)
	g := bare(t, gateway.Options{Feed: f, MaxStreams: 2})
	srv := httptest.NewServer(g)
	t.Cleanup(srv.Close)
	r := &rig{TB: t, url: srv.URL, http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(r.http.CloseIdleConnections)

	head := r.do(http.MethodHead, "/v1/events", "")
	if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD: got %+v", head)
	}
	one, two := r.open(t, "", ""), r.open(t, "", "")
	r.problem(http.StatusServiceUnavailable, wire.SlugOverloaded, http.MethodGet, "/v1/events", "") // the third
	if got := g.Load().Streams; got != 2 {
		t.Errorf("Load says %d streams, want 2", got)
	}
	one.cancel() // hangs up: its place is free at once, without any event
	until(t, "the place is free", func() bool { return g.Load().Streams == 1 })

	g.Drain()
	for {
		if _, ok := two.block(); !ok {
			break
		}
	}
	if err := two.lines.Err(); err != nil {
		t.Errorf("the stream does not end cleanly: %v", err)
	}
	r.problem(http.StatusServiceUnavailable, wire.SlugDraining, http.MethodGet, "/v1/events", "")
	until(t, "no stream is left", func() bool { return g.Load().Streams == 0 })
}

func TestEventsOutliveTheServersTimeouts(t *testing.T) {
	t.Parallel()
	f := feed(t, 10)
	r := newRig(t, setup{options: gateway.Options{Feed: f}, server: func(s *httptest.Server) {
		s.Config.ReadTimeout, s.Config.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	}})
	w := r.open(t, "", "")
	for n := range int64(4) {
		time.Sleep(80 * time.Millisecond)
		f.Add(happened("r", n+1, fencing.EventGranted))
		if got := w.next().of(t); int64(got.Number) != n+1 {
			t.Errorf("got number %d, want %d", got.Number, n+1)
		}
	}
}

func TestNoFeed(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.problem(http.StatusNotFound, wire.SlugNotFound, http.MethodGet, "/v1/events", "")
	for _, size := range []int{-1, 1_000_001} {
		if _, err := gateway.NewFeed(size); err == nil {
			t.Errorf("NewFeed(%d) is accepted", size)
		}
	}
}
