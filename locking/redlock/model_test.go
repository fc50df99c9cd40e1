package redlock_test

import "fmt"

// An explicit-state model of the protocol over three nodes, explored breadth first: every
// interleaving of every step, up to the symmetry of the nodes. Requests are handled at any
// later time or never, replies are lost (the client goes on with any majority), and a lock
// may vanish at any moment, which covers expiry, release, abort, eviction, clocks that jump
// and clients that pause. A re-issue or a repeat of a grant is an attempt of its own: that
// its lock need not be free is the same as a lock that vanished just before.
//
// Checked at every success: the number was never issued, and is above each number whose
// acquisition had ended before this one began.

// rules are what the protocol does; the zero value is the weakest form.
type rules struct {
	confirm bool // a second phase at all
	check   bool // it looks at the lock
	onlyS   bool // it goes only to the nodes whose counters made the number
	exact   bool // it wants the very granting, not just the same attempt

	loss   int8 // how many nodes lose their data
	back   bool // a node that lost it is back at once, empty
	admit  bool // it is admitted again, with counters from its peers
	wait   bool // ... after the locks that its peers had at the loss are gone
	peers  int8 // ... and with the counters of so many peers
	bar    bool // ... and what a peer granted before it gave its counter is not confirmed any more
	duplic int8 // how many grant requests are delivered a second time
}

const (
	nodes    = 3
	majority = 2
	most     = 3 // attempts
)

// column is what belongs to one node. Nodes are alike, so a state is a set of columns.
type column struct {
	owner int8 // attempt+1; +8 for another granting of the same attempt; 0 free
	ctr   int8
	down  bool
	read  bool // a node that is being admitted has taken this one's counter
	wait  int8 // the owner when another node lost its data
	p1    [most]int8
	p2    [most]int8
}

// The grant request is pending, over, or was granted with counter p1-granted; the confirm is not sent,
// pending, acknowledged or over.
const (
	pending, over, granted           = 0, 1, 2
	unsent, asked, acked, overlooked = 0, 1, 2, 3
)

type attempt struct {
	phase  int8 // 0 not begun, 1 granting, 2 confirming, 3 ended
	number int8
	floor  int8 // the highest number that was complete when it began
}

type state struct {
	cols     [nodes]column
	at       [most]attempt
	issued   uint32
	complete int8
	loss     int8
	duplic   int8
	seed     int8
}

