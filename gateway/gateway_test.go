package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(servers{m}, testenv.Goroutines()...) }

// servers stops the servers that tests share before goroutines are counted.
type servers struct{ m *testing.M }

func (s servers) Run() int { return testenv.Run(s.m) }

const canary = "CANARYCANARYCANARYCANARYCA"

// log is a log that tests can read.
type log struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is a gateway on loopback, over backends in memory.
type rig struct {
	testing.TB
	url    string
	http   *http.Client
	issuer *locking.LocalIssuer
	store  *storage.Store
	log    *log
	events chan fencing.Event // the gateway's own
}

type setup struct {
	mode    fencing.Mode
	options gateway.Options // Issuer and Store are filled in
	issuer  func(locking.Issuer) locking.Issuer
	store   func(gateway.Store) gateway.Store
	server  func(*httptest.Server)
	// Where the locks and the records are. Default: in memory.
	lock     locking.Backend
	backend  storage.Backend
	onIssuer func(fencing.Event)
}

func newRig(tb testing.TB, s setup) *rig {
	tb.Helper()
	if s.lock == nil {
		s.lock, s.backend = memlock.New(), memstore.New(nil)
	}
	store, err := storage.New(s.backend, &storage.Options{Mode: s.mode})
	if err != nil {
		tb.Fatal(err)
	}
	issuer, err := locking.NewIssuer(s.lock, []fencing.Fence{store}, &locking.IssuerOptions{Poll: 5 * time.Millisecond, OnEvent: s.onIssuer})
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{TB: tb, issuer: issuer, store: store, log: &log{}, events: make(chan fencing.Event, 100)}
	o := s.options
	o.Issuer, o.Store = issuer, store
	if s.issuer != nil {
		o.Issuer = s.issuer(issuer)
	}
	if s.store != nil {
		o.Store = s.store(store)
	}
	o.Logger = slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o.OnEvent = func(e fencing.Event) { r.events <- e }
	g, err := gateway.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(checked(tb, g))
	if s.server != nil {
		s.server(srv)
	}
	srv.Start()
	tb.Cleanup(srv.Close)
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	r.url, r.http = srv.URL, &http.Client{Transport: transport}
	return r
}

type reply struct {
	status int
	header http.Header
	body   string
}

// do sends a request. headers come in pairs; the Content-Type of a body that looks like
// JSON is set, unless one is given.
func (r *rig) do(method, path, body string, headers ...string) reply {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	if body != "" && !strings.Contains(path, "/records/") {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i+1] == "":
			req.Header.Del(headers[i])
		case headers[i] == "Content-Type":
			req.Header.Set(headers[i], headers[i+1])
		default:
			req.Header.Add(headers[i], headers[i+1])
		}
	}
	resp, err := r.http.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(data)}
}

// want is do, for a status and what the reply says.
func (r *rig) want(status int, into any, method, path, body string, headers ...string) reply {
	r.Helper()
	got := r.do(method, path, body, headers...)
	if got.status != status {
		r.Fatalf("%s %s: got %d %s, want %d", method, path, got.status, got.body, status)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(got.body), into); err != nil {
			r.Fatalf("%s %s: %v in %s", method, path, err, got.body)
		}
	}
	return got
}

// problem is do, for an error.
func (r *rig) problem(status int, slug, method, path, body string, headers ...string) (wire.Problem, reply) {
	r.Helper()
	got := r.do(method, path, body, headers...)
	var p wire.Problem
	if err := json.Unmarshal([]byte(got.body), &p); err != nil {
		r.Errorf("%s %s: got %d %.200q, want a problem", method, path, got.status, got.body)
		return p, got
	}
	if got.status != status || p.Slug() != slug || p.Status != status || got.header.Get("Content-Type") != wire.TypeProblem ||
		got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Content-Type-Options") != "nosniff" {
		r.Errorf("%s %s %.80s: got %d %v %s, want %d %s", method, path, body, got.status, got.header, got.body, status, slug)
	}
	return p, got
}

