// Package metrics counts what a gateway does, for Prometheus: what its issuer and its store tell
// of ([Metrics.OnEvent]), and the requests that it answered ([Metrics.OnRequest]).
//
// # Guarantees
//
//   - The number of time series is bounded, whatever clients send: every label has a fixed set of
//     values. Names of resources, labels of holders, ids of keys and texts of errors are no labels.
//   - What is measured of a lock or a store is labelled with its kind (backend), so that gateways
//     over different ones can be compared.
//
// # What is not guaranteed
//
// One process counts what went through it. A hold that was granted here and ended elsewhere, or
// by its expiry, has no time held. A commit counts once for each resource that it touches.
package metrics

import (
	"cmp"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fencegate/fencegate/gateway"
)

// Options says what is measured. The zero value is the default.
type Options struct {
	Lock    string // the lock's backend: memory, redis, redlock or postgres. Default: other
	Store   string // the store's: memory, sqlite, redis or postgres. Default: other
	Version string // the program's, shown by fencegate_build_info. Default: devel
}

// Metrics has a registry of its own. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	events   *events
	requests *requests
	batches  prometheus.Histogram
}

// New makes the metrics of one gateway.
func New(o *Options) *Metrics {
	if o == nil {
		o = &Options{}
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		events:   newEvents(cmp.Or(o.Lock, other), cmp.Or(o.Store, other)),
		requests: newRequests(),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fencegate_commit_batch_size", Help: "Commits in one transaction of the store; with SQLite also raises and the like.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "fencegate_build_info", Help: "Always 1; version is the program's.",
		ConstLabels: prometheus.Labels{"version": cmp.Or(o.Version, "devel")},
	})
	build.Set(1)
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build, m.events, m.requests, m.batches,
	)
	return m
}

// other stands for every value that is not in a label's set.
const other = "other"

// Handler serves the metrics: gateway.Options.Metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Gatherer is all that is counted, for those who send it by other ways than [Metrics.Handler].
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// OnBatch takes the number of commits that a store applied together: pgstore.Options.OnBatch,
// sqlitestore.Options.OnBatch.
func (m *Metrics) OnBatch(n int) { m.batches.Observe(float64(n)) }

// Watch adds the gauges of what a gateway is doing: gateway.Gateway.Load. It is called once.
func (m *Metrics) Watch(load func() gateway.Load) {
	gauge := func(name, help string, of func(gateway.Load) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(of(load())) })
	}
	m.registry.MustRegister(
		gauge("fencegate_http_requests_in_flight", "Requests in work, those that wait for locks or stream events apart.",
			func(l gateway.Load) int { return l.InFlight }),
		gauge("fencegate_lock_waiters", "Requests that may wait for a lock.", func(l gateway.Load) int { return l.Waiting }),
		gauge("fencegate_event_streams", "Event streams that are served.", func(l gateway.Load) int { return l.Streams }),
	)
}

// latency are the buckets of what usually takes milliseconds and may take as long as a wait, in
// seconds.
func latency() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}
