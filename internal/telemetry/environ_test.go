package telemetry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/telemetry"
)

const canary = "CANARY"

// TestWrongValuesAreNotTold refuses what OpenTelemetry would pass over, and does not repeat it.
func TestWrongValuesAreNotTold(t *testing.T) { //nolint:paralleltest // the environment
	for _, c := range []struct{ name, value string }{ //nolint:paralleltest // the environment
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:" + canary + "@localhost:port"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:" + canary + "@%zz"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", canary + ":4318"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "//" + canary},
		{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "ftp://" + canary},
		{"OTEL_EXPORTER_OTLP_HEADERS", "Authorization: Bearer " + canary},
		{"OTEL_EXPORTER_OTLP_HEADERS", "Authorization: Bearer " + canary + "=="},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=b,=" + canary},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=%zz" + canary},
		{"OTEL_EXPORTER_OTLP_METRICS_HEADERS", canary},
		{"OTEL_TRACES_SAMPLER", canary},
		{"OTEL_METRICS_PRODUCERS", "none," + canary},
		{"OTEL_RESOURCE_ATTRIBUTES", canary},
	} {
		t.Run(c.name+" "+c.value, func(t *testing.T) {
			environment(t, c.name, c.value)
			tel, err := telemetry.Start(t.Context(), "v1.2.3", slog.New(slog.DiscardHandler), nil)
			if err == nil {
				_ = tel.Close(t.Context())
				t.Fatal("it is not refused")
			}
			if !strings.Contains(err.Error(), c.name+":") || strings.Contains(err.Error(), canary) {
				t.Errorf("got %v, want the variable's name and not its value", err)
			}
		})
	}
}

func TestWrongRatio(t *testing.T) { //nolint:paralleltest // the environment
	for _, ratio := range []string{"1.5", "-1", "NaN", "half"} {
		environment(t, "OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", ratio)
		if _, err := telemetry.Start(t.Context(), "v1.2.3", slog.New(slog.DiscardHandler), nil); err == nil || !strings.Contains(err.Error(), "OTEL_TRACES_SAMPLER_ARG:") {
			t.Errorf("the ratio %s: %v", ratio, err)
		}
	}
}

// growing is a log that is written and read at the same time.
type growing struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (g *growing) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.Write(p)
}

func (g *growing) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.String()
}

// TestComplaintsGoToTheLog has OpenTelemetry complain of a variable, and of a collector that refuses.
func TestComplaintsGoToTheLog(t *testing.T) { //nolint:paralleltest // the environment
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+canary {
			t.Errorf("the collector got the header %q", got)
		}
		http.Error(w, "no", http.StatusForbidden)
	}))
	t.Cleanup(srv.Close)
	environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT", strings.Replace(srv.URL, "://", "://me:"+canary+"@", 1),
		"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20"+canary, "OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "OTEL_METRICS_EXPORTER", "none",
		"OTEL_TRACES_SAMPLER", "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG", "1")
	var log growing
	tel, err := telemetry.Start(t.Context(), "v1.2.3", slog.New(slog.NewJSONHandler(&log, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, tel.Handler(inMemory(t)), http.MethodGet, "/v1/locks")
	_ = tel.Close(t.Context())
	for _, want := range []string{`"what":"parse duration"`, "403 Forbidden"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, log.String())
		}
	}
	for line := range strings.Lines(log.String()) {
		if !json.Valid([]byte(line)) || strings.Contains(line, canary) {
			t.Errorf("a line of the log is %s", line)
		}
	}
}
