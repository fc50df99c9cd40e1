// Package telemetry sends traces and metrics by OpenTelemetry, as the standard environment
// variables say: OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME and so on.
//
// # Guarantees
//
//   - Where the environment has no OTEL_ variable, or OTEL_SDK_DISABLED is true, nothing is sent,
//     started or wrapped.
//   - No secret is sent: no header, no body, no query of a request, no parameter of a statement,
//     no argument of a Redis command. What could be a grant id is hidden wherever it turns up.
//   - Names of spans and labels of metrics do not hang on what clients send: a request's is its
//     route.
//   - Of OpenTelemetry's global state only the logger and the error handler are set, once there is
//     something to send: what it complains of goes to the program's log, without secrets.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/fencegate/fencegate/gateway/wire"
)

// Telemetry is what was started. The zero value does nothing.
type Telemetry struct {
	on          bool
	traces      *sdktrace.TracerProvider
	metrics     *sdkmetric.MeterProvider
	propagation propagation.TextMapPropagator
}

// Start reads the environment. version is the program's; log is told of what goes wrong later;
// counted is what the program counts by other means (nil: nothing), and is sent beside what
// [Telemetry.Handler] and the others measure, unless OTEL_METRICS_PRODUCERS says otherwise. The error says which variable is wrong, and does not repeat its value where that may
// be a secret.
func Start(ctx context.Context, version string, log *slog.Logger, counted sdkmetric.Producer) (*Telemetry, error) {
	if !wanted(os.Environ()) {
		return &Telemetry{}, nil
	}
	if err := check(os.Getenv); err != nil {
		return nil, err
	}
	complainTo(log) // before an exporter is made, which complains
	propagators, err := propagators(os.Getenv("OTEL_PROPAGATORS"))
	if err != nil {
		return nil, err
	}
	spans, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return nil, wrong("OTEL_TRACES_EXPORTER, and its OTEL_EXPORTER_ variables", err)
	}
	reader, err := newReader(ctx, counted)
	if err != nil {
		return nil, errors.Join(wrong("OTEL_METRICS_EXPORTER, and its OTEL_EXPORTER_ variables", err), spans.Shutdown(ctx))
	}
	if autoexport.IsNoneSpanExporter(spans) {
		spans = nil
	}
	if autoexport.IsNoneMetricReader(reader) {
		reader = nil
	}
	return start(ctx, version, spans, reader, propagators)
}

// fallback guards what autoexport keeps for the whole program: the producer of the next reader.
var fallback sync.Mutex

// newReader is what the environment names, for what is measured here and for what is counted.
func newReader(ctx context.Context, counted sdkmetric.Producer) (sdkmetric.Reader, error) {
	fallback.Lock()
	defer fallback.Unlock()
	if counted == nil {
		autoexport.WithFallbackMetricProducer(nil)
	} else {
		autoexport.WithFallbackMetricProducer(func(context.Context) (sdkmetric.Producer, error) { return counted, nil })
	}
	return autoexport.NewMetricReader(ctx)
}

func wrong(variables string, err error) error {
	return fmt.Errorf("%s: %s", variables, wire.Redact(err.Error()))
}

// wanted reports whether the environment asks for anything.
func wanted(environ []string) bool {
	asked := false
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if name == "OTEL_SDK_DISABLED" && strings.EqualFold(value, "true") {
			return false
		}
		asked = asked || strings.HasPrefix(name, "OTEL_") && value != ""
	}
	return asked
}

// propagators reads OTEL_PROPAGATORS: how callers say which trace a request belongs to.
func propagators(list string) (propagation.TextMapPropagator, error) {
	if list == "" {
		list = "tracecontext,baggage"
	}
	var out []propagation.TextMapPropagator
	for name := range strings.SplitSeq(list, ",") {
		switch strings.TrimSpace(name) {
		case "tracecontext":
			out = append(out, propagation.TraceContext{})
		case "baggage":
			out = append(out, propagation.Baggage{})
		case "none", "":
		default:
			return nil, errors.New("OTEL_PROPAGATORS: want tracecontext, baggage or none, with commas")
		}
	}
	return propagation.NewCompositeTextMapPropagator(out...), nil
}

