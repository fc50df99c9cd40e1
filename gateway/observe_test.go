package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/metrics"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// told are the requests that a gateway told of.
type told struct {
	mu   sync.Mutex // guards list
	list []gateway.Request
}

func (o *told) add(r gateway.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, r)
}

// of waits for the request of that id: it is told of after its reply.
func (o *told) of(t *testing.T, id string) (r gateway.Request) {
	t.Helper()
	until(t, "the request "+id+" is told of", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, r = range o.list {
			if r.ID == id {
				return true
			}
		}
		return false
	})
	return r
}

// lines are the request lines of a log, by request id.
func (l *log) lines(t *testing.T) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for line := range strings.Lines(l.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("the log line %q: %v", line, err)
		}
		if id, ok := m["id"].(string); ok && m["msg"] == "request" {
			out[id] = m
		}
	}
	return out
}

var randomID = regexp.MustCompile(`^[0-9a-f]{16}$`)

func TestRequestID(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	kept := []string{"a", "req-1", "4bf92f35-77b3_4da6.x", strings.Repeat("a", 64), strings.Repeat("A", 25)}
	for _, id := range kept {
		if got := r.do(http.MethodGet, "/livez", "", wire.HeaderRequest, id).header.Values(wire.HeaderRequest); len(got) != 1 || got[0] != id {
			t.Errorf("sent %q, got %q", id, got)
		}
	}
	seen := map[string]bool{}
	for _, id := range []string{"a b", "ä", `"x"`, "a/b", strings.Repeat("a", 65), canary, "x-" + canary + "-y"} {
		got := r.do(http.MethodGet, "/livez", "", wire.HeaderRequest, id).header.Get(wire.HeaderRequest)
		if !randomID.MatchString(got) || seen[got] {
			t.Errorf("sent %q, got %q, want a random one", id, got)
		}
		seen[got] = true
	}
	if got := r.do(http.MethodGet, "/livez", "", wire.HeaderRequest, "a", wire.HeaderRequest, "b").header.Get(wire.HeaderRequest); !randomID.MatchString(got) {
		t.Errorf("two ids: got %q, want a random one", got)
	}
	if got := r.do(http.MethodGet, "/livez", "").header.Get(wire.HeaderRequest); !randomID.MatchString(got) {
		t.Errorf("without one: got %q, want a random one", got)
	}
}

func TestEveryRequestIsTold(t *testing.T) {
	t.Parallel()
	var o told
	r := newRig(t, setup{
		options: gateway.Options{OnRequest: o.add},
		store: func(s gateway.Store) gateway.Store {
			return &hookedStore{s, func(ctx context.Context, c storage.Commit) (storage.Result, error) {
				if c.Ops[0].Key == "panic" {
					panic("by test")
				}
				return s.Commit(ctx, c)
			}}
		},
	})
	var lock wire.LockReply
	r.want(http.StatusCreated, &lock, http.MethodPost, "/v1/resources/coupon%3A42/lock", "{}", wire.HeaderRequest, "lock")
	const route = "/v1/resources/:resource"
	for id, c := range map[string]struct {
		method, path string
		want         gateway.Request
		headers      []string
	}{
		"put":     {"PUT", "/v1/resources/coupon:42/records/k", gateway.Request{Method: "PUT", Route: route + "/records/:key", Status: 204, Resource: "coupon:42"}, []string{wire.HeaderToken, lock.Token}},
		"stale":   {"PUT", "/v1/resources/coupon:42/records/k", gateway.Request{Method: "PUT", Route: route + "/records/:key", Status: 412, Resource: "coupon:42", Problem: wire.SlugStaleToken}, []string{wire.HeaderToken, "1." + canary}},
		"panic":   {"PUT", "/v1/resources/coupon:42/records/panic", gateway.Request{Method: "PUT", Route: route + "/records/:key", Status: 500, Resource: "coupon:42", Problem: wire.SlugInternal}, []string{wire.HeaderToken, lock.Token}},
		"hidden":  {"GET", "/v1/resources/" + canary + "/fence", gateway.Request{Method: "GET", Route: route + "/fence", Status: 200, Resource: "[hidden]"}, nil},
		"grammar": {"GET", "/v1/resources/a%2Fb/fence", gateway.Request{Method: "GET", Route: route + "/fence", Status: 422, Problem: wire.SlugInvalid}, nil},
		"head":    {"HEAD", "/livez", gateway.Request{Method: "HEAD", Route: "/livez", Status: 200}, nil},
		"nowhere": {"GET", "/" + canary, gateway.Request{Method: "GET", Status: 404, Problem: wire.SlugNotFound}, nil},
		"half":    {"GET", "/v1/resources/coupon:42", gateway.Request{Method: "GET", Status: 404, Problem: wire.SlugNotFound}, nil},
		"method":  {"PUT", "/livez", gateway.Request{Method: "PUT", Status: 405, Problem: wire.SlugMethodNotAllowed}, nil},
		"forged":  {canary, "/livez", gateway.Request{Method: "other", Status: 405, Problem: wire.SlugMethodNotAllowed}, nil},
	} {
		reply := r.do(c.method, c.path, "", append(c.headers, wire.HeaderRequest, id)...)
		if got := reply.header.Get(wire.HeaderRequest); reply.status != c.want.Status || got != id {
			t.Errorf("%s: got %d with the id %q, want %d", id, reply.status, got, c.want.Status)
		}
		got := o.of(t, id)
		if got.Duration <= 0 {
			t.Errorf("%s: got the duration %v", id, got.Duration)
		}
		got.ID, got.Duration = "", 0
		if got != c.want {
			t.Errorf("%s: got  %+v\nwant %+v", id, got, c.want)
		}
		line := r.log.lines(t)[id]
		if line["level"] != "INFO" || line["route"] != c.want.Route || line["status"] != float64(c.want.Status) || line["method"] != c.want.Method ||
			line["client"] != "127.0.0.1" || line["duration"] == nil || c.method != http.MethodHead && line["bytes"] != float64(len(reply.body)) {
			t.Errorf("%s: got the line %v", id, line)
		}
	}
	if text := r.log.String(); strings.Contains(text, canary) || strings.Contains(text, strings.Split(lock.Token, ".")[1]) {
		t.Errorf("a secret in the log:\n%s", text)
	}
}

