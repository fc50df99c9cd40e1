package sim_test

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// history holds the rules. The hosts tell it what they did, the clients what they were told; the
// first rule that does not hold is kept. It trusts nobody: it compares tokens itself.
type history struct {
	log *log
	net *network

	mu       sync.Mutex // guards what follows
	violated string
	counts   counts

	lockForgot bool // the lock store lost grants
	clockLeft  bool // its clock left the drift
	dataLost   bool // the data store lost what it had acknowledged

	locks map[string]*lockHistory
	data  map[string]*dataHistory
	ops   map[string]*op // by the value written
}

// lockHistory is about one resource, since its lock store forgot.
type lockHistory struct {
	highest   int64
	grants    map[int64]string
	delivered []delivery
	leases    []*locking.Lease
	evicted   int64 // the highest number that was evicted: its holder learns it by its next renewal
}

// delivery is a token that reached its holder.
type delivery struct {
	number int64
	at     int // the cell
}

// dataHistory is about one resource.
type dataHistory struct {
	grants   map[int64]string       // by number, whose mark it was
	raised   map[fencing.Token]bool // in this incarnation
	last     fencing.Token          // whose operation was the last that was accepted
	ended    map[fencing.Token]bool // had operations accepted before another did
	released map[fencing.Token]bool // whose release was acknowledged
	evicted  int64                  // numbers up to it have been evicted, as was acknowledged
}

// op is one write: the value that it was made of, and what its client was told.
type op struct {
	token   fencing.Token
	value   string
	was     string // the value that the client had read
	applied int
	acked   bool
	refused bool
	failed  bool
	lost    bool // the data store lost it later
}

func newHistory(n *network, l *log) *history {
	return &history{
		log: l, net: n, locks: map[string]*lockHistory{}, data: map[string]*dataHistory{}, ops: map[string]*op{},
	}
}

func (h *history) lock(resource string) *lockHistory {
	l := h.locks[resource]
	if l == nil {
		l = &lockHistory{grants: map[int64]string{}}
		h.locks[resource] = l
	}
	return l
}

func (h *history) of(resource string) *dataHistory {
	d := h.data[resource]
	if d == nil {
		d = &dataHistory{
			grants: map[int64]string{}, raised: map[fencing.Token]bool{},
			ended: map[fencing.Token]bool{}, released: map[fencing.Token]bool{},
		}
		h.data[resource] = d
	}
	return d
}

// violation keeps the first one. Callers hold h.mu.
func (h *history) violation(format string, args ...any) {
	if h.violated == "" {
		h.violated = fmt.Sprintf(format, args...)
		h.log.add(h.net.now(), "VIOLATED: %s", h.violated)
	}
}

// forgot says that the lock store lost its grants.
func (h *history) forgot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lockForgot = true
	for _, l := range h.locks {
		l.highest, l.grants = 0, map[int64]string{}
	}
}

// jumped says that the lock store's clock left the drift.
func (h *history) jumped() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clockLeft = true
}

// granted: INV9, numbers are unique and increase, as long as the lock store forgets nothing; and
// a lock that is held is granted to nobody else.
func (h *history) granted(r locking.Request, before locking.Status, hold locking.Hold, err error) {
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lock(r.Resource)
	n := hold.Token.Number
	switch known, seen := l.grants[n]; {
	case hold.Drawn && n <= l.highest:
		h.violation("INV9: %v was drawn after number %d", hold.Token, l.highest)
	case hold.Drawn && before.Held && l.grants[before.Number] != r.Grant && l.grants[before.Number] != "":
		h.violation("INV11: %v was granted while number %d held the lock", hold.Token, before.Number)
	case seen && known != r.Grant:
		h.violation("INV9: %v has two grants", hold.Token)
	case n <= r.Floor:
		h.violation("%v was granted under the floor %d", hold.Token, r.Floor)
	}
	if hold.Drawn {
		l.highest, l.grants[n] = max(l.highest, n), r.Grant
	}
}

// touched: INV11, what is done to one hold changes no other, and a renewal revives none.
func (h *history) touched(what string, t fencing.Token, before, after locking.Status, did bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	its := before.Number == t.Number
	if what == "evict" {
		l := h.lock(t.Resource)
		l.evicted = max(l.evicted, t.Number)
	}
	if grant, seen := h.lock(t.Resource).grants[t.Number]; t.Grant != "" && seen && grant != t.Grant {
		its = false
	}
	switch {
	case !its && before.Held && (!after.Held || after.Number != before.Number):
		h.violation("INV11: %s of %v ended the hold of number %d", what, t, before.Number)
	case what == "renew" && !before.Held && (did || after.Held):
		h.violation("INV11: the renewal of %v revived a hold that had ended", t)
	case what == "renew" && did && !its:
		h.violation("INV11: the renewal of %v renewed the hold of number %d", t, before.Number)
	case what == "renew" && before.Held && after.Remaining < before.Remaining:
		h.violation("INV11: the renewal of %v brought the end of number %d nearer", t, before.Number)
	}
}

