package check

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// The outcomes, as they are written down.
const (
	applied = "applied"
	refused = "refused"
	failed  = "failed"
	unknown = "unknown"
)

// never is when a call returns that was not answered.
const never = math.MaxInt64

// run is a history with its indexes, and what was found.
type run struct {
	*history.History
	undecided time.Duration
	pictures  int // that may still be drawn

	groups   []*group          // by name
	of       map[string]*group // by resource
	eras     []window          // the losses that end an era, in order, apart from each other
	grants   []*grant          // by Return
	holds    []string          // the resources of grants, in order
	byGrant  map[grantID]*grant
	released map[grantID][]*history.Op
	byHold   map[string][]*grant // by resource, each by Return

	found  map[[2]string]int
	result Result
}

// group is what is checked together.
type group struct {
	name     string
	workload string
	ops      []*history.Op // by Call
	commits  []*commit     // by Call
	keyed    map[string]*commit
	reads    []*history.Op // that were answered with a record, by Call
	initial  []history.Cell
	final    []history.Cell
	writers  map[cellID][]*commit // of every value that was put
	added    map[recordID]bool    // records that were added to: their values are not unique
}

// recordID names a record, cellID a value of it.
type (
	recordID struct{ resource, key string }
	cellID   struct {
		recordID
		value string
	}
)

func idOf(c history.Cell) recordID { return recordID{c.Resource, c.Key} }

// commit is one logical commit: a call, or all attempts under one key.
type commit struct {
	attempts []*history.Op
	call     int64  // of the first attempt
	ret      int64  // of the first definite answer; never where there is none
	outcome  string // applied, refused, failed or unknown, of all attempts together
	cells    []history.Cell
	writes   []history.Write // with the results where it was applied
	forged   bool
	seen     bool // what it wrote, or the same value, was seen
	sure     bool // what only it wrote was seen
}

func (c *commit) id() string { return c.attempts[0].ID }

// mayBe reports whether what the commit wrote may be there.
func (c *commit) mayBe() bool { return c.outcome == applied || c.outcome == unknown }

// is reports whether the commit was certainly applied.
func (c *commit) is() bool { return c.outcome == applied || c.outcome == unknown && c.sure }

// token returns the token of a resource that the commit was applied under, as far as that is
// known: none for a one-call commit, nor where several attempts with different tokens could be it. A
// Replayed one could be: a gateway's client may have sent it twice, the answer to the first was lost.
func (c *commit) token(resource string) (history.Token, bool) {
	var could []history.Token
	for _, op := range c.attempts {
		if definite(op) && op.Outcome != applied {
			continue
		}
		for _, t := range op.Tokens {
			switch {
			case t.Resource != resource:
			case op.Outcome == applied && !c.replay(op):
				return t, true
			case !slices.Contains(could, t):
				could = append(could, t)
			}
		}
	}
	if len(could) != 1 {
		return history.Token{}, false
	}
	return could[0], true
}

// replay reports whether an attempt was told what another one had done before. Without one that can have
// been applied a Replayed answer can only be of itself, sent twice.
func (c *commit) replay(op *history.Op) bool {
	return op.Replayed && !op.Forged && slices.ContainsFunc(c.attempts, func(o *history.Op) bool {
		return o != op && o.Call < op.Call && (!definite(o) || o.Outcome == applied)
	})
}

// replay is commit's, for any call.
func (r *run) replay(op *history.Op) bool {
	if !op.Replayed || op.Forged {
		return false
	}
	g := r.of[op.Group]
	return g != nil && g.keyed[op.Key] != nil && g.keyed[op.Key].replay(op)
}

// definite reports whether an attempt's answer says what became of it.
func definite(op *history.Op) bool {
	return op.Return != 0 && op.Outcome != unknown && op.Outcome != ""
}

func newRun(h *history.History, o *Options) *run {
	if o == nil {
		o = new(Options)
	}
	r := &run{
		History:   h,
		undecided: cmp.Or(o.Undecided, 20*time.Second),
		pictures:  cmp.Or(o.Pictures, 3),
		of:        make(map[string]*group),
		found:     make(map[[2]string]int),
		eras:      windowsOf(h.Faults, history.LosesData, history.LosesCommits),
	}
	byName := make(map[string]*group)
	for i := range h.Ops {
		op := &h.Ops[i]
		g := byName[op.Group]
		if g == nil {
			g = &group{name: op.Group, workload: op.Workload}
			byName[op.Group] = g
			r.groups = append(r.groups, g)
		}
		g.ops = append(g.ops, op)
	}
	slices.SortFunc(r.groups, func(a, b *group) int { return cmp.Compare(a.name, b.name) })
	for _, g := range r.groups {
		slices.SortStableFunc(g.ops, func(a, b *history.Op) int { return cmp.Compare(a.Call, b.Call) })
		r.of[g.name] = g
	}
	for _, g := range r.groups {
		r.claim(g)
	}
	for _, c := range h.Initial {
		if g := r.of[c.Resource]; g != nil {
			g.initial = append(g.initial, c)
		}
	}
	for _, c := range h.Final {
		if g := r.of[c.Resource]; g != nil {
			g.final = append(g.final, c)
		}
	}
	for _, g := range r.groups {
		g.index()
	}
	r.indexGrants()
	return r
}

