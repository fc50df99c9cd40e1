package gateway_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// ring has its keys by their text.
type ring map[string]apikey.Key

func (r ring) Find(text string) (apikey.Key, bool) {
	k, ok := r[text]
	return k, ok
}

// untouched are backends that nothing may reach: what does is answered 500.
var untouched = setup{
	issuer: func(locking.Issuer) locking.Issuer { return struct{ locking.Issuer }{} },
	store:  func(gateway.Store) gateway.Store { return struct{ gateway.Store }{} },
}

// desk is a gateway without a network between it and its callers.
type desk struct {
	testing.TB
	*gateway.Gateway
	issuer *locking.LocalIssuer
	store  *storage.Store
	log    *log
}

func newDesk(tb testing.TB, s setup) *desk {
	tb.Helper()
	store, err := storage.New(memstore.New(nil), &storage.Options{OnEvent: s.onIssuer})
	if err != nil {
		tb.Fatal(err)
	}
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, &locking.IssuerOptions{OnEvent: s.onIssuer})
	if err != nil {
		tb.Fatal(err)
	}
	d := &desk{TB: tb, issuer: issuer, store: store, log: &log{}}
	o := s.options
	o.Issuer, o.Store, o.Logger = issuer, store, slog.New(slog.NewJSONHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if s.issuer != nil {
		o.Issuer = s.issuer(issuer)
	}
	if s.store != nil {
		o.Store = s.store(store)
	}
	if d.Gateway, err = gateway.New(o); err != nil {
		tb.Fatal(err)
	}
	return d
}

// request makes one with a key, unless it is empty. headers come in pairs.
func (d *desk) request(key, method, path, body string, headers ...string) *http.Request {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" && !strings.Contains(path, "/records/") {
		req.Header.Set("Content-Type", wire.TypeJSON)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return req
}

func (d *desk) serve(h http.Handler, req *http.Request) reply {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return reply{w.Code, w.Header(), w.Body.String()}
}

func (d *desk) do(key, method, path, body string, headers ...string) reply {
	return d.serve(d, d.request(key, method, path, body, headers...))
}

// slug is that of a reply's problem.
func slug(r reply) string {
	var p wire.Problem
	_ = json.Unmarshal([]byte(r.body), &p)
	return p.Slug()
}

func (d *desk) want(status int, problem string, got reply) {
	d.Helper()
	if got.status != status || slug(got) != problem {
		d.Errorf("got %d %s %v, want %d %s", got.status, got.body, got.header, status, problem)
	}
}

// apiRoute is a route, what it needs, and a request to it.
type apiRoute struct {
	name  string
	scope apikey.Scope // 0: none, not even a key
	path  string
	body  string
}

const (
	aToken  = `{"resource":"a","token":"1.` + canary + `"}`
	aPut    = `{"kind":"put","resource":"a","key":"k","value":""}`
	aCommit = `{"tokens":[` + aToken + `],"ops":[` + aPut + `]}`
	aLock   = `{"lock":{},"ops":[` + aPut + `]}`
)

