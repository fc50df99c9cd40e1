package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/internal/metrics"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

const canary = "CANARYCANARYCANARYCANARYCA"

// desk is a gateway with its metrics, over backends in memory.
type desk struct {
	testing.TB
	*metrics.Metrics
	gateway *gateway.Gateway
	issuer  *locking.LocalIssuer
	store   *storage.Store
}

func newDesk(tb testing.TB) *desk {
	tb.Helper()
	d := &desk{TB: tb, Metrics: metrics.New(&metrics.Options{Lock: "redis", Store: "postgres", Version: "v1.2.3"})}
	var err error
	if d.store, err = storage.New(memstore.New(nil), &storage.Options{OnEvent: d.OnEvent}); err != nil {
		tb.Fatal(err)
	}
	if d.issuer, err = locking.NewIssuer(memlock.New(), []fencing.Fence{d.store}, &locking.IssuerOptions{OnEvent: d.OnEvent}); err != nil {
		tb.Fatal(err)
	}
	d.gateway, err = gateway.New(gateway.Options{
		Issuer: d.issuer, Store: d.store, OnRequest: d.OnRequest, OnEvent: d.OnEvent, Metrics: d.Handler(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	d.Watch(d.gateway.Load)
	return d
}

func (d *desk) ask(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	d.Helper()
	req := httptest.NewRequestWithContext(d.Context(), method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.gateway.ServeHTTP(w, req)
	return w
}

func (d *desk) grant(resource string) fencing.Token {
	d.Helper()
	g, err := d.issuer.Grant(d.Context(), locking.Request{Resource: resource, TTL: time.Minute})
	if err != nil {
		d.Fatal(err)
	}
	return g.Token
}

// scrape is what /metrics says.
func (d *desk) scrape() string {
	d.Helper()
	w := httptest.NewRecorder()
	d.Handler().ServeHTTP(w, httptest.NewRequestWithContext(d.Context(), http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		d.Fatal(w.Code, w.Body)
	}
	return w.Body.String()
}

// expect wants lines of the scrape.
func (d *desk) expect(lines ...string) {
	d.Helper()
	text := d.scrape()
	for _, want := range lines {
		if !strings.Contains(text, "\n"+want+"\n") {
			name, _, _ := strings.Cut(want, "{")
			d.Errorf("there is no line %q; there are:", want)
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, name) && !strings.Contains(line, "_bucket") {
					d.Log(strings.TrimSpace(line))
				}
			}
		}
	}
}

// The names and labels are an interface: dashboards and alerts are made from them.
func TestNamesAndLabels(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.ask(http.MethodGet, "/livez", "")
	const want = `
fencegate_build_info gauge version
fencegate_commit_batch_size histogram
fencegate_event_streams gauge
fencegate_grants_total counter
fencegate_http_problems_total counter problem
fencegate_http_request_duration_seconds histogram method route
fencegate_http_requests_in_flight gauge
fencegate_http_requests_total counter method route status
fencegate_lock_held_seconds histogram
fencegate_lock_wait_seconds histogram
fencegate_lock_waiters gauge
fencegate_losses_total counter cause
fencegate_operation_duration_seconds histogram backend operation
fencegate_operations_total counter backend operation outcome
fencegate_refusals_total counter reason
fencegate_regressions_total counter
fencegate_reissues_total counter
`
	text := d.scrape()
	kinds := map[string]string{}
	labels := map[string]string{}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# TYPE fencegate_"); ok {
			name, kind, _ := strings.Cut(strings.TrimSpace(rest), " ")
			kinds["fencegate_"+name] = kind
		}
	}
	for line := range strings.Lines(text) {
		series, _, _ := strings.Cut(line, " ")
		name, pairs, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, suffix); kinds[base] == "histogram" {
				name = base
			}
		}
		if kinds[name] == "" {
			continue
		}
		var names []string
		for pair := range strings.SplitSeq(pairs, `",`) {
			if label, _, ok := strings.Cut(pair, "="); ok && label != "le" {
				names = append(names, label)
			}
		}
		slices.Sort(names)
		labels[name] = strings.Join(names, " ")
	}
	var got []string
	for name, kind := range kinds {
		got = append(got, strings.TrimSpace(fmt.Sprint(name, " ", kind, " ", labels[name])))
	}
	slices.Sort(got)
	if text := "\n" + strings.Join(got, "\n") + "\n"; text != want {
		t.Errorf("got%s\nwant%s", text, want)
	}
	for _, name := range []string{"go_goroutines ", "process_cpu_seconds_total "} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("there is no %s", name)
		}
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.ask(http.MethodGet, "/livez", "")
	problems, err := promlint.New(strings.NewReader(d.scrape())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "fencegate_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestWhatIsCounted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := t.Context()
	tok := d.grant("coupon:1")
	put := []storage.Op{storage.Put("coupon:1", "k", []byte("v"))}
	commit := func(want bool, c storage.Commit) {
		t.Helper()
		if _, err := d.store.Commit(ctx, c); (err == nil) != want {
			t.Fatal(err)
		}
	}
	commit(true, storage.Commit{Tokens: []fencing.Token{tok}, Ops: put, Key: "once"})
	commit(true, storage.Commit{Tokens: []fencing.Token{tok}, Ops: put, Key: "once"})
	commit(false, storage.Commit{Tokens: []fencing.Token{tok}, Ops: append(put, storage.Put("coupon:1", "l", nil)), Key: "once"})
	commit(false, storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add("coupon:1", "stock", -1, 0)}})
	forged := tok
	forged.Grant = fencing.NewGrant()
	commit(false, storage.Commit{Tokens: []fencing.Token{forged}, Ops: put})
	if _, err := d.store.GetFenced(ctx, tok, "k"); err != nil {
		t.Fatal(err)
	}
	for _, err := range d.issuer.Renew(ctx, time.Minute, []fencing.Token{tok, forged}) {
		if err != nil && !errors.Is(err, locking.ErrLost) {
			t.Fatal(err)
		}
	}
	if _, err := d.issuer.Release(ctx, tok); err != nil {
		t.Fatal(err)
	}
	commit(false, storage.Commit{Tokens: []fencing.Token{tok}, Ops: put})
	two := d.grant("coupon:1")
	commit(false, storage.Commit{Tokens: []fencing.Token{tok}, Ops: put})
	if err := d.issuer.Evict(ctx, "coupon:1", two.Number, "test"); err != nil {
		t.Fatal(err)
	}
	d.OnBatch(3)
	d.expect(
		`fencegate_build_info{version="v1.2.3"} 1`,
		`fencegate_grants_total 2`, `fencegate_lock_wait_seconds_count 2`, `fencegate_lock_held_seconds_count 2`,
		`fencegate_operations_total{backend="postgres",operation="raise",outcome="applied"} 2`,
		`fencegate_operations_total{backend="postgres",operation="commit",outcome="applied"} 1`,
		`fencegate_operations_total{backend="postgres",operation="commit",outcome="replayed"} 1`,
		`fencegate_operations_total{backend="postgres",operation="commit",outcome="refused"} 5`,
		`fencegate_operations_total{backend="postgres",operation="read",outcome="applied"} 1`,
		`fencegate_operations_total{backend="redis",operation="renew",outcome="applied"} 1`,
		`fencegate_operations_total{backend="redis",operation="renew",outcome="refused"} 1`,
		`fencegate_operations_total{backend="redis",operation="release",outcome="applied"} 1`,
		`fencegate_operations_total{backend="redis",operation="evict",outcome="applied"} 1`,
		`fencegate_operation_duration_seconds_count{backend="postgres",operation="commit"} 7`,
		`fencegate_refusals_total{reason="data"} 2`, `fencegate_refusals_total{reason="duplicate"} 1`,
		`fencegate_refusals_total{reason="retired"} 1`, `fencegate_refusals_total{reason="superseded"} 1`,
		`fencegate_refusals_total{reason="lease-lost"} 1`, `fencegate_losses_total{cause="renewal"} 1`,
		`fencegate_commit_batch_size_bucket{le="2"} 0`, `fencegate_commit_batch_size_bucket{le="4"} 1`,
	)

	now := time.Now()
	d.OnEvent(fencing.Event{Time: now, Kind: fencing.EventReissued, Resource: "r"})
	d.OnEvent(fencing.Event{Time: now, Kind: fencing.EventRegression, Resource: "r"})
	d.OnEvent(fencing.Event{Time: now, Kind: fencing.EventLost, Resource: "r"})
	d.OnEvent(fencing.Event{Time: now, Kind: fencing.EventUnknown, Attempt: fencing.EventApplied, Resource: "r"})
	d.OnEvent(fencing.Event{Time: now, Kind: fencing.EventFailed, Attempt: fencing.EventRaised, Resource: "r"})
	d.expect(
		`fencegate_reissues_total 1`, `fencegate_regressions_total 1`, `fencegate_losses_total{cause="undelivered"} 1`,
		`fencegate_operations_total{backend="postgres",operation="commit",outcome="unknown"} 1`,
		`fencegate_operations_total{backend="postgres",operation="raise",outcome="failed"} 1`,
	)
}