// start begins to send to spans and reader. Each may be nil.
func start(ctx context.Context, version string, spans sdktrace.SpanExporter, reader sdkmetric.Reader,
	propagators propagation.TextMapPropagator,
) (*Telemetry, error) {
	if spans == nil && reader == nil {
		return &Telemetry{}, nil
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "fencegate"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv(), // overrides the name
	)
	if err != nil {
		return nil, errors.New("OTEL_RESOURCE_ATTRIBUTES: want name=value, with commas")
	}
	t := &Telemetry{on: true, propagation: propagators}
	tracing := []sdktrace.TracerProviderOption{sdktrace.WithResource(about)}
	if spans != nil {
		tracing = append(tracing, sdktrace.WithBatcher(hiding{spans}))
	} else {
		tracing = append(tracing, sdktrace.WithSampler(sdktrace.NeverSample()))
	}
	t.traces = sdktrace.NewTracerProvider(tracing...)
	metering := []sdkmetric.Option{sdkmetric.WithResource(about), sdkmetric.WithView(requestLabels())}
	if reader != nil {
		metering = append(metering, sdkmetric.WithReader(reader))
	}
	t.metrics = sdkmetric.NewMeterProvider(metering...)
	return t, nil
}

// requestLabels keeps what clients may choose freely, such as a port in the header Host, from being
// a label.
func requestLabels() sdkmetric.View {
	return sdkmetric.NewView(
		sdkmetric.Instrument{Name: "http.server.*"},
		sdkmetric.Stream{AttributeFilter: attribute.NewAllowKeysFilter(
			"http.request.method", "http.route", "http.response.status_code", "url.scheme", "network.protocol.version", "error.type",
		)},
	)
}

// Handler traces and measures the requests to h, which tells their routes by Request.Pattern, as
// gateway.Gateway and http.ServeMux do. Probes are left out.
func (t *Telemetry) Handler(h http.Handler) http.Handler {
	if !t.on {
		return h
	}
	return otelhttp.NewHandler(h, "",
		otelhttp.WithTracerProvider(t.traces), otelhttp.WithMeterProvider(t.metrics), otelhttp.WithPropagators(t.propagation),
		otelhttp.WithSpanNameFormatter(spanName), otelhttp.WithServerName("fencegate"), // not the header Host, which anybody can send
		otelhttp.WithFilter(func(r *http.Request) bool {
			return r.URL.Path != "/livez" && r.URL.Path != "/readyz" && r.URL.Path != "/metrics"
		}),
	)
}

// spanName is the method and the route. It is asked before the route is known, and after.
func spanName(_ string, r *http.Request) string {
	method := "HTTP"
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		method = r.Method
	}
	if r.Pattern == "" {
		return method
	}
	return method + " " + r.Pattern
}

// Postgres traces what the connections of a pool that is yet to be made from cfg will do.
func (t *Telemetry) Postgres(cfg *pgxpool.Config) {
	if !t.on {
		return
	}
	tracer := otelpgx.NewTracer(otelpgx.WithTracerProvider(t.traces), otelpgx.WithMeterProvider(t.metrics))
	if before := cfg.ConnConfig.Tracer; before != nil {
		cfg.ConnConfig.Tracer = multitracer.New(before, tracer)
		return
	}
	cfg.ConnConfig.Tracer = tracer
}

// Redis traces what the client does from now on.
func (t *Telemetry) Redis(client redis.UniversalClient) error {
	if !t.on {
		return nil
	}
	return errors.Join(
		redisotel.InstrumentTracing(client,
			redisotel.WithTracerProvider(t.traces), redisotel.WithDBStatement(false), redisotel.WithCallerEnabled(false)),
		redisotel.InstrumentMetrics(client,
			redisotel.WithMeterProvider(t.metrics), redisotel.WithSemConvCompliantMetrics(true)),
	)
}

// Close sends what is left, and ends. It is bounded by ctx.
func (t *Telemetry) Close(ctx context.Context) error {
	if !t.on {
		return nil
	}
	return errors.Join(t.traces.Shutdown(ctx), t.metrics.Shutdown(ctx))
}