var apiRoutes = []apiRoute{
	{"POST /v1/resources/:resource/lock", apikey.Lock, "/v1/resources/a/lock", `{}`},
	{"PATCH /v1/resources/:resource/lock", apikey.Lock, "/v1/resources/a/lock", `{}`},
	{"DELETE /v1/resources/:resource/lock", apikey.Lock, "/v1/resources/a/lock", ""},
	{"GET /v1/resources/:resource/lock", apikey.Read, "/v1/resources/a/lock", ""},
	{"POST /v1/resources/:resource/lock/evict", apikey.Admin, "/v1/resources/a/lock/evict", `{"number":"1"}`},
	{"POST /v1/locks/renew", apikey.Lock, "/v1/locks/renew", `{"tokens":[` + aToken + `]}`},
	{"GET /v1/locks", apikey.Read, "/v1/locks", ""},
	{"GET /v1/resources/:resource/records", apikey.Read, "/v1/resources/a/records", ""},
	{"GET /v1/resources/:resource/records/:key", apikey.Read, "/v1/resources/a/records/k", ""},
	{"PUT /v1/resources/:resource/records/:key", apikey.Write, "/v1/resources/a/records/k", "x"},
	{"DELETE /v1/resources/:resource/records/:key", apikey.Write, "/v1/resources/a/records/k", ""},
	{"POST /v1/commits", apikey.Write, "/v1/commits", aCommit},
	{"POST /v1/commits", apikey.Write | apikey.Lock, "/v1/commits", aLock},
	{"GET /v1/resources/:resource/fence", apikey.Read, "/v1/resources/a/fence", ""},
	{"POST /v1/resources/:resource/fence", apikey.Write, "/v1/resources/a/fence", `{"raise":"1.` + canary + `"}`},
	{"GET /v1/events", apikey.Read, "/v1/events", ""},
	{"GET /metrics", apikey.Admin, "/metrics", ""},
	{"GET /livez", 0, "/livez", ""},
	{"GET /readyz", 0, "/readyz", ""},
	{"GET /openapi.yaml", 0, "/openapi.yaml", ""},
	{"GET /problems", 0, "/problems", ""},
	{"GET /problems/:slug", 0, "/problems/held", ""},
}

// gone is a request of a client that is about to go: an event stream ends for it.
func gone(req *http.Request) *http.Request {
	ctx, cancel := context.WithCancel(req.Context())
	cancel()
	return req.WithContext(ctx)
}

// TestScopes: every route takes the keys with its scope, alone or not, and no others, and no
// request without a key, unless it is open.
func TestScopes(t *testing.T) {
	t.Parallel()
	keys := ring{}
	for s := apikey.Scope(1); s <= apikey.All; s++ {
		keys[s.String()] = apikey.Key{ID: "id", Scopes: s}
	}
	feed, err := gateway.NewFeed(0)
	if err != nil {
		t.Fatal(err)
	}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	o := gateway.Options{Keys: keys, Feed: feed, Metrics: metrics}
	shut := newDesk(t, setup{options: o, issuer: untouched.issuer, store: untouched.store})
	var names []string
	for _, r := range apiRoutes {
		names = append(names, r.name)
		method, _, _ := strings.Cut(r.name, " ")
		for _, m := range []string{method, http.MethodHead} {
			if m == http.MethodHead && method != http.MethodGet {
				continue
			}
			if got := shut.do("", m, r.path, r.body); r.scope == 0 && got.status != 200 || r.scope != 0 && got.status != 401 {
				t.Errorf("%s %s without a key: got %d %s", m, r.path, got.status, got.body)
			}
			for text, key := range keys {
				if r.scope != 0 && !key.Scopes.Has(r.scope) {
					got := shut.do(text, m, r.path, r.body)
					var p wire.Problem
					if m != http.MethodHead {
						_ = json.Unmarshal([]byte(got.body), &p)
					} else {
						p.What = "scope"
					}
					if got.status != 403 || p.What != "scope" {
						t.Errorf("%s %s with the scopes %s: got %d %s, want 403", m, r.path, text, got.status, got.body)
					}
					continue
				}
				req := shut.request(text, m, r.path, r.body)
				if r.path == "/v1/events" {
					req = gone(req)
				}
				d := newDesk(t, setup{options: o})
				if got := d.serve(d, req); got.status == 401 || got.status == 404 && slug(got) == "not-found" || slug(got) == "forbidden" || got.status >= 500 {
					t.Errorf("%s %s with the scopes %s: got %d %s, want it let in", m, r.path, text, got.status, got.body)
				}
			}
		}
	}
	slices.Sort(names)
	want := shut.RouteNames()
	slices.Sort(want)
	if got := slices.Compact(names); !slices.Equal(got, want) {
		t.Errorf("the table has the routes %q, want %q", got, want)
	}
	if strings.Contains(shut.log.String(), "panicked") {
		t.Error("a request that was turned away reached a backend")
	}
}

