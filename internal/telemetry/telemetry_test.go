package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	prometheusbridge "go.opentelemetry.io/contrib/bridges/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/internal/telemetry"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// What no span and no metric may have.
const (
	plantedGrant = "CANARYCANARYCANARYCANARYCA"
	plantedKey   = "planted-api-key"
	plantedValue = "planted-value"
	plantedQuery = "planted-query"
	plantedHost  = "planted-host"
)

// environment is exactly these OTEL_ variables.
func environment(t *testing.T, pairs ...string) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		t.Setenv(pairs[i], pairs[i+1])
	}
}

type handler struct{ http.Handler }

func TestNothingIsWrappedWithoutVariables(t *testing.T) { //nolint:paralleltest // the environment
	for name, pairs := range map[string][]string{ //nolint:paralleltest // the environment
		"none":     nil,
		"disabled": {"OTEL_SDK_DISABLED", "TRUE", "OTEL_TRACES_EXPORTER", "nonsense"},
		"two none": {"OTEL_TRACES_EXPORTER", "none", "OTEL_METRICS_EXPORTER", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			environment(t, pairs...)
			tel, err := telemetry.Start(t.Context(), "v1.2.3", slog.New(slog.DiscardHandler), nil)
			if err != nil {
				t.Fatal(err)
			}
			h := &handler{}
			if got := tel.Handler(h); got != http.Handler(h) {
				t.Errorf("the handler is wrapped: %T", got)
			}
			cfg, err := pgxpool.ParseConfig("postgres://localhost/x")
			if err != nil {
				t.Fatal(err)
			}
			if tel.Postgres(cfg); cfg.ConnConfig.Tracer != nil {
				t.Error("the pool has a tracer")
			}
			if err := tel.Redis(nil); err != nil { // a nil client cannot be touched
				t.Error(err)
			}
			if err := tel.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWrongVariables(t *testing.T) { //nolint:paralleltest // the environment
	for name, value := range map[string]string{ //nolint:paralleltest // the environment
		"OTEL_TRACES_EXPORTER": "nonsense", "OTEL_METRICS_EXPORTER": "nonsense", "OTEL_EXPORTER_OTLP_PROTOCOL": "smoke", "OTEL_PROPAGATORS": "b3",
	} {
		t.Run(name, func(t *testing.T) {
			environment(t, name, value)
			_, err := telemetry.Start(t.Context(), "v1.2.3", slog.New(slog.DiscardHandler), nil)
			if err == nil || !strings.Contains(err.Error(), name) && name != "OTEL_EXPORTER_OTLP_PROTOCOL" || !strings.Contains(err.Error(), "OTEL_") {
				t.Errorf("got %v, want an error that names the variable", err)
			}
		})
	}
}

// collector is what spans and metrics are sent to by OTLP.
type collector struct {
	mu   sync.Mutex // guards sent
	sent map[string][]byte
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[r.URL.Path] = append(c.sent[r.URL.Path], data...)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func TestCloseSendsWhatIsLeft(t *testing.T) { //nolint:paralleltest // the environment
	c := &collector{sent: map[string][]byte{}}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL, "OTEL_SERVICE_NAME", "shop-gateway", "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging")
	tel, err := telemetry.Start(t.Context(), "v1.2.3", slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, tel.Handler(inMemory(t)), http.MethodGet, "/v1/resources/coupon:42/fence?x="+plantedQuery)
	if err := tel.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, wants := range map[string][]string{
		"/v1/traces":  {"GET /v1/resources/:resource/fence", "shop-gateway", "v1.2.3", "staging"},
		"/v1/metrics": {"http.server.request.duration", "/v1/resources/:resource/fence", "shop-gateway"},
	} {
		for _, want := range wants {
			if !bytes.Contains(c.sent[path], []byte(want)) {
				t.Errorf("%s got no %q", path, want)
			}
		}
		if bytes.Contains(c.sent[path], []byte(plantedQuery)) {
			t.Errorf("%s got the query", path)
		}
	}
}

// TestCountedIsSent has what is counted for Prometheus sent by OTLP, by its names and labels.
func TestCountedIsSent(t *testing.T) { //nolint:paralleltest // the environment
	counted := prometheus.NewRegistry()
	grants := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shop_grants_total", Help: "Grants, in all."}, []string{"backend"})
	waits := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "shop_wait_seconds", Help: "Time waited."})
	counted.MustRegister(grants, waits)
	bridge := prometheusbridge.NewMetricProducer(prometheusbridge.WithGatherer(counted))
	for name, c := range map[string]struct { //nolint:paralleltest // the environment
		counted sdkmetric.Producer
		pairs   []string
		sent    bool
	}{
		"sent":     {bridge, nil, true},
		"unwanted": {bridge, []string{"OTEL_METRICS_PRODUCERS", "none"}, false},
		"nothing":  {nil, nil, false}, // after others in this process
	} {
		t.Run(name, func(t *testing.T) {
			to := &collector{sent: map[string][]byte{}}
			srv := httptest.NewServer(to)
			t.Cleanup(srv.Close)
			environment(t, append(c.pairs, "OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)...)
			tel, err := telemetry.Start(t.Context(), "v1.2.3", slog.New(slog.DiscardHandler), c.counted)
			if err != nil {
				t.Fatal(err)
			}
			grants.WithLabelValues("memory").Inc() // after the start: it is asked when it is sent
			waits.Observe(1)
			serve(t, tel.Handler(inMemory(t)), http.MethodGet, "/v1/locks")
			if err := tel.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := to.sent["/v1/metrics"]
			for _, want := range []string{"shop_grants_total", "Grants, in all.", "backend", "memory", "shop_wait_seconds"} {
				if bytes.Contains(got, []byte(want)) != c.sent {
					t.Errorf("that %q was sent is not %v", want, c.sent)
				}
			}
			if !bytes.Contains(got, []byte("http.server.request.duration")) {
				t.Error("what is measured of requests was not sent")
			}
		})
	}
}

func inMemory(tb testing.TB) *gateway.Gateway {
	tb.Helper()
	return newGateway(tb, memlock.New(), memstore.New(nil), gateway.Options{})
}

func newGateway(tb testing.TB, lock locking.Backend, store storage.Backend, o gateway.Options) *gateway.Gateway {
	tb.Helper()
	s, err := storage.New(store, nil)
	if err != nil {
		tb.Fatal(err)
	}
	i, err := locking.NewIssuer(lock, []fencing.Fence{s}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	o.Issuer, o.Store = i, s
	g, err := gateway.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func serve(tb testing.TB, h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	req := httptest.NewRequestWithContext(tb.Context(), method, path, strings.NewReader(plantedValue))
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

type recorded struct {
	*telemetry.Telemetry
	spans  *tracetest.InMemoryExporter
	reader *sdkmetric.ManualReader
}

func record(tb testing.TB) *recorded {
	tb.Helper()
	r := &recorded{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	var err error
	if r.Telemetry, err = telemetry.StartWith(tb.Context(), r.spans, r.reader); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return r
}

// ended returns the spans that have ended.
func (r *recorded) ended(tb testing.TB) tracetest.SpanStubs {
	tb.Helper()
	if err := r.Flush(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return r.spans.GetSpans()
}

// measured is all that the metrics say.
func (r *recorded) measured(tb testing.TB) string {
	tb.Helper()
	var m metricdata.ResourceMetrics
	if err := r.reader.Collect(tb.Context(), &m); err != nil {
		tb.Fatal(err)
	}
	data, err := json.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

func TestSpansOfRequests(t *testing.T) {
	t.Parallel()
	r := record(t)
	h := r.Handler(inMemory(t))
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	serve(t, h, http.MethodGet, "/v1/resources/coupon:42/fence", "Traceparent", parent, "Host", plantedHost+":1")
	serve(t, h, http.MethodGet, "/v1/resources/coupon:43/fence", "X-Forwarded-For", "192.0.2.7", "Host", plantedHost+":2")
	serve(t, h, http.MethodGet, "/"+plantedGrant)
	serve(t, h, plantedGrant, "/livez/"+plantedGrant)
	for _, probe := range []string{"/livez", "/readyz", "/metrics"} {
		serve(t, h, http.MethodGet, probe)
	}
	spans := r.ended(t)
	var names []string
	for _, s := range spans {
		names = append(names, s.Name)
		if s.SpanKind != trace.SpanKindServer {
			t.Errorf("%s is of the kind %v", s.Name, s.SpanKind)
		}
	}
	const route = "GET /v1/resources/:resource/fence"
	if got, want := fmt.Sprint(names), fmt.Sprint([]string{route, route, "GET", "HTTP"}); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	if got := spans[0].Parent.TraceID().String(); got != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("the caller's trace is not continued: %s", got)
	}
	if text := dump(t, spans); strings.Contains(text, plantedGrant) || strings.Contains(text, "192.0.2.7") {
		t.Errorf("the spans repeat what anybody can send:\n%s", text)
	}
	got := r.measured(t)
	if !strings.Contains(got, "/v1/resources/:resource/fence") || strings.Contains(got, plantedHost) || strings.Contains(got, plantedGrant) {
		t.Errorf("the metrics are\n%s", got)
	}
	if n := strings.Count(got, `"http.route"`); n != strings.Count(got, "/v1/resources/:resource/fence") {
		t.Errorf("two hosts and ports made several series:\n%s", got)
	}
}

func dump(tb testing.TB, spans tracetest.SpanStubs) string {
	tb.Helper()
	data, err := json.MarshalIndent(spans, "", " ")
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// Streams and long waits go through the wrapper: it must not take flushes and deadlines away.
func TestStreamsGoThrough(t *testing.T) {
	t.Parallel()
	r := record(t)
	feed, err := gateway.NewFeed(10)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(r.Handler(newGateway(t, memlock.New(), memstore.New(nil), gateway.Options{Feed: feed})))
	srv.Config.WriteTimeout, srv.Config.ReadTimeout = 2*time.Second, 2*time.Second // the request comes sooner, on a busy machine, too
	srv.Start()
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/v1/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	time.Sleep(2500 * time.Millisecond) // longer than the server's timeouts
	feed.Add(fencing.Event{Time: time.Now(), Kind: fencing.EventGranted, Resource: "r", Number: 7})
	buf, got := make([]byte, 4096), ""
	for !strings.Contains(got, `"number":"7"`) {
		n, err := resp.Body.Read(buf)
		if got += string(buf[:n]); err != nil {
			t.Fatalf("the stream has ended: %v after %q", err, got)
		}
	}
	cancel()
}
