package check_test

import (
	"fmt"
	"strconv"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// target is a group that a turn works on.
type target struct {
	workload  string
	resources []string
}

// seed writes what a group begins with.
func (s *sim) seed(workload string, i int) target {
	name := fmt.Sprintf("%s-%d", workload, i)
	t := target{workload, []string{name}}
	put := func(resource, key, value string, version int64) {
		s.data[[2]string{resource, key}] = rec{value: value, version: version}
		s.h.Initial = append(s.h.Initial, history.Cell{Resource: resource, Key: key, Value: value, Version: version})
	}
	switch workload {
	case "register":
		put(name, "value", "0 seed", 1)
	case "bank":
		t.resources = []string{name + "-a", name + "-b"}
		put(name+"-a", "balance", "500", 1)
		put(name+"-b", "balance", "500", 1)
	case "coupon":
		stock := "1000000"
		if i%2 == 1 {
			stock = "5" // it runs out
		}
		put(name, "stock", stock, 1)
	case "log":
		put(name, "length", "0", 1)
	case "table":
		put(name, "row", "0 seed", 0)
	}
	return t
}

// seat takes turns.
type seat struct {
	*sim
	process, seat int
	wait          func(int64)
	own           []string // elements
}

// call makes a call: it is written down, sent, and answered, or not.
func (c *seat) call(op history.Op, do func(history.Op) answer) *history.Op {
	c.wait(1)
	if op.ID == "" {
		op.ID = c.next()
	}
	op.Process, op.Seat, op.Call = c.process, c.seat, c.now
	p := &op
	c.calls = append(c.calls, p)
	sent := op
	arrives := c.now + 1 + c.rnd.Int64N(3*ms)
	answered := arrives + 1 + c.rnd.Int64N(3*ms)
	if c.rnd.IntN(25) == 0 { // it is late, or the answer is
		if c.rnd.IntN(2) == 0 {
			arrives += c.rnd.Int64N(900 * ms)
		}
		answered = arrives + 2000*ms
	}
	timeout := c.now + 50*ms
	var a answer
	if c.resend && op.Key != "" && c.rnd.IntN(6) == 0 { // the client sends it twice, and hears of the second
		c.at(arrives, func() { _ = do(sent) })
		arrives += 1 + c.rnd.Int64N(6*ms)
		answered = max(answered, arrives+1)
	}
	if c.rnd.IntN(60) > 0 || arrives < timeout && answered < timeout {
		c.at(arrives, func() { a = do(sent) })
	}
	if answered >= timeout {
		c.wait(timeout - c.now)
		p.Return, p.Outcome = c.now, "unknown"
		return p
	}
	c.wait(answered - c.now)
	p.Return, p.Outcome, p.Reason, p.Replayed, p.Freed = c.now, a.outcome, a.reason, a.replayed, a.freed
	if a.tokens != nil {
		p.Tokens = a.tokens
	}
	if a.cells != nil {
		p.Cells = a.cells
	}
	if a.writes != nil {
		p.Writes = a.writes
	}
	return p
}

// lease acquires the locks of a group.
func (c *seat) lease(g target) *history.Op {
	for range 30 {
		op := c.call(history.Op{Kind: history.Acquire, Workload: g.workload, Group: g.resources[0]}, func(history.Op) answer { return c.acquire(g.resources) })
		if op.Outcome == "applied" {
			op.Until = op.Call + ttl
			return op
		}
		c.wait(20*ms + c.rnd.Int64N(60*ms))
	}
	return nil
}

func (c *seat) turn(g target) {
	if g.workload == "coupon" && c.rnd.IntN(4) == 0 {
		c.redeem(g, nil)
		return
	}
	l := c.lease(g)
	if l == nil {
		return
	}
	// A commit whose answer was lost may yet come: what is read under the same token then is not
	// safe from it, so nothing more is written under it.
	sure := true
	for range 1 + c.rnd.IntN(2) {
		sure = sure && c.work(g, l.Tokens, "")
	}
	if c.rnd.IntN(8) == 0 {
		c.reenter(g, l.Tokens)
	}
	if sure && c.rnd.IntN(8) == 0 {
		c.wait(ttl + c.rnd.Int64N(ttl))
		c.work(g, l.Tokens, "late")
	}
	if c.rnd.IntN(8) == 0 {
		return // without a release
	}
	rel := c.call(history.Op{Kind: history.Release, Workload: g.workload, Group: g.resources[0], Tokens: l.Tokens, Until: min(l.Until, c.now)},
		func(op history.Op) answer { return c.release(op.Tokens) })
	if rel.Outcome != "applied" {
		return
	}
	switch c.rnd.IntN(6) {
	case 0:
		c.work(g, l.Tokens, "forged")
	case 1:
		c.call(history.Op{Kind: history.Renew, Workload: g.workload, Group: g.resources[0], Tokens: l.Tokens[:1]},
			func(op history.Op) answer { return c.renew(op.Tokens) })
	}
}

func (c *seat) reenter(g target, tokens []history.Token) {
	back := tokens[0]
	if c.strikes("bump") {
		back.Number++
	}
	c.call(history.Op{Kind: history.Reenter, Workload: g.workload, Group: g.resources[0], Tokens: []history.Token{tokens[0], back}},
		func(history.Op) answer { return answer{outcome: "applied"} })
}

// get reads a record inside the fence.
func (c *seat) get(g target, tokens []history.Token, at int, key string) (history.Cell, bool) {
	op := c.call(history.Op{
		Kind: history.Read, Workload: g.workload, Group: g.resources[0], Tokens: tokens[at : at+1],
		Cells: []history.Cell{{Resource: g.resources[at], Key: key}},
	}, c.read)
	return op.Cells[0], op.Outcome == "applied"
}

func put(resource, key, value string) history.Write {
	return history.Write{Kind: "put", Resource: resource, Key: key, Value: value}
}

// work reads, computes and commits. It returns false where the outcome is unknown.
func (c *seat) work(g target, tokens []history.Token, how string) bool {
	r := g.resources[0]
	op := history.Op{ID: c.next(), Kind: history.Commit, Workload: g.workload, Group: r, Tokens: tokens, Forged: how == "forged"}
	read := func(at int, key string) (history.Cell, bool) {
		if how == "forged" { // what it would have read
			d := c.data[[2]string{g.resources[at], key}]
			return history.Cell{Resource: g.resources[at], Key: key, Value: d.value, Version: d.version}, true
		}
		cell, ok := c.get(g, tokens, at, key)
		op.Cells = append(op.Cells, cell)
		return cell, ok
	}
	hold := func() {
		if c.rnd.IntN(12) == 0 {
			c.wait(c.rnd.Int64N(3 * ttl))
		}
	}
	switch g.workload {
	case "register", "table":
		key := map[string]string{"register": "value", "table": "row"}[g.workload]
		cell, ok := read(0, key)
		if !ok {
			return true
		}
		op.Writes = []history.Write{put(r, key, fmt.Sprintf("%d %s", leading(cell.Value)+1, op.ID))}
	case "bank":
		a, ok1 := read(0, "balance")
		b, ok2 := read(1, "balance")
		if !ok1 || !ok2 {
			return true
		}
		n := c.rnd.Int64N(20) - 10
		op.Writes = []history.Write{put(r, "balance", fmt.Sprint(leading(a.Value)+n)), put(g.resources[1], "balance", fmt.Sprint(leading(b.Value)-n))}
	case "set":
		if len(c.own) > 0 && how == "" && c.rnd.IntN(3) == 0 {
			c.get(g, tokens, 0, c.own[c.rnd.IntN(len(c.own))])
		}
		op.Writes = []history.Write{put(r, "e."+op.ID, op.ID)}
		c.own = append(c.own, "e."+op.ID)
	case "task":
		_, ok1 := read(0, "left")
		_, ok2 := read(0, "right")
		if !ok1 || !ok2 {
			return true
		}
		op.Writes = []history.Write{put(r, "left", op.ID), put(r, "right", op.ID)}
	case "log":
		cell, ok := read(0, "length")
		if !ok {
			return true
		}
		n := leading(cell.Value) + 1
		op.Writes = []history.Write{
			put(r, "length", fmt.Sprint(n)),
			put(r, fmt.Sprintf("entry.%08d", n), fmt.Sprintf("%d %s %s", tokens[0].Number, tokens[0].Grant, op.ID)),
		}
	case "coupon":
		if how == "" {
			c.redeem(g, tokens)
		}
		return true
	}
	hold()
	return c.call(op, c.commit).Outcome != "unknown"
}

// redeem takes one from a stock, and asks again until it knows.
func (c *seat) redeem(g target, tokens []history.Token) {
	r := g.resources[0]
	key := c.next()
	for range 6 {
		op := history.Op{Kind: history.Commit, Workload: g.workload, Group: r, Tokens: tokens, Key: key, Once: tokens == nil, Writes: []history.Write{
			{Kind: "add", Resource: r, Key: "stock", Delta: -1}, put(r, "receipt."+key, key),
		}}
		do := c.commit
		if op.Once {
			do = c.locked
		}
		answer := c.call(op, do)
		switch {
		case answer.Outcome == "applied":
			return
		case answer.Outcome == "refused" && tokens != nil:
			l := c.lease(g)
			if l == nil {
				return
			}
			tokens = l.Tokens
		}
		c.wait(c.rnd.Int64N(40 * ms))
	}
}

// locked is a one-call commit.
func (s *sim) locked(op history.Op) answer {
	if a, ok := s.keys[[2]string{op.Group, op.Key}]; ok {
		a.replayed = true
		return a
	}
	a := s.acquire([]string{op.Group})
	if a.outcome != "applied" {
		return a
	}
	with := op
	with.Tokens = a.tokens
	got := s.commit(with)
	s.release(a.tokens)
	got.tokens = nil
	return got
}

func leading(value string) int64 {
	for i, r := range value {
		if r == ' ' {
			value = value[:i]
			break
		}
	}
	n, _ := strconv.ParseInt(value, 10, 64)
	return n
}
