package diagram

import (
	"fmt"
	"html"
	"maps"
	"slices"
	"strconv"

	"github.com/fencegate/fencegate/internal/trace"
)

// bands draws what lasts: leases beside their holders' lanes, and pauses on them.
func (p *picture) bands() {
	type lease struct {
		y     int
		actor string
	}
	leases, paused := map[string]lease{}, map[string]int{}
	bottom := p.height() - footHeight
	end := func(number string, y int, colour string) {
		l, ok := leases[number]
		if !ok {
			return
		}
		delete(leases, number)
		x := lanesAt[l.actor] - 16
		p.put(`<rect x="%d" y="%d" width="9" height="%d" rx="4" fill="%s" fill-opacity="0.35" stroke="%s"/>`+"\n", x, l.y, y-l.y, colour, colour)
		p.put(`<text transform="translate(%d %d) rotate(-90)" text-anchor="end" font-size="11" fill="%s">lease %s</text>`+"\n", x-4, l.y+2, p.faint, html.EscapeString(number))
	}
	for _, r := range p.rows {
		e := r.event
		switch {
		case e.Action == "acquire" && r.reply && e.Outcome == "granted":
			leases[e.Number] = lease{r.y, e.Actor}
		case e.Action == "expire", e.Action == "release":
			end(e.Number, r.y, p.lease)
		case e.Action == "pause":
			paused[e.Actor] = r.y
		case e.Action == "wake", e.Action == "resume":
			p.still(e.Actor, paused[e.Actor], r.y)
			delete(paused, e.Actor)
		}
	}
	for _, number := range slices.Sorted(maps.Keys(leases)) {
		end(number, bottom, p.lease)
	}
	for _, actor := range slices.Sorted(maps.Keys(paused)) {
		p.still(actor, paused[actor], bottom)
	}
}

func (p *picture) still(actor string, from, to int) {
	p.put(`<rect x="%d" y="%d" width="12" height="%d" rx="3" fill="url(#still)" stroke="%s"/>`+"\n", lanesAt[actor]-6, from, to-from, p.faint)
}

// staircase draws the store's mark: what every write is held against.
func (p *picture) staircase() {
	least, x, began := int64(0), 0, false
	path := ""
	type label struct {
		x, y   int
		number string
	}
	var labels []label
	last := int64(0)
	for _, r := range p.rows {
		for _, m := range r.event.Marks {
			n, err := strconv.ParseInt(m.Number, 10, 64)
			if err != nil || n <= last || r.event.Action == "acquire" && !r.reply {
				continue
			}
			if !began {
				least, began = n, true
			}
			last = n
			at := min(markLeft+int(min(n-least, 100))*markStep, pictureWidth-32)
			if path == "" {
				path = fmt.Sprintf("M%d %dH%d", lanesAt["store"]+6, r.y, at)
			} else {
				path += fmt.Sprintf("V%dH%d", r.y, at)
			}
			x = at
			labels = append(labels, label{at, r.y, m.Number})
		}
	}
	if !began {
		return
	}
	path += fmt.Sprintf("V%d", p.height()-footHeight)
	p.put(`<path d="%s" fill="none" stroke="%s" stroke-width="4" stroke-linejoin="round"/>`+"\n", path, p.mark)
	for _, l := range labels {
		p.words(l.x+6, l.y+16, "start", p.mark, ` font-size="15" font-weight="700"`, l.number)
	}
	p.words(x, p.height()-footHeight+18, "middle", p.mark, ` font-size="12"`, "the store's mark")
}