// marked: INV1, a mark's number never goes back, and one number has one grant.
func (h *history) marked(what string, t fencing.Token, before, after fencing.Mark, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.of(t.Resource)
	if after.Number < before.Number || before.Retired && after.Number == before.Number && !after.Retired {
		h.violation("INV1: %s of %v made the mark %v of %v", what, t, after, before)
	}
	if !after.Retired && err == nil {
		if g, seen := d.grants[after.Number]; seen && g != after.Grant {
			h.violation("INV1: number %d of %s has two grants", after.Number, t.Resource)
		}
		d.grants[after.Number] = after.Grant
	}
	if what != "raise" || err != nil {
		return
	}
	if g := d.grants[t.Number]; g != t.Grant {
		h.violation("INV1: %v was raised beside another grant of its number", t)
	}
	d.raised[t] = true
}

// accepted: INV2, INV3 and INV4, of an operation that the data store accepted under a mark.
func (h *history) accepted(what string, t fencing.Token, m fencing.Mark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.of(t.Resource)
	switch {
	case m.Retired || m.Number != t.Number || m.Grant != t.Grant:
		h.violation("INV2: a %s of %v was accepted under the mark %v", what, t, m)
	case d.ended[t]:
		h.violation("INV3: a %s of %v was accepted after one of %v", what, t, d.last)
	case !d.raised[t]:
		h.violation("INV4: a %s of %v was accepted, which was not raised in this incarnation", what, t)
	case d.released[t]:
		h.violation("a %s of %v was accepted after its release was acknowledged", what, t)
	case t.Number <= d.evicted:
		h.violation("a %s of %v was accepted after number %d was evicted", what, t, d.evicted)
	}
	if d.last != t {
		if d.last.Number != 0 {
			d.ended[d.last] = true
			h.counts.takeovers++
		}
		d.last = t
	}
}

// applied: INV5, a write replaces the very value that its client had read; and INV6 and INV7.
func (h *history) applied(s *dataHost, c storage.Commit, value, before string) {
	t := c.Tokens[0]
	h.accepted("write", t, s.mark(t.Resource))
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.ops[value]
	o.applied++
	switch {
	case o.was != before:
		h.violation("INV5: %s was written over %s by %v, who had read %q: an update is lost", value, before, t, o.was)
	case o.applied > 1 && !o.lost:
		h.violation("INV7: %s was applied twice", value)
	case o.refused || o.failed:
		h.violation("INV6: %s was applied, its client was told that it never would be", value)
	}
	o.lost = false
}

// restarted says that the data store came back with what it has now.
func (h *history) restarted(had, has dataset) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r, d := range h.data {
		d.raised = map[fencing.Token]bool{}
		if had.marks[r].Number == has.marks[r].Number && len(had.values[r]) == len(has.values[r]) {
			continue
		}
		h.dataLost = true
		for _, value := range had.values[r] {
			if !slices.Contains(has.values[r], value) {
				h.ops[value].lost = true
			}
		}
		d.grants, d.ended, d.released = map[int64]string{}, map[fencing.Token]bool{}, map[fencing.Token]bool{}
		d.last, d.evicted = fencing.Token{}, 0
	}
}

// leased: numbers reach holders in order, and no two leases of a resource are trusted at once.
func (h *history) leased(lease *locking.Lease, asked int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := lease.Token()
	l := h.lock(t.Resource)
	h.counts.leases++
	if !h.lockForgot || !h.dataLost {
		for _, d := range l.delivered {
			if d.number == t.Number || d.at < asked && d.number > t.Number {
				h.violation("INV9: %v was granted after number %d had been", t, d.number)
			}
		}
	}
	l.delivered = append(l.delivered, delivery{t.Number, h.net.now()})
	var alive []*locking.Lease
	for _, other := range l.leases {
		if other.Context().Err() != nil || other.Token().Number <= l.evicted {
			continue
		}
		alive = append(alive, other)
		if lease.Context().Err() == nil && time.Now().Before(other.Deadline()) && !h.lockForgot && !h.clockLeft {
			h.violation("trust: %v and %v are trusted at once", lease, other)
		}
	}
	alive = append(alive, lease)
	l.leases = alive
}

// gaveBack: after a release that was acknowledged the token is not the mark. The time is the
// present one: nothing but the reply may have happened since.
func (h *history) gaveBack(t fencing.Token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of(t.Resource).released[t] = true
}

// evictedUpTo: after an eviction that was acknowledged no number up to it is accepted.
func (h *history) evictedUpTo(resource string, number int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.of(resource)
	d.evicted = max(d.evicted, number)
}

// writing says what a client is about to write over what.
func (h *history) writing(t fencing.Token, value, was string) *op {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := &op{token: t, value: value, was: was}
	h.ops[value] = o
	h.counts.writes++
	return o
}

// told says what a client learned of its write in the end.
func (h *history) told(o *op, out fencing.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch out {
	case fencing.Applied:
		o.acked = true
		if o.applied == 0 {
			h.violation("INV6: the client of %s was told that it is applied, and it is not", o.value)
		}
	case fencing.Refused:
		o.refused = true
		h.counts.refusals++
	case fencing.Failed:
		o.failed = true
		h.counts.failures++
	default:
		h.counts.unknowns++
	}
}

// end looks at what the data store has in the end.
func (h *history) end(s *dataHost) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.ops {
		there := slices.Contains(s.values[o.token.Resource], o.value)
		switch {
		case o.acked && !there && !o.lost:
			h.violation("INV5: %s was acknowledged, and is lost", o.value)
		case (o.refused || o.failed) && there:
			h.violation("INV6: %s is there, its client was told that it never would be", o.value)
		}
	}
}

func (h *history) count(fn func(*counts)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn(&h.counts)
}
