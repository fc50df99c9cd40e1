package report

import (
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// bucket is a short stretch of a run.
type bucket struct {
	From                    time.Duration // since the run began
	Applied, Refused, Other int           // calls answered; Other failed, or their outcome is unknown
	P50, P99                time.Duration // of the store's answers
	Calls                   int           // that P50 and P99 are of
}

// Total is how many calls were answered.
func (b bucket) Total() int { return b.Applied + b.Refused + b.Other }

// mostBuckets keeps a bucket wide enough to be seen.
const mostBuckets = 120

// buckets divides a run into stretches of a round width. activity counts each process's calls in each.
func buckets(h *history.History) (width time.Duration, list []bucket, activity map[int][]int) {
	began, ended := extent(h)
	whole := time.Duration(ended - began)
	width = roundUp(whole/mostBuckets, 20*time.Millisecond)
	list = make([]bucket, int(whole/width)+1)
	for i := range list {
		list[i].From = time.Duration(i) * width
	}
	if last := len(list) - 1; last > 0 && list[last].From == whole {
		list = list[:last]
	}
	latencies := make([][]time.Duration, len(list))
	activity = map[int][]int{}
	for _, o := range h.Ops {
		at := o.Return
		if at == 0 {
			at = o.Call
		}
		i := min(max(int(time.Duration(at-began)/width), 0), len(list)-1)
		b := &list[i]
		switch {
		case o.Return != 0 && o.Outcome == "applied":
			b.Applied++
		case o.Return != 0 && o.Outcome == "refused":
			b.Refused++
		default:
			b.Other++
		}
		if activity[o.Process] == nil {
			activity[o.Process] = make([]int, len(list))
		}
		activity[o.Process][i]++
		if o.Return != 0 && (o.Kind == history.Read || o.Kind == history.Commit) {
			latencies[i] = append(latencies[i], time.Duration(o.Return-o.Call))
		}
	}
	for i, d := range latencies {
		list[i].Calls = len(d)
		list[i].P50, list[i].P99 = quantile(d, 0.50), quantile(d, 0.99)
	}
	return width, list, activity
}

// extent is when a run began and ended; where it does not say, when its first call was made and its last one answered.
func extent(h *history.History) (began, ended int64) {
	began, ended = h.Began, h.Ended
	for _, o := range h.Ops {
		if began == 0 || o.Call < began {
			began = o.Call
		}
		ended = max(ended, o.Return)
	}
	return began, max(ended, began+int64(time.Millisecond))
}

// roundUp returns the next of 1, 2, 5, 10, ... ms that is not below d or least.
func roundUp(d, least time.Duration) time.Duration {
	for unit := time.Millisecond; ; unit *= 10 {
		for _, step := range []time.Duration{unit, 2 * unit, 5 * unit} {
			if step >= d && step >= least {
				return step
			}
		}
	}
}

// processes are the numbers of all that made calls, in order.
func processes(activity map[int][]int, faults []history.Fault) (list []int) {
	for p := range activity {
		list = append(list, p)
	}
	for _, f := range faults {
		list = append(append(list, f.Paused...), f.Killed...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