func TestRequestsOfKeys(t *testing.T) {
	t.Parallel()
	var o told
	ring := &keys{key: apikey.Key{ID: "k1", Scopes: apikey.Read}}
	r := newRig(t, setup{options: gateway.Options{OnRequest: o.add, Keys: ring}})
	r.do(http.MethodGet, "/v1/locks", "", wire.HeaderRequest, "good", "Authorization", "Bearer secret")
	r.do(http.MethodGet, "/v1/locks", "", wire.HeaderRequest, "bad", "Authorization", "Bearer "+canary)
	if got := o.of(t, "good"); got.Key != "k1" || got.Status != http.StatusOK {
		t.Errorf("got %+v", got)
	}
	if got := o.of(t, "bad"); got.Key != "" || got.Status != http.StatusUnauthorized || got.Problem != wire.SlugUnauthorized {
		t.Errorf("got %+v", got)
	}
	if text := r.log.String(); strings.Contains(text, "secret") || strings.Contains(text, canary) {
		t.Errorf("a key in the log:\n%s", text)
	}
}

func TestAClientThatWentAwayIsTold(t *testing.T) {
	t.Parallel()
	var o told
	r := newRig(t, setup{options: gateway.Options{OnRequest: o.add}})
	if _, err := r.issuer.Grant(t.Context(), locking.Request{Resource: "coupon:42", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	hangUp := make(chan struct{})
	gone := r.goAway(t, hangUp, `{"wait":"60s"}`)
	until(t, "it waits", func() bool { return r.status("coupon:42").Waiters == 1 })
	close(hangUp)
	<-gone
	until(t, "it is told of", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.list) == 1
	})
	if got := o.list[0]; got.Status != 499 || got.Route != "/v1/resources/:resource/lock" {
		t.Errorf("got %+v, want status 499", got)
	}
	if text := r.log.String(); strings.Contains(text, `"level":"ERROR"`) {
		t.Errorf("a client that hangs up is no error of the gateway's:\n%s", text)
	}
}

func TestACutReplyIsTold(t *testing.T) {
	t.Parallel()
	var o told
	half := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic("by test")
	})
	r := newRig(t, setup{options: gateway.Options{OnRequest: o.add, Metrics: half}, server: func(s *httptest.Server) {
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(wire.HeaderRequest, "half")
	if resp, err := r.http.Do(req); err == nil {
		if _, err = io.ReadAll(resp.Body); err == nil {
			t.Error("half a reply looks like a whole one")
		}
		_ = resp.Body.Close()
	}
	if got := o.of(t, "half"); got.Status != http.StatusInternalServerError || got.Problem != wire.SlugInternal {
		t.Errorf("got %+v, want 500 internal", got)
	}
}

func TestThePatternIsToldToWhoeverIsAround(t *testing.T) {
	t.Parallel()
	g := bare(t, gateway.Options{})
	for path, want := range map[string]string{
		"/v1/resources/coupon:42/fence": "/v1/resources/:resource/fence", "/v1/resources/a%2Fb/fence": "/v1/resources/:resource/fence", "/nowhere": "",
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		g.ServeHTTP(httptest.NewRecorder(), req)
		if req.Pattern != want {
			t.Errorf("%s: got %q, want %q", path, req.Pattern, want)
		}
	}
}

// BenchmarkPut is a fenced write over a store in memory, without a network: what the gateway
// itself costs, and what its log and its metrics add. The request and the reply, made anew each
// time, are about 20 of the allocations.
func BenchmarkPut(b *testing.B) {
	m := metrics.New(nil)
	store, err := storage.New(memstore.New(nil), &storage.Options{OnEvent: m.OnEvent})
	if err != nil {
		b.Fatal(err)
	}
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, nil)
	if err != nil {
		b.Fatal(err)
	}
	log := slog.New(slog.NewJSONHandler(io.Discard, nil)) //nolint:sloglint // one that does the work
	for _, c := range []struct {
		name    string
		options gateway.Options
	}{
		{"silent", gateway.Options{}},
		{"log", gateway.Options{Logger: log}},
		{"log+metrics", gateway.Options{Logger: log, OnRequest: m.OnRequest, Issuer: issuer, Store: store}},
	} {
		b.Run(c.name, func(b *testing.B) {
			g := bare(b, c.options)
			var lock wire.LockReply
			w := httptest.NewRecorder()
			req := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/resources/coupon:42/lock", strings.NewReader(`{"ttl":"1h"}`))
			req.Header.Set("Content-Type", "application/json")
			g.ServeHTTP(w, req)
			if err := json.Unmarshal(w.Body.Bytes(), &lock); err != nil {
				b.Fatal(err)
			}
			value := []byte("9")
			header := http.Header{wire.HeaderToken: {lock.Token}}
			b.ReportAllocs()
			for b.Loop() {
				req := httptest.NewRequestWithContext(b.Context(), http.MethodPut, "/v1/resources/coupon:42/records/stock", bytes.NewReader(value))
				req.Header = header
				w := httptest.NewRecorder()
				g.ServeHTTP(w, req)
				if w.Code != http.StatusNoContent {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