func (c column) less(d column) bool {
	a := [...]int8{c.owner, c.ctr, b2i(c.down), b2i(c.read), c.wait, c.p1[0], c.p1[1], c.p1[2], c.p2[0], c.p2[1], c.p2[2]}
	b := [...]int8{d.owner, d.ctr, b2i(d.down), b2i(d.read), d.wait, d.p1[0], d.p1[1], d.p1[2], d.p2[0], d.p2[1], d.p2[2]}
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

func b2i(b bool) int8 {
	if b {
		return 1
	}
	return 0
}

// sorted is the state with its columns in order.
func (s state) sorted() state {
	c := &s.cols
	if c[1].less(c[0]) {
		c[0], c[1] = c[1], c[0]
	}
	if c[2].less(c[1]) {
		c[1], c[2] = c[2], c[1]
	}
	if c[1].less(c[0]) {
		c[0], c[1] = c[1], c[0]
	}
	return s
}

// step is what happens between two states, so that it can be played to the real code.
type step struct {
	kind event
	a, n int // attempt and node, where one is concerned
	set  int // of nodes, where some are
	text string
}

type event int

const (
	begins      event = iota
	grants            // a node handles the attempt's grant request, for good or bad
	grantsTwice       // ... a second time
	chooses           // the attempt goes on with a set of nodes
	confirmsAt        // a node handles the confirm
	lockEnds          // on a node
	forgets           // a node loses its data
	takes             // a node that is to be admitted takes a peer's counter
	admits            // a node is back
	succeedsAt
)

// explorer calls add with each successor.
type explorer struct {
	rules
	attempts int
	add      func(s state, what func() step, violation string)
}

// said is a step with its text.
func said(kind event, a, n, set int, format string, args ...any) func() step {
	return func() step { return step{kind, a, n, set, fmt.Sprintf(format, args...)} }
}

func (e *explorer) successors(s *state) {
	for n := range nodes {
		e.faults(s, n)
	}
	for a := range e.attempts {
		switch s.at[a].phase {
		case 0:
			t := *s
			t.at[a].phase, t.at[a].floor = 1, s.complete
			e.add(t, said(begins, a, 0, 0, "a%d begins", a+1), "")
			continue
		case 1:
			e.choose(s, a)
		case 2:
			e.confirms(s, a)
		}
		for n := range nodes {
			e.grant(s, a, n)
		}
	}
}

func (e *explorer) faults(s *state, n int) {
	c := s.cols[n]
	if c.owner != 0 && !c.down {
		t := *s
		t.cols[n].owner = 0
		e.add(t, said(lockEnds, 0, n, 0, "the lock of a%d ends on a node", c.owner&7), "")
	}
	if s.loss > 0 && !c.down {
		t := *s
		t.loss--
		t.seed = 0
		t.cols[n].owner, t.cols[n].ctr, t.cols[n].down = 0, 0, !e.back
		for k := range nodes {
			t.cols[k].read = false
			if t.cols[k].wait = 0; e.wait && k != n {
				t.cols[k].wait = s.cols[k].owner
			}
		}
		e.add(t, said(forgets, 0, n, 0, "a node with counter %d loses its data", c.ctr), "")
	}
	if !c.down || !e.admit {
		return
	}
	read := int8(0)
	for _, p := range s.cols {
		read += b2i(p.read)
		if p.wait != 0 && p.owner == p.wait {
			return
		}
	}
	if read >= e.peers {
		t := *s
		t.cols[n] = column{ctr: s.seed, p1: c.p1, p2: c.p2}
		e.add(t, said(admits, 0, n, 0, "the node is admitted with counter %d", s.seed), "")
		return
	}
	for k, p := range s.cols {
		if k != n && !p.down && !p.read {
			t := *s
			t.cols[k].read, t.seed = true, max(s.seed, p.ctr)
			if e.bar {
				t.cols[k].owner = 0
			}
			e.add(t, said(takes, 0, n, 0, "the node takes a peer's counter %d", p.ctr), "")
		}
	}
}

func (e *explorer) grant(s *state, a, n int) {
	c := s.cols[n]
	if c.down {
		return
	}
	if c.p1[a] != pending { // handled: a duplicate of it may come
		if s.duplic > 0 && c.owner == 0 {
			t := *s
			t.duplic--
			t.cols[n].ctr++
			t.cols[n].owner = int8(a + 1)
			if e.exact {
				t.cols[n].owner += 8
			}
			e.add(t, said(grantsTwice, a, n, 0, "a%d's grant arrives again, counter %d", a+1, c.ctr+1), "")
		}
		return
	}
	t := *s
	if c.owner != 0 {
		t.cols[n].p1[a] = over
		e.add(t, said(grants, a, n, 0, "a%d is refused by a node", a+1), "")
		return
	}
	t.cols[n].owner = int8(a + 1)
	t.cols[n].ctr++
	t.cols[n].p1[a] = over
	if s.at[a].phase == 1 {
		t.cols[n].p1[a] = granted + t.cols[n].ctr
	}
	e.add(t, said(grants, a, n, 0, "a%d is granted, counter %d", a+1, c.ctr+1), "")
}

// choose lets the client go on with any majority of what was granted.
func (e *explorer) choose(s *state, a int) {
	for set := range 1 << nodes {
		size, number := 0, int8(0)
		for n, c := range s.cols {
			if set&(1<<n) == 0 {
				continue
			}
			if c.p1[a] < granted {
				size = -nodes
			}
			size++
			number = max(number, c.p1[a]-granted)
		}
		if size < majority {
			continue
		}
		t := *s
		t.at[a].phase, t.at[a].number = 2, number
		for n := range nodes {
			c := &t.cols[n]
			if set&(1<<n) != 0 || !e.onlyS {
				c.p2[a] = asked
			}
			if c.p1[a] >= granted {
				c.p1[a] = over
			}
		}
		if !e.confirm {
			e.succeed(t, a, set)
			continue
		}
		e.add(t, said(chooses, a, 0, set, "a%d has a majority for number %d", a+1, number), "")
	}
}

func (e *explorer) confirms(s *state, a int) {
	x, acks := s.at[a], 0
	for n, c := range s.cols {
		if c.p2[a] == acked {
			acks++
		}
		if c.p2[a] != asked || c.down {
			continue
		}
		t := *s
		if e.check && c.owner != int8(a+1) {
			if e.onlyS {
				t.cols[n].p2[a] = overlooked
				e.add(t, said(confirmsAt, a, n, 0, "a%d's confirm is refused", a+1), "")
			}
			continue // else the grant may still come, and the confirm after it
		}
		t.cols[n].p2[a] = acked
		t.cols[n].ctr = max(c.ctr, x.number)
		e.add(t, said(confirmsAt, a, n, 0, "a%d's %d is confirmed, counter was %d", a+1, x.number, c.ctr), "")
	}
	if acks >= majority {
		e.succeed(*s, a, 0)
	}
}

func (e *explorer) succeed(t state, a, set int) {
	x := &t.at[a]
	bad := ""
	if number := x.number; t.issued&(1<<number) != 0 {
		bad = fmt.Sprintf("number %d is issued twice", number)
	} else if number <= x.floor {
		bad = fmt.Sprintf("number %d comes after %d", number, x.floor)
	}
	number := x.number
	t.issued |= 1 << number
	t.complete = max(t.complete, number)
	*x = attempt{phase: 3}
	for n := range nodes {
		t.cols[n].p2[a] = overlooked
	}
	e.add(t, said(succeedsAt, a, 0, set, "a%d SUCCEEDS with %d", a+1, number), bad)
}

func explore(r rules, attempts int, highest int8) found {
	var queue []state
	var parents []int32
	seen := map[state]struct{}{}
	push := func(s state, parent int32) {
		s = s.sorted()
		if _, ok := seen[s]; !ok {
			seen[s] = struct{}{}
			queue, parents = append(queue, s), append(parents, parent)
		}
	}
	// What earlier attempts may have left: any counters, the middle one complete.
	for a := int8(0); a <= highest; a++ {
		for b := a; b <= highest; b++ {
			for c := b; c <= highest; c++ {
				s := state{complete: b, loss: r.loss, duplic: r.duplic}
				s.cols[0].ctr, s.cols[1].ctr, s.cols[2].ctr = a, b, c
				if b > 0 {
					s.issued = 1 << b
				}
				push(s, -1)
			}
		}
	}
	e := &explorer{rules: r, attempts: attempts}
	for i := int32(0); int(i) < len(queue); i++ {
		broken := false
		e.add = func(s state, _ func() step, violation string) {
			broken = broken || violation != ""
			push(s, i)
		}
		s := queue[i]
		e.successors(&s)
		if broken {
			start, trace := e.way(queue, parents, i)
			return found{len(queue), start, trace}
		}
	}
	return found{states: len(queue)}
}

// way is the way to the state queue[last], from which a step is a violation. The states of
// the queue have their nodes in order; in a way each node keeps its place.
func (e *explorer) way(queue []state, parents []int32, last int32) (start state, trace []step) {
	var chain []state
	for k := last; k >= 0; k = parents[k] {
		chain = append([]state{queue[k]}, chain...)
	}
	start = chain[0]
	now := start
	for _, next := range chain[1:] {
		var found *step
		var then state
		e.add = func(s state, what func() step, _ string) {
			if found == nil && s.sorted() == next {
				st := what()
				found, then = &st, s
			}
		}
		e.successors(&now)
		trace, now = append(trace, *found), then
	}
	done := false
	e.add = func(_ state, what func() step, violation string) {
		if violation != "" && !done {
			done = true
			st := what()
			st.text += ": " + violation
			trace = append(trace, st)
		}
	}
	e.successors(&now)
	return start, trace
}
