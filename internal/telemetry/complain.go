package telemetry

import (
	"log/slog"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"

	"github.com/fencegate/fencegate/gateway/wire"
)

// complainTo sends what OpenTelemetry has to complain of to log. By itself it writes to standard
// error, with the values that it does not like.
func complainTo(log *slog.Logger) {
	otel.SetLogger(logr.New(sink{log}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("trouble with telemetry", "error", wire.Redact(err.Error()))
	}))
}

// sink takes warnings and errors, without the values that come with them.
type sink struct{ log *slog.Logger }

// Init implements logr.LogSink.
func (sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink. OpenTelemetry's warnings have level 1, all else is above it.
func (sink) Enabled(level int) bool { return level <= 1 }

// Info implements logr.LogSink.
func (s sink) Info(_ int, what string, _ ...any) {
	s.log.Warn("trouble with telemetry", "what", wire.Redact(what))
}

// Error implements logr.LogSink.
func (s sink) Error(err error, what string, _ ...any) {
	text := ""
	if err != nil {
		text = wire.Redact(err.Error())
	}
	s.log.Warn("trouble with telemetry", "what", wire.Redact(what), "error", text)
}

// WithValues implements logr.LogSink.
func (s sink) WithValues(...any) logr.LogSink { return s }

// WithName implements logr.LogSink.
func (s sink) WithName(string) logr.LogSink { return s }