func TestTimeHeld(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	start := time.Unix(1_800_000_000, 0)
	tell := func(after time.Duration, kind fencing.EventKind, number int64) {
		d.OnEvent(fencing.Event{Time: start.Add(after), Kind: kind, Resource: "r", Number: number})
	}
	count := func(n int, sum string) {
		t.Helper()
		d.expect(fmt.Sprint("fencegate_lock_held_seconds_count ", n), "fencegate_lock_held_seconds_sum "+sum)
	}
	tell(0, fencing.EventGranted, 1)
	tell(time.Second, fencing.EventGranted, 1) // a repeat: the same hold
	tell(2*time.Second, fencing.EventRenewed, 1)
	tell(3*time.Second, fencing.EventReleased, 1)
	count(1, "3")
	tell(4*time.Second, fencing.EventReleased, 1) // it has ended already
	tell(5*time.Second, fencing.EventReleased, 9) // granted elsewhere
	count(1, "3")
	tell(10*time.Second, fencing.EventGranted, 10) // expires
	tell(20*time.Second, fencing.EventGranted, 11)
	tell(21*time.Second, fencing.EventReleased, 10) // too late, and not 11's
	count(1, "3")
	tell(22*time.Second, fencing.EventEvicted, 10) // not 11's
	tell(24*time.Second, fencing.EventEvicted, 12) // 11, too
	count(2, "7")
}

func TestHeldTimesAreBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	start := time.Unix(1_800_000_000, 0)
	tell := func(after time.Duration, kind fencing.EventKind, i int) {
		d.OnEvent(fencing.Event{Time: start.Add(after), Kind: kind, Resource: fmt.Sprint("r", i), Number: 1})
	}
	for i := range 100_001 { // the last one is not followed
		tell(0, fencing.EventGranted, i)
	}
	tell(time.Second, fencing.EventReleased, 100_000)
	d.expect("fencegate_lock_held_seconds_count 0")
	tell(59*time.Minute, fencing.EventRenewed, 0)
	tell(2*time.Hour-time.Minute, fencing.EventGranted, 200_000) // the others have expired
	tell(2*time.Hour, fencing.EventReleased, 200_000)
	tell(2*time.Hour, fencing.EventReleased, 1) // forgotten
	tell(2*time.Hour, fencing.EventReleased, 0) // renewed an hour ago, so perhaps held still
	d.expect("fencegate_lock_held_seconds_count 2", "fencegate_lock_held_seconds_sum 7260")
}

// Whatever strangers send, and whatever texts backends make: the number of series stays.
func TestAFloodAddsNoSeries(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tok := d.grant("coupon:1")
	flood := func(i int) {
		name := fmt.Sprint("r", i)
		for _, kind := range []fencing.EventKind{
			fencing.EventGranted, fencing.EventReissued, fencing.EventRegression, fencing.EventRaised, fencing.EventRenewed, fencing.EventReleased,
			fencing.EventEvicted, fencing.EventLost, fencing.EventApplied, fencing.EventReplayed, fencing.EventRead, fencing.EventRefused,
			fencing.EventFailed, fencing.EventUnknown, fencing.EventKind(name),
		} {
			for _, attempt := range []fencing.EventKind{"", fencing.EventApplied, fencing.EventRenewed, fencing.EventRaised, fencing.EventKind(name)} {
				d.OnEvent(fencing.Event{
					Time: time.Now(), Kind: kind, Attempt: attempt, Resource: name, Label: name, Reason: "because of " + name, Number: int64(i), Elapsed: -1,
				})
			}
		}
		d.ask(http.MethodGet, "/"+name, "")
		d.ask(http.MethodGet, "/v1/resources/"+name+"/fence?x="+name, "")
		d.ask(http.MethodGet, "/v1/resources/"+name+"/fence", "")
		d.ask(http.MethodPut, "/v1/resources/"+name+"/records/"+name, "v", "Fencing-Token", fmt.Sprintf("%d.%s", i+1, canary))
		d.ask(http.MethodPut, "/v1/resources/coupon:1/records/"+name, "v", "Fencing-Token", tok.Text())
		d.ask(http.MethodPut, "/v1/locks", "")
		d.ask("M"+name, "/v1/locks", "")
		d.ask("M"+name, "/"+name, "")
		d.ask(http.MethodOptions, "/v1/resources/"+name+"/fence", "")
		d.ask(http.MethodGet, "/livez", "", "X-Request-Id", name, "Host", name)
	}
	series := func() int { return strings.Count(d.scrape(), "\nfencegate_") }
	flood(0)
	before := series()
	for i := range 300 {
		flood(i + 1)
	}
	if after := series(); after != before {
		t.Errorf("the flood made %d series of %d", after, before)
	}
	if before > 1000 {
		t.Errorf("there are %d series", before)
	}
	if text := d.scrape(); strings.Contains(text, "r300") || strings.Contains(text, "coupon:1") || strings.Contains(text, canary) {
		t.Error("a name is in the metrics")
	}
	d.expect(`fencegate_refusals_total{reason="grant-required"} 0`)

	// Should a gateway ever tell of routes without end, the rest is one series.
	for i := range 5000 {
		d.OnRequest(gateway.Request{Method: fmt.Sprint(i), Route: fmt.Sprint(i), Status: i, Problem: fmt.Sprint(i)})
	}
	if after := series(); after > before+2100*19 {
		t.Errorf("wrong routes made %d series of %d", after, before)
	}
	d.expect(`fencegate_http_problems_total{problem="other"} 5000`)
}

func TestGauges(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.grant("coupon:1")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/resources/coupon:1/lock", strings.NewReader(`{"wait":"60s"}`))
		req.Header.Set("Content-Type", "application/json")
		d.gateway.ServeHTTP(httptest.NewRecorder(), req)
	}()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(d.scrape(), "\nfencegate_lock_waiters 1\n"); {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
	d.expect("fencegate_http_requests_in_flight 0", "fencegate_event_streams 0")
	cancel()
	<-ended
	d.expect("fencegate_lock_waiters 0",
		`fencegate_http_requests_total{method="POST",route="/v1/resources/:resource/lock",status="499"} 1`)
}

func BenchmarkOnEvent(b *testing.B) {
	m := metrics.New(nil)
	e := fencing.Event{Time: time.Now(), Kind: fencing.EventApplied, Resource: "coupon:42", Number: 7, Elapsed: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		m.OnEvent(e)
	}
}

func BenchmarkOnRequest(b *testing.B) {
	m := metrics.New(nil)
	r := gateway.Request{Method: "PUT", Route: "/v1/resources/:resource/records/:key", Status: 204, Duration: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		m.OnRequest(r)
	}
}