// TestPrefixes: a resource that a key does not cover is refused wherever it is named, before
// anything is done, and in the same words whether there is such a resource or not.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	keys := ring{"limited": {ID: "id", Scopes: apikey.All, Prefixes: []string{"coupon:", "shop."}}, "free": {ID: "id2", Scopes: apikey.All}}
	d := newDesk(t, setup{options: gateway.Options{Keys: keys}})
	shut := newDesk(t, setup{options: gateway.Options{Keys: keys}, issuer: untouched.issuer, store: untouched.store})
	d.want(201, "", d.do("free", "POST", "/v1/resources/order:1/lock", `{"grant":"`+canary+`","label":"hush"}`))
	d.want(204, "", d.do("free", "PUT", "/v1/resources/order:1/records/k", "9", wire.HeaderToken, "1."+canary))
	token := func(resource string) string { return `{"resource":"` + resource + `","token":"1.` + canary + `"}` }
	op := func(resource string) string {
		return `{"kind":"put","resource":"` + resource + `","key":"k","value":""}`
	}
	commit := func(tokens, ops string) string { return `{"tokens":[` + tokens + `],"ops":[` + ops + `]}` }
	type named struct{ method, path, body string }
	places := func(r string) []named {
		var list []named
		for _, a := range apiRoutes {
			if method, path, _ := strings.Cut(a.name, " "); strings.Contains(path, ":resource") {
				list = append(list, named{method, strings.Replace(a.path, "/a/", "/"+r+"/", 1), a.body})
			}
		}
		return append(list,
			named{"POST", "/v1/locks/renew", `{"tokens":[` + token("coupon:1") + `,` + token(r) + `]}`},
			named{"POST", "/v1/commits", commit(token("coupon:1")+","+token(r), op("coupon:1"))},
			named{"POST", "/v1/commits", commit(token("coupon:1"), op("coupon:1")+","+op(r))},
			named{"POST", "/v1/commits", commit("", op(r))},
			named{"POST", "/v1/commits", `{"lock":{"wait":"1s"},"ops":[` + op("coupon:1") + `,` + op(r) + `]}`},
			named{"GET", "/v1/locks?prefix=" + r, ""},
		)
	}
	replies := map[string][]string{}
	for _, r := range []string{"order:1", "order:9", "coupon", "COUPON:1", "xcoupon:1", "shop"} {
		for _, n := range places(r) {
			got := shut.do("limited", n.method, n.path, n.body, wire.HeaderToken, "1."+canary, wire.HeaderKey, "order-7")
			shut.want(403, "forbidden", got)
			var p wire.Problem
			if err := json.Unmarshal([]byte(got.body), &p); err != nil || !strings.HasSuffix(p.Allowed, "coupon: or shop.") || p.Resource != "" && p.Resource != r {
				t.Errorf("%s %s: got %s, want what the key covers", n.method, n.path, got.body)
			}
			again := d.do("limited", n.method, n.path, n.body, wire.HeaderToken, "1."+canary, wire.HeaderKey, "order-7")
			d.want(403, "forbidden", again)
			replies[r] = append(replies[r], strings.ReplaceAll(again.body, r, "NAME"))
		}
	}
	if !slices.Equal(replies["order:1"], replies["order:9"]) {
		t.Errorf("a resource that is there is answered %q, one that is not %q", replies["order:1"], replies["order:9"])
	}
	shut.want(403, "forbidden", shut.do("limited", "GET", "/v1/locks", ""))
	shut.want(403, "forbidden", shut.do("limited", "GET", "/v1/locks?prefix=c&after=coupon:1", ""))
	shut.want(422, "invalid", shut.do("limited", "GET", "/v1/resources/a%2Fb/lock", ""))
	if strings.Contains(shut.log.String(), "panicked") {
		t.Error("a request that was turned away reached a backend")
	}

	for _, r := range []string{"coupon:1", "coupon:", "coupon%3A1", "shop.9"} {
		for _, n := range places(r) {
			if strings.Contains(n.body, "%") {
				continue // only paths are escaped
			}
			if got := d.do("limited", n.method, n.path, n.body); slug(got) == "forbidden" {
				t.Errorf("%s %s %s: got %s, and the key covers it", n.method, n.path, n.body, got.body)
			}
		}
	}
	var list wire.LockList
	if got := d.do("free", "GET", "/v1/locks", ""); json.Unmarshal([]byte(got.body), &list) != nil || len(list.Locks) == 0 {
		t.Errorf("a key without prefixes: got %s, want all locks", got.body)
	}
}

