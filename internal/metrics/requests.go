package metrics

import (
	"cmp"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/wire"
)

// maxSeries bounds the combinations of route, method and status. The API has about 25 routes; a
// gateway that told of more than this would be wrong, and must not fill the memory.
const maxSeries = 2000

// noRoute is the route of requests that no route has.
const noRoute = "none"

// requests are the metrics that are drawn from requests.
type requests struct {
	group

	total *prometheus.CounterVec
	took  *prometheus.HistogramVec

	problems map[string]prometheus.Counter // fixed after newRequests

	mu     sync.RWMutex // guards series
	series map[requestKey]requestSeries
}

type requestKey struct {
	route, method string
	status        int
}

type requestSeries struct {
	total prometheus.Counter
	took  prometheus.Observer
}

func newRequests() *requests {
	r := &requests{problems: map[string]prometheus.Counter{}, series: map[requestKey]requestSeries{}}
	r.total = r.counters("fencegate_http_requests_total",
		"Requests that were answered; status 499: the client went away before it. route: its path, none: no route has the path.",
		"route", "method", "status")
	r.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "fencegate_http_request_duration_seconds", Help: "Time from a request's head to the end of its reply, with waiting and streaming.",
		Buckets: latency(),
	}, []string{"route", "method"})
	r.group = append(r.group, r.took)
	problems := r.counters("fencegate_http_problems_total", "Requests that were answered with a problem, by its type: see /problems.", "problem")
	for _, p := range wire.Pages() {
		r.problems[p.Slug] = problems.WithLabelValues(p.Slug)
	}
	r.problems[other] = problems.WithLabelValues(other)
	return r
}

// OnRequest counts a request that was answered: gateway.Options.OnRequest.
func (m *Metrics) OnRequest(q gateway.Request) {
	r := m.requests
	s := r.of(requestKey{cmp.Or(q.Route, noRoute), q.Method, q.Status})
	s.total.Inc()
	s.took.Observe(q.Duration.Seconds())
	if q.Problem != "" {
		p := r.problems[q.Problem]
		if p == nil {
			p = r.problems[other]
		}
		p.Inc()
	}
}

func (r *requests) of(k requestKey) requestSeries {
	r.mu.RLock()
	s, ok := r.series[k]
	r.mu.RUnlock()
	if ok {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.series) >= maxSeries {
		k = requestKey{other, other, 0}
	}
	if s, ok = r.series[k]; !ok {
		s = requestSeries{
			total: r.total.WithLabelValues(k.route, k.method, strconv.Itoa(k.status)),
			took:  r.took.WithLabelValues(k.route, k.method),
		}
		r.series[k] = s
	}
	return s
}
