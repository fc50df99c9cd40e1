package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencegate/fencegate/fencing"
)

// The operations whose attempts are timed, and the event that tells of one that was applied.
var operations = []struct {
	kind  fencing.EventKind
	name  string
	store bool // of the store; else of the lock
}{
	{fencing.EventRaised, "raise", true},
	{fencing.EventApplied, "commit", true},
	{fencing.EventRead, "read", true},
	{fencing.EventRenewed, "renew", false},
	{fencing.EventReleased, "release", false},
	{fencing.EventEvicted, "evict", false},
}

const outcomeReplayed = "replayed" // a commit's; the other outcomes are fencing's

const (
	reasonLeaseLost = "lease-lost" // a renewal came too late
	reasonData      = "data"       // a commit was in the way of the data; fencegate_http_problems_total tells more
)

var reasons = []fencing.Reason{
	fencing.Superseded, fencing.Retired, fencing.Duplicate, fencing.Ungranted, fencing.GrantRequired,
	reasonLeaseLost, reasonData, other,
}

const (
	lostUndelivered = "undelivered" // the client of a grant was gone
	lostRenewal     = "renewal"     // the hold had ended when its holder renewed it
)

// events are the metrics that are drawn from events. All their series are there from the start,
// and no lock is taken to count, except where a hold begins and ends.
type events struct {
	group

	grants, reissues, regressions prometheus.Counter
	waits, held                   prometheus.Observer
	undelivered, late             prometheus.Counter // losses
	refusals                      map[string]prometheus.Counter
	attempts                      map[fencing.EventKind]*attempts
	holds                         holds
}

type attempts struct {
	took     prometheus.Observer
	outcomes map[string]prometheus.Counter
}

func newEvents(lock, store string) *events {
	e := &events{refusals: map[string]prometheus.Counter{}, attempts: map[fencing.EventKind]*attempts{}}
	e.grants = e.counter("fencegate_grants_total", "Locks that were granted.")
	e.waits = e.histogram("fencegate_lock_wait_seconds", "Time from the request for a lock to its grant.", latency())
	e.held = e.histogram("fencegate_lock_held_seconds", "Time from a grant here to its release or eviction here.",
		[]float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600})
	e.reissues = e.counter("fencegate_reissues_total", "Grants whose number a store had overtaken, and that got a higher one.")
	e.regressions = e.counter("fencegate_regressions_total",
		"Numbers that were drawn and not above the store's: the lock store's counter had gone back.")

	losses := e.counters("fencegate_losses_total", "Leases that could no longer be trusted, by how it was found out.", "cause")
	e.undelivered, e.late = losses.WithLabelValues(lostUndelivered), losses.WithLabelValues(lostRenewal)
	refusals := e.counters("fencegate_refusals_total", "Attempts that the fence, the data or the lock refused.", "reason")
	for _, r := range reasons {
		e.refusals[string(r)] = refusals.WithLabelValues(string(r))
	}
	ends := e.counters("fencegate_operations_total", "Attempts at the lock and the store, by how they ended.",
		"backend", "operation", "outcome")
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "fencegate_operation_duration_seconds", Help: "Time that attempts at the lock and the store took, however they ended.",
		Buckets: latency(),
	}, []string{"backend", "operation"})
	e.group = append(e.group, took)
	for _, op := range operations {
		backend := lock
		if op.store {
			backend = store
		}
		a := &attempts{took: took.WithLabelValues(backend, op.name), outcomes: map[string]prometheus.Counter{}}
		outcomes := []string{fencing.Applied.String(), fencing.Refused.String(), fencing.Failed.String(), fencing.Unknown.String()}
		if op.kind == fencing.EventApplied {
			outcomes = append(outcomes, outcomeReplayed)
			e.attempts[fencing.EventReplayed] = a
		}
		for _, o := range outcomes {
			a.outcomes[o] = ends.WithLabelValues(backend, op.name, o)
		}
		e.attempts[op.kind] = a
	}
	return e
}

// OnEvent counts an event: the OnEvent of issuer, store and gateway.
func (m *Metrics) OnEvent(e fencing.Event) {
	v := m.events
	attempt, outcome := e.Kind, fencing.Applied.String()
	switch e.Kind {
	case fencing.EventReplayed:
		outcome = outcomeReplayed
	case fencing.EventRefused, fencing.EventFailed, fencing.EventUnknown:
		attempt, outcome = e.Attempt, string(e.Kind)
	}
	if a := v.attempts[attempt]; a != nil {
		a.took.Observe(e.Elapsed.Seconds())
		a.outcomes[outcome].Inc()
	}
	switch e.Kind {
	case fencing.EventGranted:
		v.grants.Inc()
		v.waits.Observe(e.Elapsed.Seconds())
		v.holds.begin(e)
	case fencing.EventRenewed:
		v.holds.renew(e)
	case fencing.EventReleased, fencing.EventEvicted:
		if d, ok := v.holds.end(e); ok {
			v.held.Observe(d.Seconds())
		}
	case fencing.EventReissued:
		v.reissues.Inc()
	case fencing.EventRegression:
		v.regressions.Inc()
	case fencing.EventLost:
		v.undelivered.Inc()
	case fencing.EventRefused:
		v.refused(e)
	}
}

func (v *events) refused(e fencing.Event) {
	reason := e.Reason
	switch {
	case e.Attempt == fencing.EventRenewed:
		reason = reasonLeaseLost
		v.late.Inc()
	case v.refusals[reason] == nil && (e.Attempt == fencing.EventApplied || e.Attempt == fencing.EventReplayed):
		reason = reasonData
	case v.refusals[reason] == nil:
		reason = other
	}
	v.refusals[reason].Inc()
}

// group is several collectors as one.
type group []prometheus.Collector

// Describe implements prometheus.Collector.
func (c group) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range c {
		one.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (c group) Collect(ch chan<- prometheus.Metric) {
	for _, one := range c {
		one.Collect(ch)
	}
}

func (c *group) counter(name, help string) prometheus.Counter {
	v := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	*c = append(*c, v)
	return v
}

func (c *group) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	*c = append(*c, v)
	return v
}

func (c *group) histogram(name, help string, buckets []float64) prometheus.Observer {
	v := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	*c = append(*c, v)
	return v
}