// TestForgedAuthorization: what is not exactly a key is none.
func TestForgedAuthorization(t *testing.T) {
	t.Parallel()
	d := newDesk(t, setup{options: gateway.Options{Keys: ring{"fg_good": {ID: "id", Scopes: apikey.All}}}, issuer: untouched.issuer, store: untouched.store})
	for _, value := range []string{
		"", "Bearer", "Bearer ", "fg_good", "Basic fg_good", "Bearer  fg_good", "Bearer fg_good x", "Bearer\tfg_good", "Bearer FG_GOOD",
		"Bearer fg_goo", "Bearer fg_goodd", "Bearer:fg_good", "Bearer fg_good,fg_good", `Bearer "fg_good"`, "Bearer fg_bad",
	} {
		req := d.request("", "GET", "/v1/resources/a/lock", "")
		if value != "" {
			req.Header.Set("Authorization", value)
		}
		got := d.serve(d, req)
		d.want(401, "unauthorized", got)
		if got.header.Get("WWW-Authenticate") != "Bearer" || strings.Contains(got.body, "good") {
			t.Errorf("%q: got %v %s", value, got.header, got.body)
		}
	}
	d.want(400, "malformed", d.do("fg_good", "GET", "/v1/resources/a/lock", "", "Authorization", "Bearer fg_good"))
	ok := newDesk(t, setup{options: gateway.Options{Keys: ring{"fg_good": {ID: "id", Scopes: apikey.All}}}})
	ok.want(200, "", ok.do("", "GET", "/v1/resources/a/lock", "", "Authorization", "bearer fg_good"))
	ok.want(401, "unauthorized", ok.do("", "GET", "/v1/resources/a/lock?access_token=fg_good", ""))
	none := newDesk(t, setup{})
	none.want(200, "", none.do("whatever", "GET", "/v1/resources/a/lock", ""))
}

// TestAdminApart: with a listener for the operators, the main one has nothing of theirs.
func TestAdminApart(t *testing.T) {
	t.Parallel()
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics")) })
	keys := ring{"root": {ID: "root", Scopes: apikey.All}, "app": {ID: "app", Scopes: apikey.Lock | apikey.Read | apikey.Write}}
	for _, c := range []struct {
		apart      bool
		main, with int // the status of an operator's route on the main handler, of another one on the admin's
	}{{false, 200, 404}, {true, 404, 404}} {
		d := newDesk(t, setup{options: gateway.Options{Keys: keys, Metrics: metrics, AdminApart: c.apart}})
		admin := d.Admin()
		evict := func(h http.Handler, key string) reply {
			return d.serve(h, d.request(key, "POST", "/v1/resources/a/lock/evict", `{"number":"1"}`))
		}
		if got := d.do("root", "GET", "/metrics", ""); got.status != c.main {
			t.Errorf("apart %v: /metrics on the main handler: got %d", c.apart, got.status)
		}
		if got := evict(d, "root"); (slug(got) == "not-found") != c.apart {
			t.Errorf("apart %v: evict on the main handler: got %s", c.apart, got.body)
		}
		if got := d.do("root", "GET", "/readyz?verbose", ""); (got.status == 200) == c.apart {
			t.Errorf("apart %v: /readyz?verbose on the main handler: got %d %s", c.apart, got.status, got.body)
		}
		for path, want := range map[string]int{"/metrics": 200, "/livez": 200, "/readyz?verbose": 200, "/problems/held": 200, "/v1/locks": c.with, "/v1/resources/a/lock": c.with} {
			if got := d.serve(admin, d.request("root", "GET", path, "")); got.status != want {
				t.Errorf("apart %v: %s on the admin handler: got %d, want %d", c.apart, path, got.status, want)
			}
		}
		d.want(422, "invalid", evict(admin, "root"))
		d.want(403, "forbidden", evict(admin, "app"))
		d.want(401, "unauthorized", evict(admin, ""))
		d.want(403, "forbidden", d.serve(admin, d.request("app", "GET", "/readyz?verbose", "")))
	}
}

