package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/fencegate/fencegate/gateway/wire"
)

// hiding is the last look at spans before they leave the process: attributes, events and errors may
// repeat what a client or a server has sent.
type hiding struct{ sdktrace.SpanExporter }

// ExportSpans implements sdktrace.SpanExporter.
func (h hiding) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	out := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		out[i] = hidden{s}
	}
	return h.SpanExporter.ExportSpans(ctx, out)
}

// hidden is a span without what must not be told.
type hidden struct{ sdktrace.ReadOnlySpan }

// Name implements sdktrace.ReadOnlySpan.
func (h hidden) Name() string { return wire.Redact(h.ReadOnlySpan.Name()) }

// Attributes implements sdktrace.ReadOnlySpan.
func (h hidden) Attributes() []attribute.KeyValue { return hide(h.ReadOnlySpan.Attributes()) }

// Events implements sdktrace.ReadOnlySpan.
func (h hidden) Events() []sdktrace.Event {
	events := h.ReadOnlySpan.Events()
	out := make([]sdktrace.Event, len(events))
	for i, e := range events {
		e.Attributes = hide(e.Attributes)
		out[i] = e
	}
	return out
}

// Status implements sdktrace.ReadOnlySpan.
func (h hidden) Status() sdktrace.Status {
	s := h.ReadOnlySpan.Status()
	s.Description = wire.Redact(s.Description)
	return s
}

func hide(attrs []attribute.KeyValue) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, len(attrs))
	for _, a := range attrs {
		switch {
		case a.Key == "url.query": // clients put into it what they like
		case a.Key == "client.address": // from X-Forwarded-For, which anybody can send; network.peer.address is true
		case a.Value.Type() == attribute.STRING:
			out = append(out, a.Key.String(wire.Redact(a.Value.AsString())))
		case a.Value.Type() == attribute.STRINGSLICE:
			list := a.Value.AsStringSlice()
			for i, s := range list {
				list[i] = wire.Redact(s)
			}
			out = append(out, a.Key.StringSlice(list))
		default:
			out = append(out, a)
		}
	}
	return out
}
