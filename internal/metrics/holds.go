package metrics

import (
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

const (
	maxHolds   = 100_000   // how many are followed at once; more are granted, but their time is not told
	forgotten  = time.Hour // a hold that was neither renewed nor ended for the longest TTL has expired
	sweepEvery = time.Minute
)

// holds remembers when the holds began that were granted here, by resource.
type holds struct {
	mu    sync.Mutex // guards the rest
	m     map[string]hold
	swept int64
}

type hold struct{ number, since, seen int64 } // times in Unix nanoseconds

func (h *holds) begin(e fencing.Event) {
	now := e.Time.UnixNano()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.m == nil {
		h.m = map[string]hold{}
	}
	if len(h.m) >= maxHolds && now-h.swept >= int64(sweepEvery) {
		h.swept = now
		for name, one := range h.m {
			if now-one.seen > int64(forgotten) {
				delete(h.m, name)
			}
		}
	}
	one, known := h.m[e.Resource]
	switch {
	case known && one.number == e.Number: // the same grant was asked for again
	case known || len(h.m) < maxHolds:
		h.m[e.Resource] = hold{e.Number, now, now}
	}
}

func (h *holds) renew(e fencing.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one, ok := h.m[e.Resource]; ok && one.number == e.Number {
		one.seen = e.Time.UnixNano()
		h.m[e.Resource] = one
	}
}

// end tells how long a hold lasted, if it began here. An eviction ends older ones, too.
func (h *holds) end(e fencing.Event) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one, ok := h.m[e.Resource]
	if !ok || one.number > e.Number || one.number < e.Number && e.Kind != fencing.EventEvicted {
		return 0, false
	}
	delete(h.m, e.Resource)
	return max(0, time.Duration(e.Time.UnixNano()-one.since)), true
}
