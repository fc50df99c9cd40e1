// Package diagram draws space-time diagrams: lanes side by side, time downwards, messages
// as arrows between lanes.
package diagram

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Width is the number of columns that Text never exceeds.
const Width = 100

// Style is how an item is emphasised. Text shows it by a sign, and by colour only where
// that is asked for.
type Style int

// The styles.
const (
	Plain Style = iota
	Good
	Bad
)

// Item is one line of the diagram.
type Item struct {
	At    time.Duration
	From  string // the lane of a note, or where an arrow begins
	To    string // where an arrow ends; empty for a note
	Label string
	Style Style
	Stop  bool // the lane From stands still from here on
	Go    bool // the lane From goes on from here
}

// Diagram is what there is to draw.
type Diagram struct {
	Lanes []string // at most 4, from left to right
	Heads []string // a second line of heading per lane; may be empty
	Items []Item   // in order of time
}

// columns is where the lanes stand, for the gaps that labels need: notes of the first lane
// before the second, then whole arrows from the second on.
var columns = []int{10, 33, 63, 95}

const (
	lane    = '│'
	stopped = ':'
)

// Text draws d on w, at most Width columns wide, with ANSI colours if colour is true.
func (d Diagram) Text(w io.Writer, colour bool) error {
	still := make([]bool, len(d.Lanes))
	out := &strings.Builder{}
	for _, heads := range [][]string{d.Lanes, d.Heads} {
		row := newRow()
		for i, head := range heads {
			row.put(columns[i]-utf8.RuneCountInString(head)/2, head)
		}
		if len(heads) > 0 {
			fmt.Fprintln(out, row.String())
		}
	}
	for _, it := range d.Items {
		row := newRow()
		row.put(0, fmt.Sprintf("%6.2f s", it.At.Seconds()))
		for i := range d.Lanes {
			row.put(columns[i], string(laneSign(still[i])))
		}
		from := d.lane(it.From)
		if it.To == "" {
			sign := map[Style]string{Plain: "*", Good: "+", Bad: "!"}[it.Style]
			row.put(columns[from], sign+" "+clip(it.Label, d.room(from)-2))
		} else {
			row.arrow(columns[from], columns[d.lane(it.To)], it)
		}
		if it.Stop || it.Go {
			still[from] = it.Stop
		}
		fmt.Fprintln(out, paint(row.String(), it.Style, colour))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func laneSign(still bool) rune {
	if still {
		return stopped
	}
	return lane
}

func (d Diagram) lane(name string) int {
	for i, l := range d.Lanes {
		if l == name {
			return i
		}
	}
	return 0
}

// room is how many columns a note of a lane may take: up to the next lane.
func (d Diagram) room(i int) int {
	if i+1 < len(d.Lanes) {
		return columns[i+1] - columns[i] - 1
	}
	return Width - columns[i]
}

type row struct{ cells []rune }

func newRow() *row { return &row{cells: []rune(strings.Repeat(" ", Width))} }

func (r *row) put(x int, s string) {
	for _, c := range s {
		if x >= 0 && x < Width {
			r.cells[x] = c
		}
		x++
	}
}

// arrow draws a line between two lanes with its label in the middle of it. A refused
// message has an x for a head.
func (r *row) arrow(from, to int, it Item) {
	left, right := min(from, to)+1, max(from, to)-1
	for x := left; x <= right; x++ {
		if r.cells[x] == ' ' {
			r.cells[x] = '─'
		} else {
			r.cells[x] = '┼'
		}
	}
	head, at := '>', right
	if to < from {
		head, at = '<', left
	}
	if it.Style == Bad {
		head = 'x'
	}
	r.cells[at] = head
	at = left + 1
	if to < from {
		at++
	}
	r.put(at, " "+clip(it.Label, right-left-4)+" ")
}

func (r *row) String() string { return strings.TrimRight(string(r.cells), " ") }

// clip cuts s to n columns, with a sign that it was cut.
func clip(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:max(0, n-1)]) + "…"
}

func paint(line string, s Style, colour bool) string {
	code := map[Style]string{Good: "\x1b[32m", Bad: "\x1b[31m"}[s]
	if !colour || code == "" {
		return line
	}
	return code + line + "\x1b[0m"
}
