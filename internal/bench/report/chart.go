package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Bars is a chart of horizontal bars on a logarithmic scale: what is compared here often
// differs by a hundred.
type Bars struct {
	File   string // its name, without ".svg"
	Title  string
	Unit   string
	Bars   []Bar // from top to bottom
	Target float64
	Goal   string // what Target is, for the legend; "" for no target
}

// Bar is one of them.
type Bar struct {
	Label string
	Value float64
	Kind  Kind
}

// Kind decides the colour of a bar.
type Kind int

// The kinds of bars.
const (
	Ours Kind = iota
	Peer
	Limit // what a perfect lock could reach
	Unmet
)

var colours = map[Kind]color.RGBA{
	Ours:  {0x2a, 0x78, 0xb8, 0xff},
	Peer:  {0xb4, 0xbc, 0xc4, 0xff},
	Limit: {0x6a, 0xa8, 0x4f, 0xff},
	Unmet: {0xd0, 0x7a, 0x3a, 0xff},
}

// SVG draws the chart.
func (b Bars) SVG() ([]byte, error) {
	p := plot.New()
	p.Title.Text = b.Title
	p.Title.Padding = vg.Points(8)
	p.X.Label.Text = b.Unit
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	low, high := b.span()
	p.X.Min, p.X.Max = low, high

	n := len(b.Bars)
	labels := make([]string, n)
	values := plotter.XYLabels{}
	for i, bar := range b.Bars {
		y := float64(n - 1 - i) // the first is on top
		labels[n-1-i] = bar.Label
		value := max(bar.Value, low)
		shape, err := plotter.NewPolygon(plotter.XYs{{X: low, Y: y - 0.35}, {X: value, Y: y - 0.35}, {X: value, Y: y + 0.35}, {X: low, Y: y + 0.35}})
		if err != nil {
			return nil, err
		}
		shape.Color, shape.Width = colours[bar.Kind], 0
		p.Add(shape)
		values.XYs = append(values.XYs, plotter.XY{X: value, Y: y})
		values.Labels = append(values.Labels, " "+figure(bar.Value))
	}
	texts, err := plotter.NewLabels(values)
	if err != nil {
		return nil, err
	}
	for i := range texts.TextStyle {
		texts.TextStyle[i].YAlign = draw.YCenter
	}
	p.Add(texts)
	p.NominalY(labels...)
	p.Y.Min, p.Y.Max = -0.6, float64(n)-0.4
	if b.Goal != "" {
		line, err := plotter.NewLine(plotter.XYs{{X: b.Target, Y: p.Y.Min}, {X: b.Target, Y: p.Y.Max}})
		if err != nil {
			return nil, err
		}
		line.Color, line.Dashes = color.RGBA{0xc0, 0x39, 0x2b, 0xff}, []vg.Length{vg.Points(4), vg.Points(3)}
		p.Add(line)
		p.Title.Text += fmt.Sprintf("\ndashed: %s", b.Goal)
	}
	p.BackgroundColor = color.White

	canvas := vgsvg.New(8*vg.Inch, vg.Points(float64(90+24*n)))
	p.Draw(draw.Crop(draw.New(canvas), vg.Points(12), -vg.Points(12), vg.Points(6), -vg.Points(6)))
	var svg bytes.Buffer
	_, err = canvas.WriteTo(&svg)
	return svg.Bytes(), err
}

// span returns what the axis shows: whole powers of ten would waste half of it.
func (b Bars) span() (low, high float64) {
	low, high = math.Inf(1), 0
	for _, bar := range b.Bars {
		if bar.Value > 0 {
			low, high = min(low, bar.Value), max(high, bar.Value)
		}
	}
	if b.Goal != "" {
		low, high = min(low, b.Target), max(high, b.Target)
	}
	if high == 0 {
		return 0.1, 10
	}
	return low / 2, high * 2.5
}

// goals shows all results against their goals: 1 is the goal, more is better.
func goals(group string, results []Result) Bars {
	b := Bars{File: group, Title: "Goals of " + group, Unit: "reached / goal (goal / reached where less is better)", Target: 1, Goal: "the goal"}
	for _, r := range results {
		bar := Bar{Label: r.Name, Kind: Ours}
		switch {
		case len(r.Runs) == 0:
		case r.Better == Higher:
			bar.Value = r.Value / r.Target
		case r.Value == 0:
			bar.Value = 10 // nothing of what should be little
		default:
			bar.Value = r.Target / r.Value
		}
		if !r.Met {
			bar.Kind = Unmet
		}
		b.Bars = append(b.Bars, bar)
	}
	return b
}
