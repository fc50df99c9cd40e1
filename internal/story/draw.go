package story

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/internal/diagram"
)

// Diagram draws a result's events.
func (r Result) Diagram(lockName, storeName string) diagram.Diagram {
	type timed struct {
		at   time.Duration
		item diagram.Item
	}
	var items []timed
	add := func(at time.Duration, it diagram.Item) {
		it.At = at
		items = append(items, timed{at, it})
	}
	for _, e := range r.Events {
		token := strconv.FormatInt(e.Number, 10)
		switch e.Action {
		case Acquire:
			add(e.At, diagram.Item{From: e.Actor, To: Lock, Label: "acquire"})
			add(e.Done, diagram.Item{From: Lock, To: e.Actor, Label: "token " + token})
		case Release:
			add(e.Done, diagram.Item{From: e.Actor, To: Lock, Label: "release " + token})
		case Raise:
			add(e.At, diagram.Item{From: Lock, To: Store, Label: "raise " + token})
		case Expire:
			add(e.At, diagram.Item{From: Lock, Label: "the lease of " + token + " is over"})
		case Read:
			add(e.Done, diagram.Item{From: e.Actor, To: Store, Label: fmt.Sprintf("read: %d left", e.Value)})
		case Check:
			add(e.Done, diagram.Item{From: e.Actor, Label: "lease? " + map[bool]string{true: "alive", false: "lost"}[e.Outcome == OK]})
		case Pause:
			add(e.Done, diagram.Item{From: e.Actor, Label: "stopped", Stop: true})
		case Wake:
			add(e.At, diagram.Item{From: e.Actor, Label: "continued", Go: true})
		case Write:
			add(e.Done, drawWrite(e))
		}
	}
	slices.SortStableFunc(items, func(a, b timed) int { return int(a.at - b.at) })
	if !r.Mode.Locked {
		lockName = "not used"
	}
	d := diagram.Diagram{Lanes: []string{A, B, Lock, Store}, Heads: []string{"", "", lockName, storeName}}
	for _, it := range items {
		d.Items = append(d.Items, it.item)
	}
	return d
}

func drawWrite(e Event) diagram.Item {
	label := fmt.Sprintf("write %d", e.Value)
	if e.Number > 0 {
		label += fmt.Sprintf(" with %d", e.Number)
	}
	it := diagram.Item{From: e.Actor, To: Store}
	switch {
	case e.Outcome == Accepted:
		it.Style, it.Label = diagram.Good, label+": accepted"
	case e.Highest > e.Number:
		it.Style, it.Label = diagram.Bad, label+fmt.Sprintf(": REFUSED, %d is older than %d", e.Number, e.Highest)
	default:
		it.Style, it.Label = diagram.Bad, label+": "+e.Outcome
	}
	return it
}
