package model

import (
	"fmt"
	"strings"
)

// RedlockRules are what the protocol over three masters does, and what befalls it. The zero value is
// the weakest form. Requests are handled at any later time or never, replies are lost (the
// client goes on with any majority), and a lock may vanish at any moment, which covers expiry, release,
// abort, eviction, clocks that jump, restarts that keep the counters and clients that pause. A re-issue
// or a repeat of a grant is an attempt of its own: that its lock need not be free is the same as a
// lock that vanished just before.
type RedlockRules struct {
	Attempts int  // 2 or 3
	Highest  int8 // counters are 0 to Highest at the beginning, in every combination

	Confirm bool // a second phase at all
	Check   bool // it looks at the lock
	OnlyS   bool // it goes only to the nodes whose counters made the number
	Exact   bool // it wants the very granting, not just the same attempt
	Lower   bool // it is refused where the counter is above the number already

	Loss   int8 // how often a node loses its data
	Slip   bool // ... only its last write
	Back   bool // ... and is back at once
	Admit  bool // ... and is admitted again, with counters from its peers
	Wait   bool // ... after the locks that its peers had at the loss are gone
	Peers  int8 // ... and with the counters of so many peers
	Bar    bool // ... and what a peer granted before it gave its counter is not confirmed any more
	Double int8 // how many grant requests are delivered a second time
}

// The rules of the redlock model.
const (
	Twice   = "TWICE"   // a number is issued twice
	Descend = "DESCEND" // a number is not above one that was complete before its attempt began
)

const (
	nodes    = 3
	majority = 2
	most     = 3 // attempts
)