// TestEveryReply: what all replies carry, also those of addresses that are none.
func TestEveryReply(t *testing.T) {
	t.Parallel()
	d := newDesk(t, setup{})
	for _, path := range []string{"/livez", "/problems", "/v1/locks", "/v1/resources/-/lock", "/none", "/v1/commits", "/readyz?x", "/v1/events"} {
		for _, secure := range []bool{false, true} {
			req := d.request("", "GET", path, "")
			if secure {
				req.TLS = &tls.ConnectionState{}
			}
			h := d.serve(d, req).header
			if h.Get("Content-Security-Policy") != "default-src 'none'; frame-ancestors 'none'" || h.Get("X-Content-Type-Options") != "nosniff" ||
				h.Get("Cache-Control") != "no-store" || (h.Get("Strict-Transport-Security") != "") != secure || h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s, TLS %v: got %v", path, secure, h)
			}
		}
	}
	for _, path := range []string{"/v1/locks?prefix=" + strings.Repeat("x", 4082), "/" + strings.Repeat("x", 4096), "/livez?" + strings.Repeat("%41", 1400)} {
		d.want(414, "uri-too-long", d.do("", "GET", path, ""))
	}
	d.want(404, "not-found", d.do("", "GET", "/"+strings.Repeat("x", 4095), ""))
}

func TestCORS(t *testing.T) {
	t.Parallel()
	const ours = "https://lab.example.org"
	d := newDesk(t, setup{options: gateway.Options{
		Origins: []string{"http://localhost:3000", ours}, Keys: ring{"key": {ID: "id", Scopes: apikey.All}},
	}})
	got := d.do("", "OPTIONS", "/v1/resources/a/lock", "", "Origin", ours, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "fencing-token")
	h := got.header
	if got.status != 204 || h.Get("Access-Control-Allow-Origin") != ours || !strings.Contains(h.Get("Access-Control-Allow-Methods"), "PATCH") ||
		!strings.Contains(h.Get("Access-Control-Allow-Headers"), "Fencing-Token") || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("a preflight: got %d %v", got.status, h)
	}
	got = d.do("key", "GET", "/v1/resources/a/lock", "", "Origin", ours)
	if got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != ours || !strings.Contains(got.header.Get("Access-Control-Expose-Headers"), "Fencing-Mark") {
		t.Errorf("a request: got %d %v", got.status, got.header)
	}
	if got := d.do("", "GET", "/v1/resources/a/lock", "", "Origin", ours); got.status != 401 || got.header.Get("Access-Control-Allow-Origin") != ours {
		t.Errorf("a script must be able to read its problems: got %d %v", got.status, got.header)
	}
	for _, origin := range []string{"https://evil.example.org", "http://lab.example.org", "https://lab.example.org.evil.org", "https://lab.example.org:444", "null", "*", ""} {
		for _, method := range []string{"OPTIONS", "GET"} {
			h := d.do("key", method, "/v1/resources/a/lock", "", "Origin", origin, "Access-Control-Request-Method", "GET").header
			for name := range h {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s from %q: got %s", method, origin, name)
				}
			}
		}
	}
	if h := d.do("key", "GET", "/v1/resources/a/lock", "", "Origin", ours).header; h.Get("Access-Control-Allow-Credentials") != "" || !strings.Contains(strings.Join(h.Values("Vary"), ","), "Origin") {
		t.Errorf("got %v", h)
	}
}