// row draws one event.
func (p *picture) row(r line) {
	e := r.event
	p.words(64, r.y+4, "end", p.faint, ` font-size="11"`, strconv.FormatFloat(float64(r.at)/1000, 'f', 2, 64)+" s")
	switch e.Action {
	case "acquire":
		if r.reply {
			p.arrow(r.y, "lock", e.Actor, "token "+e.Number, p.ink, true)
		} else {
			p.arrow(r.y, e.Actor, "lock", "acquire", p.ink, true)
		}
	case "release":
		p.arrow(r.y, e.Actor, "lock", "release "+e.Number, p.ink, true)
	case "raise":
		p.arrow(r.y, "lock", "store", "raise "+e.Number, p.mark, true)
	case "read":
		p.arrow(r.y, e.Actor, "store", "read: "+e.Value+" left", p.ink, true)
	case "write":
		p.write(r)
	case "expire":
		p.note(r.y, "lock", "the lease of "+e.Number+" is over", p.lease)
	case "check":
		p.note(r.y, e.Actor, map[bool]string{true: "lease? alive", false: "lease? lost"}[e.Outcome == "ok"], p.ink)
	case "pause":
		p.note(r.y, e.Actor, "stopped", p.ink)
	case "wake", "resume":
		p.note(r.y, e.Actor, "continued", p.ink)
	default:
		p.note(r.y, e.Actor, e.Action, p.ink)
	}
}

// note is a word at a lane.
func (p *picture) note(y int, lane, s, colour string) {
	x := lanesAt[lane]
	p.put(`<circle cx="%d" cy="%d" r="4" fill="%s"/>`+"\n", x, y, colour)
	p.words(x+12, y+4, "start", colour, p.halo(), s)
}

// halo keeps lines away from a text that they cross.
func (p *picture) halo() string {
	return fmt.Sprintf(` stroke="%s" stroke-width="5" stroke-linejoin="round" paint-order="stroke"`, p.background)
}

// arrow goes from lane to lane, with its words above it where it begins.
func (p *picture) arrow(y int, from, to, s, colour string, arrives bool) {
	a, b := lanesAt[from], lanesAt[to]
	way := 1
	if b < a {
		way = -1
	}
	if !arrives {
		b -= 16 * way
	}
	anchor := "start"
	if way < 0 {
		anchor = "end"
	}
	p.words(a+14*way, y-5, anchor, colour, p.halo(), s)
	p.put(`<path d="M%d %dH%d" stroke="%s" stroke-width="1.5"/>`+"\n", a+4*way, y, b-3*way, colour)
	if arrives {
		p.put(`<path d="M%d %dl%d -4v8z" fill="%s"/>`+"\n", b-2*way, y, -8*way, colour)
	}
}

// write is what all is about: it arrives and is accepted, or it is stopped before the store.
func (p *picture) write(r line) {
	e := r.event
	s := "write " + e.Value
	if e.Number != "" {
		s += " with " + e.Number
	}
	x := lanesAt["store"]
	if e.Outcome == "accepted" {
		p.arrow(r.y, e.Actor, "store", s+": accepted", p.good, true)
		p.put(`<circle cx="%d" cy="%d" r="8" fill="%s"/><path d="M%d %dl3 3 5 -6" fill="none" stroke="%s" stroke-width="2"/>`+"\n", x, r.y, p.good, x-4, r.y, p.background)
	} else {
		if e.Highest != "" {
			s += fmt.Sprintf(": REFUSED, %s is older than %s", e.Number, e.Highest)
		} else {
			s += ": " + e.Outcome
		}
		p.arrow(r.y, e.Actor, "store", s, p.bad, false)
		p.put(`<rect x="%d" y="%d" width="16" height="16" rx="3" fill="%s"/><path d="M%d %dl8 8m0 -8l-8 8" stroke="%s" stroke-width="2"/>`+"\n", x-24, r.y-8, p.bad, x-20, r.y-4, p.background)
	}
	if e.Damage != "" {
		p.put(`<path d="M%d %dl6 -7 6 14 6 -14 6 14 6 -14 6 7" fill="none" stroke="%s" stroke-width="2.5" stroke-linejoin="round"/>`+"\n", x-18, r.y+rowHeight/2+2, p.bad)
		p.words(x-26, r.y+rowHeight/2+6, "end", p.bad, ` font-weight="600"`+p.halo(), "an update was lost")
	}
}

// account is the last line: whether every coupon is accounted for.
func (p *picture) account(run trace.Run) {
	colour := p.good
	if !run.Account.Held {
		colour = p.bad
	}
	a := run.Account
	p.words(16, p.height()-20, "start", colour, ` font-size="14" font-weight="600"`,
		fmt.Sprintf("%s coupons, %s handed out, %s remaining: %s", a.Initial, a.HandedOut, a.Remaining, a.Text))
}
