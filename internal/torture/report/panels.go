package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// faults draws a row for each kind, with a band for each time that it was made.
func (c *chart) faults(a axis, faults []history.Fault, y float64) float64 {
	if len(faults) == 0 {
		return y
	}
	c.Parts = append(c.Parts, part{Title: "Faults", Note: "light: being made and healed · full: in force · line and dot: until everybody was served again · hollow: never", Y: px(y - 10), NoteX: px(gutter)})
	rows := map[string]int{}
	for _, f := range faults {
		i, ok := rows[f.Name]
		if !ok {
			i = len(c.Rows)
			rows[f.Name] = i
			top := y + float64(i)*rowHeight
			c.Rows = append(c.Rows, row{Name: clipped(f.Name, 25), Y: px(top), TextY: px(top + rowHeight/2 + 3.5)})
		}
		r := &c.Rows[i]
		if f.Void != "" {
			r.Note = "void: " + clipped(f.Void, 120)
			continue
		}
		top := y + float64(i)*rowHeight + 3.5
		high := rowHeight - 7
		title := faultTitle(f, a.began)
		from, injected, heal, to := a.x(f.From), a.x(f.Injected), a.x(f.Heal), a.x(f.To)
		r.Boxes = append(r.Boxes,
			box{X: px(from), Y: px(top), W: px(max(to-from, 2)), H: px(high), Class: "making", Title: title},
			box{X: px(injected), Y: px(top), W: px(max(heal-injected, 2)), H: px(high), Class: "force", Title: title})
		middle := top + high/2
		if f.Recovered > 0 {
			end := max(a.x(f.Recovered), to+1)
			r.Boxes = append(r.Boxes, box{X: px(to), Y: px(middle - 0.75), W: px(end - to), H: "1.5", Class: "recovering", Title: title})
			r.Marks = append(r.Marks, mark{X: px(end), Y: px(middle), Class: "recovered", Title: title})
		} else {
			r.Marks = append(r.Marks, mark{X: px(to + 5), Y: px(middle), Class: "never", Title: title})
		}
		c.Shades = append(c.Shades, box{X: px(injected), W: px(max(heal-injected, 1))})
	}
	return y + float64(len(c.Rows))*rowHeight + space
}

// throughput draws what was answered a second, stacked.
func (c *chart) throughput(a axis, list []bucket, width time.Duration, y float64) float64 {
	most := 0.0
	rate := func(n int) float64 { return float64(n) / width.Seconds() }
	for _, b := range list {
		most = max(most, rate(b.Total()))
	}
	top, step := niceScale(most)
	c.ThroughputKey = legend(y, [2]string{"applied", "applied"}, [2]string{"refused", "refused"}, [2]string{"other", "failed or unknown"})
	c.Throughput = part{Title: "Answers a second", Y: px(y - 10), NoteX: px(gutter)}
	for v := 0.0; v <= top+step/2; v += step {
		at := y + panel*(1-v/top)
		c.Levels = append(c.Levels, level{px(at), px(at + 3.5), count(int(v))})
	}
	gap := 0.6
	for _, b := range list {
		left := a.x(a.began + int64(b.From))
		right := a.x(min(a.began+int64(b.From+width), a.ended))
		bottom := y + panel
		title := fmt.Sprintf("from %s: %s applied, %s refused, %s failed or unknown", seconds(b.From), count(b.Applied), count(b.Refused), count(b.Other))
		for _, s := range []struct {
			n     int
			class string
		}{{b.Applied, "applied"}, {b.Refused, "refused"}, {b.Other, "other"}} {
			if s.n == 0 {
				continue
			}
			high := panel * rate(s.n) / top
			bottom -= high
			c.Bars = append(c.Bars, box{X: px(left), Y: px(bottom), W: px(max(right-left-gap, 0.8)), H: trimmed(high, 2), Class: s.class, Title: title})
		}
	}
	return y + panel + space
}