// lock takes a lock and returns the token's text.
func (r *rig) lock(resource, body string) string {
	r.Helper()
	var m wire.LockReply
	r.want(201, &m, "POST", "/v1/resources/"+resource+"/lock", body)
	return m.Token
}

// image is all that can be seen of two resources.
func (r *rig) image() []any {
	r.Helper()
	ctx := context.Background()
	var out []any
	for _, name := range []string{"coupon:42", "other"} {
		m, err := r.store.Mark(ctx, name)
		if err != nil {
			r.Fatal(err)
		}
		list, err := r.store.List(ctx, name, "", "", 1000)
		if err != nil {
			r.Fatal(err)
		}
		st, err := r.issuer.Status(ctx, name)
		if err != nil {
			r.Fatal(err)
		}
		st.Remaining = st.Remaining.Round(10 * time.Minute) // 0 or 60 minutes here
		out = append(out, m.Number, m.Retired, m.Grant, list, st)
	}
	return out
}

func TestLocksOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	const lock = "/v1/resources/coupon:42/lock"
	var l wire.LockReply
	got := r.want(201, &l, "POST", lock, `{"ttl":"10s","label":"worker 1","grant":"`+canary+`"}`)
	if l.Token != "1."+canary || l.Number != 1 || time.Duration(l.ExpiresIn) > 10*time.Second || time.Duration(l.ExpiresIn) < 5*time.Second ||
		l.Waited < 0 || got.header.Get(wire.HeaderMark) != "1" {
		t.Fatalf("got %s %v", got.body, got.header)
	}
	if !strings.Contains(got.body, `"number":"1"`) {
		t.Errorf("the number is no string: %s", got.body)
	}
	p, got := r.problem(423, "held", "POST", lock, `{}`)
	if p.Label != "worker 1" || p.Number == nil || *p.Number != 1 || p.Remaining == nil || p.Resource != "coupon:42" || p.Outcome != "refused" {
		t.Errorf("got %s", got.body)
	}
	if after := got.header.Get("Retry-After"); after != "10" && after != "9" {
		t.Errorf("got Retry-After %q, want what remains, in seconds, rounded up", after)
	}
	var again wire.LockReply
	if r.want(201, &again, "POST", lock, `{"ttl":"10s","grant":"`+canary+`"}`); again.Token != l.Token {
		t.Errorf("the same grant again: got %s, want the same hold", again.Token)
	}
	var renewed wire.RenewReply
	r.want(200, &renewed, "PATCH", lock, `{"ttl":"1h"}`, wire.HeaderToken, l.Token)
	if d := time.Duration(renewed.ExpiresIn); renewed.Number != 1 || d > time.Hour || d < time.Hour-10*time.Second {
		t.Errorf("got %+v", renewed)
	}
	var st wire.LockStatus
	r.want(200, &st, "GET", lock, "")
	if !st.Held || st.Number != 1 || st.Label != "worker 1" || time.Duration(st.Remaining) < 50*time.Minute {
		t.Errorf("got %+v", st)
	}
	if got := r.want(200, nil, "HEAD", lock, ""); got.body != "" {
		t.Errorf("HEAD got a body: %q", got.body)
	}

	other := r.lock("other", `{}`)
	var all wire.RenewAllReply
	r.want(200, &all, "POST", "/v1/locks/renew", `{"ttl":"1h","tokens":[{"resource":"coupon:42","token":"`+l.Token+`"},{"resource":"other","token":"`+
		other[:len(other)-26]+canary+`"}]}`)
	if len(all.Results) != 2 || all.Results[0].Problem != nil || all.Results[1].Problem == nil || all.Results[1].Problem.Slug() != "lease-lost" {
		t.Errorf("got %+v", all)
	}
	var list wire.LockList
	r.want(200, &list, "GET", "/v1/locks?limit=1", "")
	if len(list.Locks) != 1 || list.Locks[0].Resource != "coupon:42" || list.Next != "coupon:42" {
		t.Errorf("got %+v", list)
	}
	list = wire.LockList{}
	r.want(200, &list, "GET", "/v1/locks?prefix=o&after=coupon:42", "")
	if len(list.Locks) != 1 || list.Locks[0].Resource != "other" || list.Next != "" {
		t.Errorf("got %+v", list)
	}

	var rel wire.ReleaseReply
	if r.want(200, &rel, "DELETE", lock, "", wire.HeaderToken, l.Token); !rel.Released {
		t.Error("the release freed nothing")
	}
	if r.want(200, &rel, "DELETE", lock, "", wire.HeaderToken, l.Token); rel.Released {
		t.Error("the second release freed something")
	}
	r.problem(412, "lease-lost", "PATCH", lock, `{}`, wire.HeaderToken, l.Token)
	r.problem(412, "lease-lost", "POST", lock, `{"grant":"`+canary+`"}`)

	r.want(204, nil, "POST", "/v1/resources/other/lock/evict", `{"number":"1","reason":"a test"}`)
	r.problem(412, "lease-lost", "PATCH", "/v1/resources/other/lock", `{}`, wire.HeaderToken, other)
	r.problem(422, "invalid", "POST", "/v1/resources/other/lock/evict", `{"number":"2"}`)
}

func TestRecordsOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	const rec = "/v1/resources/coupon:42/records/stock"
	tok := r.lock("coupon:42", `{}`)
	got := r.want(204, nil, "PUT", rec, "9", wire.HeaderToken, tok, "If-None-Match", "*")
	if got.header.Get("ETag") != `"1"` || got.header.Get(wire.HeaderMark) != "1" {
		t.Errorf("got %v", got.header)
	}
	got = r.want(200, nil, "GET", rec, "")
	if got.body != "9" || got.header.Get("ETag") != `"1"` || got.header.Get("Content-Type") != wire.TypeRecord || got.header.Get(wire.HeaderMark) != "" {
		t.Errorf("got %+v", got)
	}
	got = r.want(200, nil, "GET", rec, "", wire.HeaderToken, tok)
	if got.body != "9" || got.header.Get(wire.HeaderMark) != "1" {
		t.Errorf("a fenced read: got %+v", got)
	}
	r.problem(412, "version-mismatch", "PUT", rec, "8", wire.HeaderToken, tok, "If-None-Match", "*")
	p, _ := r.problem(412, "version-mismatch", "PUT", rec, "8", wire.HeaderToken, tok, "If-Match", `"2"`)
	if p.Have == nil || *p.Have != 1 || p.Want == nil || *p.Want != 2 || p.Key != "stock" || p.Op == nil || *p.Op != 0 {
		t.Errorf("got %+v", p)
	}
	r.want(204, nil, "PUT", rec, "8", wire.HeaderToken, tok, "If-Match", `"1"`)
	r.want(204, nil, "PUT", "/v1/resources/coupon:42/records/empty", "", wire.HeaderToken, tok)
	if got := r.want(200, nil, "GET", "/v1/resources/coupon:42/records/empty", ""); got.body != "" {
		t.Errorf("got %q, want an empty value", got.body)
	}
	_, got = r.problem(404, "record-not-found", "GET", "/v1/resources/coupon:42/records/none", "", wire.HeaderToken, tok)
	if got.header.Get(wire.HeaderMark) != "1" {
		t.Errorf("a fenced read of nothing: got %v", got.header)
	}

	var list wire.RecordList
	r.want(200, &list, "GET", "/v1/resources/coupon:42/records?prefix=s", "")
	if len(list.Records) != 1 || list.Records[0].Key != "stock" || string(list.Records[0].Value) != "8" || list.Records[0].Version != 2 || list.Next != "" {
		t.Errorf("got %+v", list)
	}

	other := r.lock("other", `{}`)
	var com wire.CommitReply
	r.want(200, &com, "POST", "/v1/commits", `{"tokens":[{"resource":"other","token":"`+other+`"},{"resource":"coupon:42","token":"`+tok+`"}],"ops":[
		{"kind":"add","resource":"coupon:42","key":"stock","delta":"-1","min":"0"},
		{"kind":"put","resource":"other","key":"o","value":"AP8="},
		{"kind":"require","resource":"coupon:42","key":"empty","version":"1"},
		{"kind":"add","resource":"other","key":"n","delta":"-5"},
		{"kind":"delete","resource":"other","key":"none"}]}`)
	if n := com.Results; len(n) != 5 || *n[0].Counter != 7 || n[0].Version != 3 || n[1].Version != 1 || n[1].Counter != nil || *n[3].Counter != -5 || n[4].Version != 0 {
		t.Errorf("got %+v", com)
	}
	if got := r.want(200, nil, "GET", "/v1/resources/other/records/o", ""); got.body != "\x00\xff" {
		t.Errorf("got %q", got.body)
	}
	p, _ = r.problem(409, "below-minimum", "POST", "/v1/commits", `{"tokens":[{"resource":"coupon:42","token":"`+tok+
		`"}],"ops":[{"kind":"add","resource":"coupon:42","key":"stock","delta":"-8","min":"0"}]}`)
	if *p.Have != 7 || *p.Want != 0 {
		t.Errorf("got %+v", p)
	}

	got = r.want(204, nil, "DELETE", rec, "", wire.HeaderToken, tok, "If-Match", `"3"`)
	if got.header.Get("ETag") != "" || got.header.Get(wire.HeaderMark) != "1" {
		t.Errorf("got %v", got.header)
	}

	// The story of the project: the holder is evicted and another one takes over.
	r.want(204, nil, "POST", "/v1/resources/coupon:42/lock/evict", `{"number":"1"}`)
	p, got = r.problem(412, "stale-token", "PUT", rec, "9", wire.HeaderToken, tok)
	if p.Reason != "retired" || *p.Number != 1 || *p.Highest != 1 || got.header.Get(wire.HeaderMark) != "1" {
		t.Errorf("got %+v %v", p, got.header)
	}
	r.lock("coupon:42", `{}`)
	p, _ = r.problem(412, "stale-token", "GET", rec, "", wire.HeaderToken, tok)
	if p.Reason != "superseded" || *p.Number != 1 || *p.Highest != 2 {
		t.Errorf("got %+v", p)
	}
	p, got = r.problem(428, "token-required", "PUT", rec, "9", wire.HeaderToken, "2")
	if p.Reason != "grant-required" || got.header.Get(wire.HeaderMark) != "2" {
		t.Errorf("got %+v %v", p, got.header)
	}
}

