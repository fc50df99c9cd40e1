package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// The picture's measures, in pixels.
const (
	chartWidth = 1120.0
	gutter     = 178.0 // to the left: the names of the rows
	marginR    = 20.0
	rowHeight  = 18.0
	panel      = 118.0 // the height of a diagram
	space      = 44.0  // between the parts; their titles stand in it
)

// chart is the picture of a run over time: everything in it has one time axis.
type chart struct {
	Width, Height       string
	Left, Right, NameX  string
	Top, Bottom         string // of the lines that go through all parts
	Parts               []part
	Ticks               []tick
	Shades              []box // while a fault lasts, behind everything
	Rows                []row // faults
	Bars                []box
	Lines               []line
	Levels              []level // of the diagrams' own axes
	Strips              []row   // processes
	AxisY, LabelY       string
	Throughput, Latency part
	ThroughputKey       []key
	LatencyKey          []key
	Desc                string
	Buckets             []bucketRow
	BucketWidth         string
}

type (
	part  struct{ Title, Note, Y, NoteX string }
	tick  struct{ X, Label string }
	box   struct{ X, Y, W, H, Class, Opacity, Title string }
	mark  struct{ X, Y, Y1, Y2, Class, Title string }
	line  struct{ Points, Class string }
	level struct{ Y, TextY, Label string }
	key   struct{ X, Y, TextX, TextY, Class, Label string }
	row   struct {
		Name, Note, Y, TextY string
		Boxes                []box
		Marks                []mark
	}
	bucketRow struct {
		From                    string
		Applied, Refused, Other string
		P50, P99                string
	}
)

// axis maps the time of a run to the picture.
type axis struct{ began, ended int64 }

func (a axis) x(t int64) float64 {
	share := float64(t-a.began) / float64(a.ended-a.began)
	return gutter + (chartWidth-gutter-marginR)*min(max(share, 0), 1)
}

func (a axis) ticks() (list []tick) {
	whole := time.Duration(a.ended - a.began)
	step := niceStep(whole / 10)
	for t := time.Duration(0); t <= whole; t += step {
		list = append(list, tick{px(a.x(a.began + int64(t))), tickLabel(t, step)})
	}
	return list
}

// niceStep is a step of an axis of time that people count in.
func niceStep(d time.Duration) time.Duration {
	for _, s := range []time.Duration{
		10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	} {
		if s >= d {
			return s
		}
	}
	return d.Round(24*time.Hour) + 24*time.Hour
}

func tickLabel(t, step time.Duration) string {
	switch {
	case step < time.Second:
		return trimmed(t.Seconds(), 2) + " s"
	case step < time.Minute && t < 5*time.Minute:
		return strconv.Itoa(int(t/time.Second)) + " s"
	}
	return strings.TrimSuffix(t.String(), "0s")
}

// px is a length in the picture.
func px(f float64) string { return trimmed(f, 1) }

// draw makes the picture of a run.
func draw(h *history.History) *chart {
	began, ended := extent(h)
	a := axis{began, ended}
	width, list, activity := buckets(h)
	c := &chart{
		Width: px(chartWidth), Left: px(gutter), Right: px(chartWidth - marginR), NameX: px(gutter - 10),
		Ticks: a.ticks(), BucketWidth: span(width),
	}
	y := 28.0
	y = c.faults(a, h.Faults, y)
	y = c.throughput(a, list, width, y)
	y = c.latency(a, list, width, y)
	y = c.strips(a, h, activity, list, width, y)
	c.Top, c.Bottom = px(20), px(y)
	for i := range c.Shades {
		c.Shades[i].Y, c.Shades[i].H = c.Top, px(y-20)
	}
	c.AxisY, c.LabelY = px(y), px(y+16)
	c.Height = px(y + 28)
	c.Desc = describe(h, list, width)
	for _, b := range list {
		r := bucketRow{seconds(b.From), count(b.Applied), count(b.Refused), count(b.Other), "-", "-"}
		if b.Calls > 0 {
			r.P50, r.P99 = span(b.P50), span(b.P99)
		}
		c.Buckets = append(c.Buckets, r)
	}
	return c
}

// legend is a line of colours and their meanings over a diagram, from pairs of class and label.
func legend(y float64, pairs ...[2]string) (list []key) {
	x := gutter
	for _, p := range pairs {
		class, label := p[0], p[1]
		list = append(list, key{px(x), px(y - 19), px(x + 14), px(y - 10), class, label})
		x += 14 + 6.2*float64(len(label)) + 18
	}
	return list
}

// niceScale is the end of an axis that has most on it, and the step of its lines.
func niceScale(most float64) (top, step float64) {
	if most <= 0 {
		return 1, 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most/4)))
	for _, s := range []float64{1, 2, 2.5, 5, 10} {
		if step = s * unit; step*5 >= most && step >= 1 {
			break
		}
	}
	step = max(step, 1)
	return math.Ceil(most/step) * step, step
}

// faultTitle is what a band says to who points at it.
func faultTitle(f history.Fault, began int64) string {
	s := fmt.Sprintf("%s: in force from %s to %s", f.Name, since(f.Injected, began), since(f.Heal, began))
	if f.Detail != "" {
		s += " (" + f.Detail + ")"
	}
	if f.Recovered > 0 {
		return s + "; recovered " + span(time.Duration(f.Recovered-f.To)) + " after it was healed"
	}
	return s + "; not recovered"
}

func since(t, began int64) string { return seconds(time.Duration(t - began)) }

// clipped keeps a text in its place.
func clipped(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// describe is the picture in words.
func describe(h *history.History, list []bucket, width time.Duration) string {
	began, ended := extent(h)
	total, best := 0, 0
	for _, b := range list {
		total += b.Total()
		best = max(best, b.Total())
	}
	s := fmt.Sprintf("%s calls in %s, at most %s a second.", count(total), span(time.Duration(ended-began)), count(int(float64(best)/width.Seconds())))
	for i, f := range h.Faults {
		if i == 12 {
			s += fmt.Sprintf(" And %d more faults: see the table.", len(h.Faults)-i)
			break
		}
		if f.Void == "" {
			s += " " + faultTitle(f, began) + "."
		}
	}
	return s
}