// latency draws how long the store took to answer, on a logarithmic axis.
func (c *chart) latency(a axis, list []bucket, width time.Duration, y float64) float64 {
	least, most := math.Inf(1), 0.0
	for _, b := range list {
		if b.Calls > 0 {
			least, most = min(least, b.P50.Seconds()), max(most, b.P99.Seconds())
		}
	}
	c.Latency = part{Title: "Time to an answer", Y: px(y - 10), NoteX: px(gutter)}
	c.LatencyKey = legend(y, [2]string{"swatch50", "median"}, [2]string{"swatch99", "99th percentile, of reads and commits"})
	if most == 0 {
		least, most = 0.001, 0.01
	}
	low, high := math.Floor(math.Log10(max(least, 1e-6))), math.Ceil(math.Log10(max(most, 1e-6)))
	if high <= low {
		high = low + 1
	}
	at := func(d float64) float64 { return y + panel*(1-(math.Log10(max(d, 1e-6))-low)/(high-low)) }
	for e := low; e <= high; e++ {
		v := math.Pow(10, e)
		c.Levels = append(c.Levels, level{px(at(v)), px(at(v) + 3.5), span(time.Duration(math.Round(v * 1e9)))})
	}
	for _, q := range []struct {
		class string
		of    func(bucket) time.Duration
	}{{"p99", func(b bucket) time.Duration { return b.P99 }}, {"p50", func(b bucket) time.Duration { return b.P50 }}} {
		var points []string
		flush := func() {
			if len(points) > 0 {
				c.Lines = append(c.Lines, line{strings.Join(points, " "), q.class})
			}
			points = nil
		}
		for _, b := range list {
			if b.Calls == 0 { // nothing was answered: the line has a gap
				flush()
				continue
			}
			level := px(at(q.of(b).Seconds()))
			points = append(points,
				px(a.x(a.began+int64(b.From)))+","+level,
				px(a.x(min(a.began+int64(b.From+width), a.ended)))+","+level)
		}
		flush()
	}
	return y + panel + space
}

// strips draws for each client process when it made calls, was stopped, was killed.
func (c *chart) strips(a axis, h *history.History, activity map[int][]int, list []bucket, width time.Duration, y float64) float64 {
	c.Parts = append(c.Parts, part{Title: "Client processes", Note: "darker: more calls · striped: stopped · cross: killed", Y: px(y - 10), NoteX: px(gutter)})
	most := 1
	for _, counts := range activity {
		for _, n := range counts {
			most = max(most, n)
		}
	}
	for i, p := range processes(activity, h.Faults) {
		top := y + float64(i)*rowHeight
		r := row{Name: "process " + strconv.Itoa(p), Y: px(top), TextY: px(top + rowHeight/2 + 3.5)}
		for k, n := range activity[p] {
			if n == 0 {
				continue
			}
			left := a.x(a.began + int64(list[k].From))
			right := a.x(min(a.began+int64(list[k].From+width), a.ended))
			r.Boxes = append(r.Boxes, box{
				X: px(left), Y: px(top + 3), W: px(right - left), H: px(rowHeight - 6), Class: "busy",
				Opacity: trimmed(0.18+0.72*math.Sqrt(float64(n)/float64(most)), 2),
			})
		}
		for _, f := range h.Faults {
			for _, stopped := range f.Paused {
				if stopped == p {
					r.Boxes = append(r.Boxes, box{
						X: px(a.x(f.Injected)), Y: px(top + 3), W: px(max(a.x(f.Heal)-a.x(f.Injected), 2)), H: px(rowHeight - 6), Class: "stopped",
						Title: fmt.Sprintf("process %d was stopped from %s to %s", p, since(f.Injected, a.began), since(f.Heal, a.began)),
					})
				}
			}
			for _, killed := range f.Killed {
				if killed == p {
					x := a.x(f.Injected)
					r.Marks = append(r.Marks, mark{
						X: px(x), Y: px(top + rowHeight/2), Class: "killed",
						Title: fmt.Sprintf("process %d was killed at %s", p, since(f.Injected, a.began)),
					})
				}
			}
		}
		c.Strips = append(c.Strips, r)
	}
	return y + float64(max(len(c.Strips), 1))*rowHeight + 8
}