// claim tells which resources belong to the group besides the one that names it. A forged call may
// name anything.
func (r *run) claim(g *group) {
	take := func(resource string) {
		if resource != "" && r.of[resource] == nil {
			r.of[resource] = g
		}
	}
	for _, op := range g.ops {
		if op.Forged {
			continue
		}
		for _, t := range op.Tokens {
			take(t.Resource)
		}
		for _, c := range op.Cells {
			take(c.Resource)
		}
		for _, w := range op.Writes {
			take(w.Resource)
		}
	}
}

func (g *group) index() {
	g.keyed = make(map[string]*commit)
	add := func(op *history.Op) *commit {
		c := &commit{attempts: []*history.Op{op}, forged: op.Forged}
		g.commits = append(g.commits, c)
		return c
	}
	for _, op := range g.ops {
		switch {
		case op.Kind == history.Read && op.Outcome == applied && len(op.Cells) > 0:
			g.reads = append(g.reads, op)
		case op.Kind != history.Commit:
		case op.Key == "" || op.Forged: // a forged one has a key of its own
			add(op)
		case g.keyed[op.Key] == nil:
			g.keyed[op.Key] = add(op)
		default:
			c := g.keyed[op.Key]
			c.attempts = append(c.attempts, op)
		}
	}
	g.writers = make(map[cellID][]*commit, len(g.commits))
	g.added = make(map[recordID]bool)
	for _, c := range g.commits {
		c.judge()
		for _, w := range c.writes {
			id := recordID{w.Resource, w.Key}
			switch w.Kind {
			case "put":
				g.writers[cellID{id, w.Value}] = append(g.writers[cellID{id, w.Value}], c)
			case "add":
				g.added[id] = true
			}
		}
	}
	g.observe()
}

// judge sums the answers of all attempts up.
func (c *commit) judge() {
	first := c.attempts[0]
	c.call, c.ret, c.cells, c.writes = first.Call, never, first.Cells, first.Writes
	open := false
	var last int64
	for _, op := range c.attempts {
		switch {
		case op.Outcome == applied, op.Outcome == refused && op.Key != "" && byData(op.Reason):
			if c.ret > op.Return || c.outcome != op.Outcome && op.Outcome == applied {
				c.ret = op.Return
			}
			if c.outcome != applied {
				c.outcome = op.Outcome
			}
			if op.Outcome == applied && len(op.Writes) > 0 {
				c.writes = op.Writes // all attempts have the same, and this one has the results
			}
		case !definite(op):
			open = true
		default:
			last = max(last, op.Return)
		}
	}
	switch {
	case c.outcome != "":
	case c.forged: // whatever the answer, it must not be applied
		c.outcome, c.ret = refused, first.Call
	case open:
		c.outcome = unknown
	default:
		c.outcome, c.ret = c.attempts[len(c.attempts)-1].Outcome, last
	}
}

// byFence reports whether a refusal's reason is one of the rule's.
func byFence(reason string) bool {
	switch reason {
	case "superseded", "retired", "duplicate", "ungranted", "grant-required":
		return true
	}
	return false
}

// byData reports whether the data decided a refusal, which then is kept under the commit's key.
func byData(reason string) bool {
	switch reason {
	case "below-minimum", "version-mismatch", "not-counter", "counter-range":
		return true
	}
	return false
}

// observe marks the commits of which something was seen: read, computed from by one that counts,
// or there in the end. Values need not be unique: balances are not.
func (g *group) observe() {
	seeded := make(map[cellID]bool, len(g.initial))
	for _, c := range g.initial {
		seeded[cellID{idOf(c), c.Value}] = true
	}
	type sight struct {
		cell history.Cell
		sure bool
	}
	var todo []sight
	see := func(cells []history.Cell, sure bool) {
		for _, c := range cells {
			todo = append(todo, sight{c, sure})
		}
	}
	see(g.final, true)
	for _, op := range g.reads {
		see(op.Cells, true)
	}
	for _, c := range g.commits {
		if c.outcome == applied {
			see(c.cells, true)
		}
	}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		id := cellID{idOf(s.cell), s.cell.Value}
		could := slices.DeleteFunc(slices.Clone(g.writers[id]), func(c *commit) bool { return !c.mayBe() })
		sure := s.sure && len(could) == 1 && !seeded[id]
		for _, c := range could {
			if c.seen && (c.sure || !sure) {
				continue
			}
			c.seen, c.sure = true, c.sure || sure
			if c.outcome == unknown {
				see(c.cells, sure)
			}
		}
	}
}
