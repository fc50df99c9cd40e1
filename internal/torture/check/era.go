package check

import (
	"cmp"
	"slices"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// window is a time within which something may have been lost: both ends belong to it.
type window struct{ from, to int64 }

// windowsOf returns when faults with one of these losses lasted, in order, those that overlap as
// one. A fault that was not healed lasts for ever.
func windowsOf(faults []history.Fault, losses ...history.Loss) []window {
	var all []window
	for _, f := range faults {
		if f.Void == "" && slices.ContainsFunc(f.Loses, func(l history.Loss) bool { return slices.Contains(losses, l) }) {
			all = append(all, window{f.From, cmp.Or(f.To, never)})
		}
	}
	slices.SortFunc(all, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	var apart []window
	for _, w := range all {
		if n := len(apart); n > 0 && w.from <= apart[n-1].to {
			apart[n-1].to = max(apart[n-1].to, w.to)
			continue
		}
		apart = append(apart, w)
	}
	return apart
}

// touches reports whether one of the windows meets the time from..to.
func touches(windows []window, from, to int64) bool {
	return slices.ContainsFunc(windows, func(w window) bool { return w.from <= to && from <= w.to })
}

// era returns the number of the era, from 0, that a call was made in and answered in.
func (r *run) era(call, ret int64) (int, bool) {
	if touches(r.eras, call, ret) {
		return 0, false
	}
	n := 0
	for n < len(r.eras) && r.eras[n].to < call {
		n++
	}
	return n, true
}

// lastEra reports whether no data was lost after a call.
func (r *run) lastEra(call int64) bool {
	return len(r.eras) == 0 || r.eras[len(r.eras)-1].to < call
}

// span is the time of an era, which begins after one loss and ends before the next.
type span struct {
	window
	first bool // it begins with what was seeded
	last  bool // it ends with what was found in the end
}

// spans returns the eras.
func (r *run) spans() []span {
	var all []span
	from := int64(-never)
	for _, w := range r.eras {
		all = append(all, span{window: window{from, w.from - 1}, first: len(all) == 0})
		if w.to == never {
			return all
		}
		from = w.to + 1
	}
	return append(all, span{window: window{from, never}, first: len(all) == 0, last: true})
}