// TestIdempotencyOverHTTP: a commit that is sent again under its key is answered as it was, with
// a token that is stale by then too.
func TestIdempotencyOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	const rec = "/v1/resources/coupon:42/records/stock"
	tok := r.lock("coupon:42", `{}`)
	r.want(204, nil, "PUT", rec, "1", wire.HeaderToken, tok)
	take := func(delta string) string {
		return `{"tokens":[{"resource":"coupon:42","token":"` + tok + `"}],"ops":[{"kind":"add","resource":"coupon:42","key":"stock","delta":"` + delta + `","min":"0"}]}`
	}
	check := func(got reply, replayed, mark string) {
		t.Helper()
		if got.header.Get(wire.HeaderReplayed) != replayed || got.header.Get(wire.HeaderMark) != mark {
			t.Errorf("got %v, want replayed %q, mark %q", got.header, replayed, mark)
		}
	}
	check(r.want(200, nil, "POST", "/v1/commits", take("-1"), wire.HeaderKey, "order-7"), "", "1")
	p, _ := r.problem(409, "below-minimum", "POST", "/v1/commits", take("-1"), wire.HeaderKey, "order-8")
	if *p.Have != 0 {
		t.Errorf("got %+v", p)
	}
	r.want(204, nil, "PUT", rec, "5", wire.HeaderToken, tok)
	r.problem(409, "below-minimum", "POST", "/v1/commits", take("-1"), wire.HeaderKey, "order-8")
	p, _ = r.problem(422, "idempotency-key-reused", "POST", "/v1/commits", take("-2"), wire.HeaderKey, "order-7")
	if p.Key != "order-7" || p.Resource != "coupon:42" {
		t.Errorf("got %+v", p)
	}
	check(r.want(204, nil, "PUT", rec, "6", wire.HeaderToken, tok, wire.HeaderKey, "put-1"), "", "1")

	r.want(204, nil, "POST", "/v1/resources/coupon:42/lock/evict", `{"number":"1"}`)
	r.lock("coupon:42", `{}`)
	var com wire.CommitReply
	got := r.want(200, &com, "POST", "/v1/commits", take("-1"), wire.HeaderKey, `"order-7"`) // the draft's form of it
	check(got, "true", "")
	if len(com.Results) != 1 || *com.Results[0].Counter != 0 {
		t.Errorf("got %+v", com)
	}
	got = r.want(204, nil, "PUT", rec, "6", wire.HeaderToken, tok, wire.HeaderKey, "put-1")
	check(got, "true", "")
	if got.header.Get("ETag") != `"4"` {
		t.Errorf("got %v", got.header)
	}
	if got := r.want(200, nil, "GET", rec, ""); got.body != "6" {
		t.Errorf("got %q", got.body)
	}
	r.problem(412, "stale-token", "POST", "/v1/commits", take("-1"), wire.HeaderKey, "order-9")
}

func TestFenceOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	const fence = "/v1/resources/coupon:42/fence"
	tok := r.lock("coupon:42", `{"grant":"`+canary+`"}`)
	for _, c := range []struct {
		token string
		want  string
	}{
		{"", `{"number":"1","retired":false}`},
		{tok, `{"number":"1","retired":false,"current":true}`},
		{"1", `{"number":"1","retired":false,"current":false}`},
		{"2." + canary, `{"number":"1","retired":false,"current":false}`},
	} {
		got := r.want(200, nil, "GET", fence, "", wire.HeaderToken, c.token)
		if strings.TrimSpace(got.body) != c.want || got.header.Get(wire.HeaderMark) != "1" {
			t.Errorf("%s: got %s %v, want %s", c.token, got.body, got.header, c.want)
		}
	}
	r.problem(403, "raise-forbidden", "POST", fence, `{"raise":"99"}`)

	classic := newRig(t, setup{mode: fencing.Classic})
	got := classic.want(204, nil, "POST", fence, `{"raise":"34"}`)
	if got.header.Get(wire.HeaderMark) != "34" {
		t.Errorf("got %v", got.header)
	}
	p, _ := classic.problem(412, "stale-token", "POST", fence, `{"raise":"33"}`)
	if p.Reason != "superseded" || *p.Highest != 34 {
		t.Errorf("got %+v", p)
	}
	classic.want(204, nil, "PUT", "/v1/resources/coupon:42/records/a", "x", wire.HeaderToken, "35")
	classic.problem(412, "stale-token", "PUT", "/v1/resources/coupon:42/records/a", "y", wire.HeaderToken, "34")
}

