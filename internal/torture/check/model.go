package check

import (
	"fmt"
	"math"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// problem is the linearizability of one group within one era.
type problem struct {
	table *values
	ops   []porcupine.Operation
	first bool // the records begin with what was seeded
	init  state
}

// records is how many records of a group a problem may have; no workload has more that are
// written more than once.
const records = 4

// state is what the records hold: values and versions. It is comparable.
type state struct {
	value   [records]int32 // of the table
	version [records]int64 // 0: not known
	over    bool           // the end was read: what was not applied by now does not matter
}

// anything is the value of a record after data was lost, until it is first seen.
const anything = -1

// values gives every value a number, and every record a place.
type values struct {
	number map[string]int32
	text   []string
	place  map[recordID]int
	names  []recordID
}

// numberOf returns a value's number. A record that is not there is as one with an empty value:
// nobody writes that.
func (v *values) numberOf(text string) int32 {
	n, ok := v.number[text]
	if !ok {
		n = int32(len(v.text)) //nolint:gosec // a run has fewer values
		v.number[text] = n
		v.text = append(v.text, text)
	}
	return n
}

// step is one call, in numbers.
type step struct {
	op      *history.Op
	commit  bool
	final   bool
	unknown bool // it may not have been applied at all
	sees    []seen
	puts    []put
}

type seen struct {
	place   int
	value   int32
	version int64
}

type put struct {
	place   int
	value   int32
	version int64
}

// problem collects the calls of an era, of which there is one order to be found.
func (r *run) problem(g *group, s span) *problem {
	p := &problem{table: &values{number: map[string]int32{"": 0}, text: []string{""}, place: make(map[recordID]int)}, first: s.first}
	for _, op := range g.reads {
		p.claim(op.Cells)
	}
	for _, c := range g.commits {
		p.claim(c.cells)
	}
	for i := range p.init.value {
		if !s.first {
			p.init.value[i] = anything
		}
	}
	if s.first {
		for _, c := range p.sees(g.initial) {
			p.init.value[c.place], p.init.version[c.place] = c.value, c.version
		}
	}
	for _, op := range g.reads {
		if op.Call >= s.from && op.Return <= s.to {
			p.add(&step{op: op, sees: p.sees(op.Cells)}, op.Call, op.Return)
		}
	}
	for _, c := range g.commits {
		if !c.mayBe() || c.ret < s.from || c.call > s.to {
			continue
		}
		in := c.call >= s.from && c.ret <= s.to && c.outcome == applied
		if !in && !c.seen {
			continue // whether it was applied or not, nobody saw it, and all others saw something else
		}
		st := &step{op: c.attempts[0], commit: true, unknown: !in, sees: p.sees(c.cells), puts: p.puts(c)}
		ret := c.ret
		if !in {
			ret = never
		}
		p.add(st, max(c.call, s.from), ret)
	}
	if s.last && r.FinalRead {
		// What is not there in the end has the empty value.
		end := &step{op: &history.Op{ID: "end", Kind: history.Read, Process: -1, Cells: g.final}, final: true}
		there := make(map[recordID]history.Cell)
		for _, c := range g.final {
			there[idOf(c)] = c
		}
		for i, id := range p.table.names {
			end.sees = append(end.sees, seen{i, p.table.numberOf(there[id].Value), there[id].Version})
		}
		p.add(end, math.MaxInt64-2, math.MaxInt64-1)
	} else {
		p.ops = append(p.ops, p.closing())
	}
	return p
}

// closing returns an end that sees nothing.
func (p *problem) closing() porcupine.Operation {
	return porcupine.Operation{
		ClientId: -1000, Call: math.MaxInt64 - 2, Return: math.MaxInt64 - 1,
		Input: &step{op: &history.Op{ID: "end", Kind: history.Read, Process: -1}, final: true},
	}
}

func (p *problem) add(s *step, call, ret int64) {
	p.ops = append(p.ops, porcupine.Operation{ClientId: s.op.Process*1000 + s.op.Seat, Input: s, Call: call, Return: ret})
}

// claim gives records their places.
func (p *problem) claim(cells []history.Cell) {
	for _, c := range cells {
		id := idOf(c)
		if _, ok := p.table.place[id]; ok || len(p.table.names) == records || once(c.Key) {
			continue
		}
		p.table.place[id] = len(p.table.names)
		p.table.names = append(p.table.names, id)
	}
}

// once reports whether a record of this name is written once.
func once(key string) bool {
	return strings.HasPrefix(key, "e.") || strings.HasPrefix(key, "receipt.") || strings.HasPrefix(key, "entry.") || strings.HasPrefix(key, "audit.")
}

func (p *problem) sees(cells []history.Cell) []seen {
	var all []seen
	for _, c := range cells {
		if at, ok := p.table.place[idOf(c)]; ok {
			all = append(all, seen{at, p.table.numberOf(c.Value), c.Version})
		}
	}
	return all
}

func (p *problem) puts(c *commit) []put {
	var all []put
	for _, w := range c.writes {
		at, ok := p.table.place[recordID{w.Resource, w.Key}]
		if !ok {
			continue
		}
		version := w.Version
		if c.outcome != applied {
			version = 0
		}
		switch w.Kind {
		case "put":
			all = append(all, put{at, p.table.numberOf(w.Value), version})
		case "add": // no workload adds to what it reads but coupon's
			all = append(all, put{at, p.table.numberOf(fmt.Sprint(w.Counter)), version})
		case "delete":
			all = append(all, put{at, 0, 0})
		}
	}
	return all
}

// model is what the group's records do.
func (p *problem) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return p.init },
		Step: func(s, in, _ any) (bool, any) {
			from, ok := s.(state)
			call, fits := in.(*step)
			if !ok || !fits {
				return false, s
			}
			next, ok := call.apply(from)
			return ok, next
		},
		Equal: func(a, b any) bool { return a == b },
		Hash: func(s any) uint64 {
			st, _ := s.(state)
			h := uint64(14695981039346656037)
			for i := range st.value {
				h = (h ^ uint64(uint32(st.value[i]))) * 1099511628211 //nolint:gosec // a hash
				h = (h ^ uint64(st.version[i])) * 1099511628211       //nolint:gosec // a hash
			}
			return h
		},
		DescribeOperation: func(in, _ any) string {
			s, _ := in.(*step)
			return s.String()
		},
		DescribeState: func(s any) string {
			st, _ := s.(state)
			return p.describe(st)
		},
	}
}

