package check_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/fencegate/fencegate/internal/torture/history"
)

type rec struct {
	value   string
	version int64
	before  string // for a stale read
}

type mark struct {
	number      int64
	grant       string
	retired     bool
	incarnation int
}

// store is a strict store.
type store struct {
	data        map[[2]string]rec
	marks       map[string]mark
	keys        map[[2]string]answer
	incarnation int
	rows        int // of all audits
}

func newStore() *store {
	return &store{data: make(map[[2]string]rec), marks: make(map[string]mark), keys: make(map[[2]string]answer)}
}

func (s *store) copy() *store {
	return &store{data: maps.Clone(s.data), marks: maps.Clone(s.marks), keys: maps.Clone(s.keys)}
}

func (s *store) restore(old *store, shows bool) {
	s.data, s.marks, s.keys = maps.Clone(old.data), maps.Clone(old.marks), maps.Clone(old.keys)
	if shows {
		s.incarnation++
	}
}

// answer is what the lock or the store says.
type answer struct {
	outcome, reason string
	tokens          []history.Token
	cells           []history.Cell
	writes          []history.Write
	replayed, freed bool
}

func refusal(reason string) answer { return answer{outcome: "refused", reason: reason} }

func (s *sim) check(tokens []history.Token, forged bool) string {
	for _, t := range tokens {
		m := s.marks[t.Resource]
		switch {
		case forged && s.strikes("forged"):
			return ""
		case !forged && s.bug == "stale" && m.number >= t.Number:
			if m.number > t.Number {
				s.struck++
			}
		case t.Number < m.number:
			return "superseded"
		case t.Number > m.number:
			return "ungranted"
		case t.Grant != m.grant:
			return "duplicate"
		case m.retired || m.incarnation != s.incarnation:
			return "retired"
		}
	}
	return ""
}

func (s *sim) raise(t history.Token) {
	s.marks[t.Resource] = mark{number: t.Number, grant: t.Grant, incarnation: s.incarnation}
}

func (s *sim) retire(t history.Token) {
	if m := s.marks[t.Resource]; m.number == t.Number && m.grant == t.Grant {
		m.retired = true
		s.marks[t.Resource] = m
	}
}

func (s *sim) read(op history.Op) answer {
	if why := s.check(op.Tokens, op.Forged); why != "" {
		return refusal(why)
	}
	c := op.Cells[0]
	r := s.data[[2]string{c.Resource, c.Key}]
	c.Value, c.Version = r.value, r.version
	if r.before != "" && s.strikes("stale-read") {
		c.Value, c.Version = r.before, r.version-1
	}
	return answer{outcome: "applied", cells: []history.Cell{c}}
}

func (s *sim) commit(op history.Op) answer {
	key := [2]string{op.Group, op.Key}
	if a, ok := s.keys[key]; ok && op.Key != "" && (s.bug != "twice" || s.check(op.Tokens, false) != "" || !s.strikes("twice")) {
		a.replayed = true
		return a
	}
	if why := s.check(op.Tokens, op.Forged); why != "" {
		return refusal(why)
	}
	if s.strikes("refused-applied") {
		s.write(op)
		return refusal("superseded")
	}
	if s.strikes("failed-applied") {
		s.write(op)
		return answer{outcome: "failed"}
	}
	a := s.write(op)
	if op.Key != "" {
		s.keys[key] = a
	}
	return a
}

func (s *sim) write(op history.Op) answer {
	a := answer{outcome: "applied", writes: slices.Clone(op.Writes)}
	drop := s.strikes("drop")
	for i := range a.writes {
		w := &a.writes[i]
		id := [2]string{w.Resource, w.Key}
		old := s.data[id]
		next := rec{value: w.Value, version: old.version + 1, before: old.value}
		if w.Kind == "add" {
			n, _ := strconv.ParseInt(old.value, 10, 64)
			if n+w.Delta < w.Min {
				return refusal("below-minimum")
			}
			w.Counter = n + w.Delta
			next.value = strconv.FormatInt(w.Counter, 10)
		}
		if w.Version = next.version; op.Workload == "table" {
			next.version, w.Version = 0, 0
		}
		if drop || i == 1 && s.strikes("half") {
			continue
		}
		s.data[id] = next
	}
	if op.Workload == "table" && !drop && !s.strikes("no-audit") {
		for range 1 + s.once("audit-twice") {
			s.rows++
			s.data[[2]string{op.Group, fmt.Sprintf("audit.%08d", s.rows)}] = rec{value: fmt.Sprintf("%d %s", op.Tokens[0].Number, op.ID)}
		}
	}
	return a
}

func (s *sim) once(bug string) int {
	if s.strikes(bug) {
		return 1
	}
	return 0
}

// locks is a lock store.
type locks struct {
	holds   map[string]hold
	numbers map[string]int64
}

type hold struct {
	history.Token
	expires int64
}

func newLocks() *locks { return &locks{holds: make(map[string]hold), numbers: make(map[string]int64)} }

const ttl = 400 * ms

// forget loses all holds. The numbers go on above the marks, as the issuer makes them.
func (l *locks) forget(s *sim) {
	clear(l.holds)
	for r, m := range s.marks {
		l.numbers[r] = m.number
		if s.strikes("duplicate") {
			l.numbers[r]--
		}
	}
}

func (s *sim) acquire(resources []string) answer {
	for _, r := range resources {
		if h, ok := s.holds[r]; ok && s.now < h.expires && !s.strikes("two-holders") {
			return refusal("held")
		}
	}
	a := answer{outcome: "applied"}
	for _, r := range resources {
		s.numbers[r] = max(s.numbers[r], 0) + 1
		n := s.numbers[r]
		if n > 2 && s.strikes("number-twice") {
			s.numbers[r]--
			n--
		}
		if n > 9 && s.strikes("number-back") {
			n -= 5
		}
		t := history.Token{Resource: r, Number: n, Grant: fmt.Sprintf("g%d", s.rnd.Int64())}
		s.holds[r] = hold{t, s.now + ttl}
		s.raise(t)
		a.tokens = append(a.tokens, t)
	}
	return a
}

func (s *sim) release(tokens []history.Token) answer {
	for _, t := range tokens {
		s.retire(t)
		if s.holds[t.Resource].Token == t {
			delete(s.holds, t.Resource)
		}
	}
	return answer{outcome: "applied", freed: true}
}

func (s *sim) renew(tokens []history.Token) answer {
	for _, t := range tokens {
		if h := s.holds[t.Resource]; (h.Token != t || s.now >= h.expires) && !s.strikes("revive") {
			return refusal("lost")
		}
	}
	return answer{outcome: "applied"}
}
