package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/migrations"
)

// web is not the default client: a test server that is closed in another test closes connections of that one.
var web = &http.Client{Transport: &http.Transport{}}

// TestMain lets the test binary be the program, for the processes of the load.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	testenv.Main(m)
}

// world is a shop with its payment stub, served over HTTP on one or more desks that share a lock
// and a store.
type world struct {
	stub  *paymentStub
	back  *backends
	desks []string // their URLs
	shops []*shop
}

// wishes change a world.
type wishes struct {
	lock, store string // memory and sqlite, if empty
	desks       int
	inFlight    int
	options     shopOptions
	stub        *paymentStub
	wrap        func(*backends)
	front       func(http.Handler) http.Handler // stands before the API
}

func newWorld(t *testing.T, w wishes) *world {
	t.Helper()
	if w.lock == "" {
		w.lock, w.store = "memory", "sqlite"
	}
	if w.options.ttl == 0 {
		w.options = shopOptions{ttl: 5 * time.Second, maxHold: time.Minute, wait: 20 * time.Second}
	}
	if w.inFlight == 0 {
		w.inFlight = maxInFlight
	}
	if w.stub == nil {
		w.stub = &paymentStub{}
	}
	back, err := flags(t, w.lock, w.store).open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := back.Close(); err != nil {
			t.Error(err)
		}
	})
	if w.wrap != nil {
		w.wrap(back)
	}
	out := &world{stub: w.stub, back: back}
	service := httptest.NewServer(w.stub.handler())
	t.Cleanup(service.Close)
	for range max(1, w.desks) {
		pay := newPayments(service.URL)
		t.Cleanup(pay.close)
		s, err := newShop(back, pay, w.options)
		if err != nil {
			t.Fatal(err)
		}
		h := newAPI(s, slog.New(slog.NewTextHandler(t.Output(), nil)), w.inFlight)
		if w.front != nil {
			h = w.front(h)
		}
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		out.shops = append(out.shops, s)
		out.desks = append(out.desks, srv.URL)
	}
	return out
}

// flags name private servers, where some are needed.
func flags(t *testing.T, lock, store string) backendFlags {
	t.Helper()
	b := backendFlags{lock: lock, store: store, sqlitePath: filepath.Join(t.TempDir(), "coupons.db")}
	if b.uses("redis") {
		b.redisURL = testenv.SharedRedis(t).URL()
	}
	if b.uses("postgres") {
		b.postgresURL = testenv.SharedPostgres(t).NewDatabase(t)
		m, err := migrations.Open(t.Context(), b.postgresURL)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// reply is an answer of the API.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) problem(t *testing.T) problem {
	t.Helper()
	var p problem
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("got %d with the type %q, want a problem: %s", a.status, got, a.body)
	}
	if err := json.Unmarshal(a.body, &p); err != nil || p.Status != a.status {
		t.Fatalf("got the problem %s with status %d: %v", a.body, a.status, err)
	}
	return p
}

// into reads an answer that must have this status.
func into[T any](t *testing.T, a answer, status int) (v T) {
	t.Helper()
	if a.status != status {
		t.Fatalf("got status %d, want %d: %s", a.status, status, a.body)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

// is fails unless the answer is this kind of problem.
func (a answer) is(t *testing.T, k kind) {
	t.Helper()
	if p := a.problem(t); p.Type != "/problems#"+k.slug || p.Status != k.status {
		t.Fatalf("got %s, want %s with status %d", a.body, k.slug, k.status)
	}
}

// request sends a request; headers are name, value and so on.
func request(ctx context.Context, method, url, body string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := web.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, bytes.TrimSpace(data)}, err
}

// desk speaks to one desk of a world, about one coupon.
type desk struct {
	t      *testing.T
	url    string
	coupon string
}

func (d desk) send(method, path, body string, headers ...string) answer {
	d.t.Helper()
	a, err := request(d.t.Context(), method, d.url+path, body, headers...)
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

func (d desk) claim(key string) answer {
	d.t.Helper()
	return d.send(http.MethodPost, "/coupons/"+d.coupon+"/claim", "", "Idempotency-Key", key)
}

func (d desk) claimNow(key string) answer {
	d.t.Helper()
	return d.send(http.MethodPost, "/coupons/"+d.coupon+"/claim-now", "", "Idempotency-Key", key)
}

func (d desk) giveReturn(id string) answer {
	d.t.Helper()
	return d.send(http.MethodPost, "/coupons/"+d.coupon+"/receipts/"+id+"/return", "")
}

func (d desk) stock() stockReply {
	d.t.Helper()
	return into[stockReply](d.t, d.send(http.MethodGet, "/coupons/"+d.coupon, ""), http.StatusOK)
}

func (d desk) receipts() []receipt {
	d.t.Helper()
	return into[[]receipt](d.t, d.send(http.MethodGet, "/coupons/"+d.coupon+"/receipts", ""), http.StatusOK)
}

// audit fails unless the books add up to this, with nothing paid in vain.
func (d desk) audit(left, sold, captured int64) {
	d.t.Helper()
	a := into[audit](d.t, d.send(http.MethodGet, "/coupons/"+d.coupon+"/audit", ""), http.StatusOK)
	if !a.AddsUp || a.Left != left || a.Sold != sold || a.Captured != captured || len(a.WithoutReceipt) > 0 {
		d.t.Errorf("got %+v, want it to add up with %d left, %d sold and %d payments", a, left, sold, captured)
	}
}

// open creates a coupon at the first desk of a world, and returns all of its desks.
func (w *world) open(t *testing.T, stock, buckets int) []desk {
	t.Helper()
	var desks []desk
	id := strings.ReplaceAll(testenv.Unique(t, "c-"), ".", "-")
	for _, url := range w.desks {
		desks = append(desks, desk{t, url, id})
	}
	body := string(encode(coupon{ID: id, Stock: int64(stock), Buckets: buckets, Price: 500}))
	into[coupon](t, desks[0].send(http.MethodPost, "/coupons", body), http.StatusCreated)
	return desks
}

// each runs a test on every pair of lock and store.
func each(t *testing.T, test func(t *testing.T, w wishes)) {
	t.Helper()
	for _, pair := range []wishes{{lock: "memory", store: "sqlite"}, {lock: "redis", store: "redis"}, {lock: "postgres", store: "postgres"}} {
		t.Run(pair.lock+"-"+pair.store, func(t *testing.T) {
			t.Parallel()
			test(t, pair)
		})
	}
}

func emptyDatabase(t *testing.T) string {
	t.Helper()
	return testenv.SharedPostgres(t).NewDatabase(t)
}