// apply is the group's records in one moment.
func (s *step) apply(from state) (state, bool) {
	if from.over {
		return from, s.unknown
	}
	next := from
	for _, c := range s.sees {
		have := from.value[c.place]
		if have != c.value && have != anything {
			return from, false
		}
		if v := from.version[c.place]; v != 0 && c.version != 0 && v != c.version {
			return from, false
		}
		next.value[c.place] = c.value
		if c.version != 0 {
			next.version[c.place] = c.version
		}
	}
	for _, w := range s.puts {
		next.value[w.place], next.version[w.place] = w.value, w.version
	}
	next.over = s.final
	return next, true
}

// String describes a call for the picture.
func (s *step) String() string {
	if s.final && len(s.sees) == 0 {
		return "the end"
	}
	var b strings.Builder
	if s.final {
		b.WriteString("the end: ")
	} else {
		fmt.Fprintf(&b, "%s %s ", s.op.Kind, s.op.ID)
	}
	for i, c := range s.op.Cells {
		if once(c.Key) {
			continue
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s/%s = %q", c.Resource, c.Key, c.Value)
	}
	for i, w := range s.op.Writes {
		if i == 0 {
			b.WriteString(" -> ")
		} else {
			b.WriteString(", ")
		}
		if w.Kind == "add" {
			fmt.Fprintf(&b, "%s/%s + %d", w.Resource, w.Key, w.Delta)
		} else {
			fmt.Fprintf(&b, "%s/%s = %q", w.Resource, w.Key, w.Value)
		}
	}
	for _, t := range s.op.Tokens {
		fmt.Fprintf(&b, " #%d", t.Number)
	}
	if s.unknown {
		b.WriteString(" (outcome unknown)")
	}
	return b.String()
}

func (p *problem) describe(s state) string {
	var parts []string
	for i, id := range p.table.names {
		value := "anything"
		if n := s.value[i]; n != anything {
			value = fmt.Sprintf("%q", p.table.text[n])
		}
		parts = append(parts, id.resource+"/"+id.key+" = "+value)
	}
	return strings.Join(parts, ", ")
}