// TestOneName: however a resource is written in a path, it is one resource, and what is
// escaped twice is none.
func TestOneName(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	tok := r.lock("coupon%3A42", `{}`)
	r.want(204, nil, "PUT", "/v1/resources/coupon%3a42/records/a%40b", "x", wire.HeaderToken, tok)
	if got := r.want(200, nil, "GET", "/v1/resources/%63oupon:42/records/a@%62", ""); got.body != "x" {
		t.Errorf("got %q", got.body)
	}
	before := r.image()
	for _, name := range []string{
		"coupon%253A42", "coupon%2F42", "a%2Fb", "..%2F..%2Fetc", "%2E%2E", "a%20b", "a%2520b", "%00", "a%0Ab", "%C3%A9", "%7Ba%7D", "a%25", "a+b", "a;b", "a=b", "a&b",
		strings.Repeat("x", 201), "%3A42", "a%3Fb", "a%23b", "a'b", "a%22b",
	} {
		p, _ := r.problem(422, "invalid", "GET", "/v1/resources/"+name+"/lock", "")
		if p.What != "resource" {
			t.Errorf("%s: got %+v", name, p)
		}
		p, _ = r.problem(422, "invalid", "PUT", "/v1/resources/coupon:42/records/"+name, "y", wire.HeaderToken, tok)
		if p.What != "key" {
			t.Errorf("%s: got %+v", name, p)
		}
	}
	if after := r.image(); !reflect.DeepEqual(before, after) {
		t.Errorf("something was written: %v, before %v", after, before)
	}
}

// TestMounted: behind http.StripPrefix and a mux, escapes stay what they were.
func TestMounted(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	g, err := gateway.New(gateway.Options{Issuer: r.issuer, Store: r.store})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/fence/", http.StripPrefix("/fence", g))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	r.url = srv.URL + "/fence"
	r.lock("coupon%3A42", `{}`)
	var st wire.LockStatus
	if r.want(200, &st, "GET", "/v1/resources/coupon:42/lock", ""); !st.Held {
		t.Errorf("got %+v", st)
	}
	r.problem(422, "invalid", "GET", "/v1/resources/coupon%253A42/lock", "")
	r.problem(422, "invalid", "GET", "/v1/resources/a%2Fb/lock", "")
}

func TestPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	if got := r.want(200, nil, "GET", "/livez", ""); got.body != "ok\n" {
		t.Errorf("got %q", got.body)
	}
	index := r.want(200, nil, "GET", "/problems", "").body
	for _, p := range wire.Pages() {
		got := r.want(200, nil, "GET", wire.Base+p.Slug, "")
		if !strings.Contains(got.body, p.Text) || !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") || !strings.Contains(index, wire.Base+p.Slug) {
			t.Errorf("%s: got %+v", p.Slug, got)
		}
	}
	r.problem(404, "not-found", "GET", "/problems/none", "")
}

func TestListsComeInParts(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{options: gateway.Options{MaxReply: 1 << 10}})
	tok := r.lock("coupon:42", `{}`)
	for _, key := range []string{"a", "b", "c", "d"} {
		r.want(204, nil, "PUT", "/v1/resources/coupon:42/records/"+key, strings.Repeat(key, 600), wire.HeaderToken, tok)
	}
	var keys []string
	for after, n := "", 0; n < 10; n++ {
		var list wire.RecordList
		r.want(200, &list, "GET", "/v1/resources/coupon:42/records?limit=4&after="+after, "")
		for _, rec := range list.Records {
			keys = append(keys, rec.Key)
		}
		if after = list.Next; after == "" {
			break
		}
	}
	if got := strings.Join(keys, ""); got != "abcd" {
		t.Errorf("got the keys %s, want each once", got)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	for _, o := range []gateway.Options{
		{},
		{Issuer: r.issuer},
		{Store: r.store},
		{Issuer: r.issuer, Store: r.store, MaxValue: -1},
		{Issuer: r.issuer, Store: r.store, MaxValue: 1 << 30},
		{Issuer: r.issuer, Store: r.store, MaxBody: 1},
		{Issuer: r.issuer, Store: r.store, MaxReply: 1},
		{Issuer: r.issuer, Store: r.store, MaxWait: -time.Second},
		{Issuer: r.issuer, Store: r.store, MaxWait: 2 * time.Hour},
		{Issuer: r.issuer, Store: r.store, Timeout: time.Nanosecond},
		{Issuer: r.issuer, Store: r.store, Cleanup: time.Hour},
	} {
		if _, err := gateway.New(o); fencing.OutcomeOf(err) != fencing.Refused {
			t.Errorf("%+v: got %v, want an *InvalidError", o, err)
		}
	}
}
