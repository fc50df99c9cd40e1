//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// TestServeLogsJSON writes nothing but JSON to what is no terminal, whoever has something to say;
// and of OpenTelemetry's variables no secret.
func TestServeLogsJSON(t *testing.T) {
	t.Parallel()
	const canary = "CANARY"
	collector := testenv.FreeAddress(t) // where nobody is
	r := startReplicaIn(t, []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://me:" + canary + "@" + collector, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20" + canary,
		"OTEL_EXPORTER_OTLP_TIMEOUT=1s", "OTEL_BSP_SCHEDULE_DELAY=100",
	}, "--drain-delay", "0s", "--log-level", "debug", "--admin-listen", "127.0.0.1:0")
	r.lock("coupon:42", `{}`)
	r.stop()
	for line := range strings.Lines(r.log.String()) {
		if !json.Valid([]byte(line)) || strings.Contains(line, canary) {
			t.Errorf("a line of the log is %s", line)
		}
	}
	for _, want := range []string{`"url":"` + r.url + `"`, `"admin_url":"` + r.adminURL + `"`, "trouble with telemetry"} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log does not say %s", want)
		}
	}
}

// TestServeSendsItsMetrics sends by OTLP what /metrics shows, by the same names.
func TestServeSendsItsMetrics(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards sent
	var sent []byte
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/v1/metrics" {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, data...)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(collector.Close)
	r := startReplicaIn(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL}, "--drain-delay", "0s")
	r.lock("planted:42", `{}`)
	r.stop() // sends what is left
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"fencegate_build_info", "fencegate_grants_total", "fencegate_http_requests_total", "fencegate_lock_waiters", "http.server.request.duration"} {
		if !bytes.Contains(sent, []byte(want)) {
			t.Errorf("the collector got no %s", want)
		}
	}
	if bytes.Contains(sent, []byte("planted")) {
		t.Error("the collector got the name of a resource")
	}
}

// TestServeTelemetryUsage refuses what is wrong with OpenTelemetry's variables, and tells no value.
func TestServeTelemetryUsage(t *testing.T) {
	t.Parallel()
	for variable, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS":  "Authorization: Bearer CANARY",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://me:CANARY@localhost:port",
		"OTEL_TRACES_SAMPLER":         "CANARY",
		"OTEL_METRICS_PRODUCERS":      "CANARY",
	} {
		cmd := command(t, "serve", "--store", "memory", "--listen", "127.0.0.1:0")
		cmd.Env = append(clean(), variable+"="+value)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != exitUsage || !strings.Contains(string(out), variable) || strings.Contains(string(out), "CANARY") {
			t.Errorf("%s: status %d: %s", variable, got, out)
		}
	}
}