// Column is what belongs to one node. Nodes are alike, so a state is a set of columns.
type Column struct {
	owner   int8 // attempt+1; +8 for another granting of the same attempt; 0 free
	Counter int8
	down    bool
	read    bool // a node that is being admitted has taken this one's counter
	wait    int8 // the owner when another node lost its data
	p1      [most]int8
	p2      [most]int8
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

// RedlockState is the nodes and the attempts.
type RedlockState struct {
	Nodes    [nodes]Column
	at       [most]attempt
	issued   uint32
	Complete int8 // the highest number whose acquisition has ended
	loss     int8
	double   int8
	seed     int8
}

func (c *Column) less(d *Column) bool {
	a := [...]int8{c.owner, c.Counter, b2i(c.down), b2i(c.read), c.wait, c.p1[0], c.p1[1], c.p1[2], c.p2[0], c.p2[1], c.p2[2]}
	b := [...]int8{d.owner, d.Counter, b2i(d.down), b2i(d.read), d.wait, d.p1[0], d.p1[1], d.p1[2], d.p2[0], d.p2[1], d.p2[2]}
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

var _ Model[RedlockState] = RedlockRules{}

// Same implements [Model]: the nodes in order.
func (RedlockRules) Same(s RedlockState) RedlockState {
	c := &s.Nodes
	if c[1].less(&c[0]) {
		c[0], c[1] = c[1], c[0]
	}
	if c[2].less(&c[1]) {
		c[1], c[2] = c[2], c[1]
	}
	if c[1].less(&c[0]) {
		c[0], c[1] = c[1], c[0]
	}
	return s
}

// Starts implements [Model]: what earlier attempts may have left, any counters, the middle one
// complete.
func (r RedlockRules) Starts() []RedlockState {
	var all []RedlockState
	for a := int8(0); a <= r.Highest; a++ {
		for b := a; b <= r.Highest; b++ {
			for c := b; c <= r.Highest; c++ {
				s := RedlockState{Complete: b, loss: r.Loss, double: r.Double}
				s.Nodes[0].Counter, s.Nodes[1].Counter, s.Nodes[2].Counter = a, b, c
				if b > 0 {
					s.issued = 1 << b
				}
				all = append(all, s)
			}
		}
	}
	return all
}

// Event says what a step of the redlock model is, so that it can be played to real code.
type Event int

// The events.
const (
	Begins      Event = iota
	Grants            // a node handles the attempt's grant request, for good or bad
	GrantsTwice       // ... a second time
	Chooses           // the attempt goes on with a set of nodes
	Confirms          // a node handles the confirm
	LockEnds          // on a node
	Forgets           // a node loses its data
	Takes             // a node that is to be admitted takes a peer's counter
	Admits            // a node is back
	Succeeds
)

// sink is where Next puts what may follow.
type sink struct {
	say bool
	add func(s RedlockState, step Step, broken string)
}

// step adds a step. Its text is made only where it is wanted: most are not.
func (o sink) step(t *RedlockState, kind Event, a, n, set int, format string, args ...int) {
	st := Step{Event: kind, Attempt: a, Node: n, Set: set}
	if o.say {
		st.Text = sprint(format, args)
	}
	o.add(*t, st, "")
}

func sprint(format string, args []int) string {
	all := make([]any, len(args))
	for i, n := range args {
		all[i] = n
	}
	return fmt.Sprintf(format, all...)
}

// Next implements [Model].
func (r RedlockRules) Next(s *RedlockState, say bool, add func(RedlockState, Step, string)) {
	out := sink{say, add}
	for n := range nodes {
		r.faults(s, n, out)
	}
	for a := range r.Attempts {
		switch s.at[a].phase {
		case 0:
			t := *s
			t.at[a].phase, t.at[a].floor = 1, s.Complete
			out.step(&t, Begins, a, 0, 0, "attempt %d begins", a+1)
			continue
		case 1:
			r.choose(s, a, out)
		case 2:
			r.confirms(s, a, out)
		}
		for n := range nodes {
			r.grant(s, a, n, out)
		}
	}
}

func (r RedlockRules) faults(s *RedlockState, n int, out sink) {
	c := &s.Nodes[n]
	if c.owner != 0 && !c.down {
		t := *s
		t.Nodes[n].owner = 0
		out.step(&t, LockEnds, 0, n, 0, "on node %d the lock of attempt %d ends", n+1, int(c.owner&7))
	}
	if s.loss > 0 && !c.down && (!r.Slip || c.Counter > 0) {
		t := *s
		t.loss--
		t.seed = 0
		left, how := int8(0), "node %d, with counter %d, loses its data and is out of service"
		switch {
		case r.Slip:
			left, how = c.Counter-1, "node %d, with counter %d, loses its last write and is back at once"
		case r.Back:
			how = "node %d, with counter %d, loses its data and is back at once"
		}
		t.Nodes[n].owner, t.Nodes[n].Counter, t.Nodes[n].down = 0, left, !r.Back
		for k := range nodes {
			t.Nodes[k].read = false
			if t.Nodes[k].wait = 0; r.Wait && k != n {
				t.Nodes[k].wait = s.Nodes[k].owner
			}
		}
		out.step(&t, Forgets, 0, n, 0, how, n+1, int(c.Counter))
	}
	if c.down && r.Admit {
		r.admit(s, n, out)
	}
}

func (r RedlockRules) admit(s *RedlockState, n int, out sink) {
	read := int8(0)
	for _, p := range s.Nodes {
		read += b2i(p.read)
		if p.wait != 0 && p.owner == p.wait {
			return
		}
	}
	if read >= r.Peers {
		t := *s
		c := &s.Nodes[n]
		t.Nodes[n] = Column{Counter: s.seed, p1: c.p1, p2: c.p2}
		out.step(&t, Admits, 0, n, 0, "node %d is admitted with counter %d", n+1, int(s.seed))
		return
	}
	for k, p := range s.Nodes {
		if k != n && !p.down && !p.read {
			t := *s
			t.Nodes[k].read, t.seed = true, max(s.seed, p.Counter)
			if r.Bar {
				t.Nodes[k].owner = 0
			}
			out.step(&t, Takes, 0, n, 0, "node %d takes the counter of node %d, which is %d", n+1, k+1, int(p.Counter))
		}
	}
}

func (r RedlockRules) grant(s *RedlockState, a, n int, out sink) {
	c := &s.Nodes[n]
	if c.down {
		return
	}
	if c.p1[a] != pending { // handled: a duplicate of it may come
		if s.double > 0 && c.owner == 0 {
			t := *s
			t.double--
			t.Nodes[n].Counter++
			t.Nodes[n].owner = int8(a + 1) //nolint:gosec // 1..3
			if r.Exact {
				t.Nodes[n].owner += 8
			}
			out.step(&t, GrantsTwice, a, n, 0, "the request of attempt %d arrives at node %d once more, and is granted with counter %d", a+1, n+1, int(c.Counter)+1)
		}
		return
	}
	t := *s
	if c.owner != 0 {
		t.Nodes[n].p1[a] = over
		out.step(&t, Grants, a, n, 0, "node %d refuses attempt %d", n+1, a+1)
		return
	}
	t.Nodes[n].owner = int8(a + 1) //nolint:gosec // 1..3
	t.Nodes[n].Counter++
	t.Nodes[n].p1[a] = over
	how := "node %d grants attempt %d, late, with counter %d"
	if s.at[a].phase == 1 {
		t.Nodes[n].p1[a] = granted + t.Nodes[n].Counter
		how = "node %d grants attempt %d, with counter %d"
	}
	out.step(&t, Grants, a, n, 0, how, n+1, a+1, int(c.Counter)+1)
}

// choose lets the client go on with any majority of what was granted.
func (r RedlockRules) choose(s *RedlockState, a int, out sink) {
	for set := range 1 << nodes {
		size, number := 0, int8(0)
		for n, c := range s.Nodes {
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
			c := &t.Nodes[n]
			if set&(1<<n) != 0 || !r.OnlyS {
				c.p2[a] = asked
			}
			if c.p1[a] >= granted {
				c.p1[a] = over
			}
		}
		if !r.Confirm {
			r.succeed(t, a, set, out)
			continue
		}
		out.step(&t, Chooses, a, 0, set, heard[set], a+1, int(number))
	}
}

func (r RedlockRules) confirms(s *RedlockState, a int, out sink) {
	x, acks := s.at[a], 0
	for n, c := range s.Nodes {
		if c.p2[a] == acked {
			acks++
		}
		if c.p2[a] != asked || c.down {
			continue
		}
		t := *s
		if r.Check && c.owner != int8(a+1) || r.Lower && c.Counter > x.number { //nolint:gosec // 1..3
			if r.OnlyS {
				t.Nodes[n].p2[a] = overlooked
				out.step(&t, Confirms, a, n, 0, "node %d does not confirm attempt %d", n+1, a+1)
			}
			continue // else the grant may still come, and the confirm after it
		}
		t.Nodes[n].p2[a] = acked
		t.Nodes[n].Counter = max(c.Counter, x.number)
		out.step(&t, Confirms, a, n, 0, "node %d confirms number %d of attempt %d, its counter was %d", n+1, int(x.number), a+1, int(c.Counter))
	}
	if acks >= majority {
		r.succeed(*s, a, 0, out)
	}
}

func (RedlockRules) succeed(t RedlockState, a, set int, out sink) {
	x := &t.at[a]
	number, floor, broken := x.number, x.floor, ""
	how := "attempt %d succeeds with number %d"
	if t.issued&(1<<number) != 0 {
		broken, how = Twice, "attempt %d succeeds with number %d, which was issued before"
	} else if number <= floor {
		broken, how = Descend, "attempt %d succeeds with number %d, and %d was complete before it began"
	}
	t.issued |= 1 << number
	t.Complete = max(t.Complete, number)
	*x = attempt{phase: 3}
	for n := range nodes {
		t.Nodes[n].p2[a] = overlooked
	}
	st := Step{Event: Succeeds, Attempt: a, Set: set}
	if out.say {
		st.Text = sprint(how, []int{a + 1, int(number), int(floor)}[:strings.Count(how, "%d")])
	}
	out.add(t, st, broken)
}

// heard says from which nodes an attempt has heard, by their set.
var heard = [1 << nodes]string{
	0b011: "attempt %d has heard from nodes 1 and 2: its number is to be %d",
	0b101: "attempt %d has heard from nodes 1 and 3: its number is to be %d",
	0b110: "attempt %d has heard from nodes 2 and 3: its number is to be %d",
	0b111: "attempt %d has heard from all nodes: its number is to be %d",
}
