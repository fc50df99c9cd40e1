package telemetry

import (
	"context"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// StartWith is Start with an exporter and a reader of the test's own.
func StartWith(ctx context.Context, spans sdktrace.SpanExporter, reader sdkmetric.Reader) (*Telemetry, error) {
	p, err := propagators("")
	if err != nil {
		return nil, err
	}
	return start(ctx, "v1.2.3", spans, reader, p)
}

// Flush sends the spans that have ended.
func (t *Telemetry) Flush(ctx context.Context) error { return t.traces.ForceFlush(ctx) }
