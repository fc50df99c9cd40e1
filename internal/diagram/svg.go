package diagram

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/fencegate/fencegate/internal/trace"
)

// SVG draws a recorded run on w as a picture that stands alone: lanes for the two clients, the lock
// and the store, time downwards, leases as bands, pauses hatched, and the store's mark as a line that
// steps to the right with every number. Rows are as far apart from each other as they need to be
// read, whatever time lies between them.
func SVG(w io.Writer, run trace.Run, o Picture) error {
	p := &picture{Picture: o, colours: light, events: run.Events}
	if o.Dark {
		p.colours = dark
	}
	p.lay()
	p.open(run)
	p.lanes()
	p.bands()
	p.staircase()
	for _, r := range p.rows {
		p.row(r)
	}
	p.account(run)
	p.put("</svg>\n")
	_, err := io.WriteString(w, p.out.String())
	return err
}

// Picture is how SVG draws.
type Picture struct {
	Dark        bool
	Lock, Store string // what stands below the lanes' names
}

// colours are those of one theme. Text on the background has a contrast of 4.5:1 or more.
type colours struct{ background, ink, faint, line, lease, good, bad, mark string }

var (
	light = colours{"#ffffff", "#1b1f24", "#57606a", "#c4cad1", "#0969da", "#1a7f37", "#cf222e", "#8250df"}
	dark  = colours{"#0d1117", "#e6edf3", "#9198a1", "#3d444d", "#4493f8", "#3fb950", "#f85149", "#ab7df8"}
)

// The measures, in pixels.
const (
	pictureWidth = 960
	headHeight   = 74
	rowHeight    = 30
	footHeight   = 56
	markLeft     = 812 // where the lowest mark stands
	markStep     = 44  // how far each number is to the right of the one before
)

var lanesAt = map[string]int{"A": 120, "B": 330, "lock": 560, "store": 770}

// line is a row of the picture: an event, or one half of it.
type line struct {
	y     int
	at    int64
	event *trace.Event
	reply bool // of an event that was asked for long before it was answered: the answer
}

type picture struct {
	Picture
	colours
	events []trace.Event
	rows   []line
	out    strings.Builder
}

func (p *picture) put(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

func (p *picture) words(x, y int, anchor, colour, attributes, s string) {
	p.put(`<text x="%d" y="%d" text-anchor="%s" fill="%s"%s>%s</text>`+"\n", x, y, anchor, colour, attributes, html.EscapeString(s))
}

// lay puts the events in rows, in the order in which they are seen: a lock is asked for when it is,
// and granted when it is.
func (p *picture) lay() {
	for i := range p.events {
		e := &p.events[i]
		if e.Action == "acquire" {
			p.insert(line{at: e.AtMS, event: e})
			p.insert(line{at: e.DoneMS, event: e, reply: true})
			continue
		}
		at := e.DoneMS
		if e.Action == "raise" || e.Action == "wake" || e.Action == "resume" || e.Action == "expire" {
			at = e.AtMS
		}
		p.insert(line{at: at, event: e})
	}
	for i := range p.rows {
		p.rows[i].y = headHeight + i*rowHeight + rowHeight/2
	}
}

// insert keeps the rows in order of time. A request goes before what it caused in the same
// millisecond, everything else behind what is there.
func (p *picture) insert(l line) {
	i := len(p.rows)
	for i > 0 && p.rows[i-1].at > l.at {
		i--
	}
	if l.event.Action == "acquire" && !l.reply {
		for i > 0 && p.rows[i-1].at == l.at && (p.rows[i-1].event.Action == "raise" || p.rows[i-1].event.Action == "expire") {
			i--
		}
	}
	p.rows = append(p.rows, line{})
	copy(p.rows[i+1:], p.rows[i:])
	p.rows[i] = l
}

func (p *picture) height() int { return headHeight + len(p.rows)*rowHeight + footHeight }

func (p *picture) open(run trace.Run) {
	p.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" font-size="13">`+"\n",
		pictureWidth, p.height(), pictureWidth, p.height())
	p.put("<title>%s</title>\n", html.EscapeString(run.Title))
	p.put("<desc>%s</desc>\n", html.EscapeString(description(run)))
	p.put(`<defs><pattern id="still" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="%s"/><path d="M0 0V6" stroke="%s" stroke-width="4"/></pattern>`, p.background, p.faint)
	p.put("</defs>\n")
	p.put(`<rect width="%d" height="%d" rx="10" fill="%s"/>`+"\n", pictureWidth, p.height(), p.background)
}

// description is the run in sentences, for those who do not see it.
func description(run trace.Run) string {
	sentences := make([]string, 0, len(run.Events)+1)
	for _, e := range run.Events {
		sentences = append(sentences, e.Text)
	}
	return strings.Join(append(sentences, run.Moral), " ")
}

func (p *picture) lanes() {
	for _, lane := range []struct{ name, head, under string }{
		{"A", "client A", ""}, {"B", "client B", ""}, {"lock", "lock", p.Lock}, {"store", "store", p.Store},
	} {
		x := lanesAt[lane.name]
		p.words(x, 30, "middle", p.ink, ` font-size="15" font-weight="600"`, lane.head)
		if lane.under != "" {
			p.words(x, 48, "middle", p.faint, ` font-size="12"`, lane.under)
		}
		p.put(`<path d="M%d 58V%d" stroke="%s" stroke-width="1.5"/>`+"\n", x, p.height()-footHeight+4, p.line)
	}
}
