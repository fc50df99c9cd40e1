package redlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/model"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redlock"
)

// TestWeakerRulesAgainstTheRealCode plays the shortest counterexample of each weaker rule, as
// the model finds it, to the real code over real nodes: every request and reply goes through
// a proxy, and is delivered when, where and as often as the counterexample says. What takes
// an attempt back never arrives. The real code must not do what the weaker rule does: no two
// grants get one number, and none a number below one that was complete before it began.
func TestWeakerRulesAgainstTheRealCode(t *testing.T) {
	t.Parallel()
	for name, r := range weaker {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newReplay(t, counterexample(r), 30*time.Second).play()
		})
	}
	// With the operator's Admit in the place of whatever the weaker rule does, and locks that
	// never end, as if the clocks of the nodes stood still: to wait then proves nothing.
	for _, name := range []string{"a node back empty after waiting a TTL", "a node admitted with one peer's counter"} {
		t.Run(name+", by Admit", func(t *testing.T) {
			t.Parallel()
			p := newReplay(t, counterexample(weaker[name]), waited)
			p.admit = true
			p.play()
		})
	}
	t.Run("a node admitted at once, by Admit", func(t *testing.T) {
		t.Parallel()
		p := newReplay(t, admittedAtOnce, waited)
		p.admit = true
		p.play()
	})
}

// waited is the longest TTL where Admit waits for it. A busy machine grants within it.
const waited = 2 * time.Second

// admittedAtOnce is what internal/model finds (V7) for a node that is admitted with the
// counters of both peers, where nothing that was granted before is barred.
var admittedAtOnce = func() found {
	f := found{}
	f.Start.Nodes[1].Counter, f.Start.Nodes[2].Counter = 0, 1
	f.Steps = []model.Step{
		{Event: model.Begins, Attempt: 0},
		{Event: model.Grants, Attempt: 0, Node: 0},
		{Event: model.Grants, Attempt: 0, Node: 2},
		{Event: model.Chooses, Attempt: 0, Set: 1 | 4},
		{Event: model.Confirms, Attempt: 0, Node: 2},
		{Event: model.Forgets, Node: 2},
		{Event: model.Admits, Node: 2},
		{Event: model.Confirms, Attempt: 0, Node: 0},
		{Event: model.Succeeds, Attempt: 0},
		{Event: model.Begins, Attempt: 1},
		{Event: model.Grants, Attempt: 1, Node: 1},
		{Event: model.Grants, Attempt: 1, Node: 2},
		{Event: model.Chooses, Attempt: 1, Set: 2 | 4},
		{Event: model.Confirms, Attempt: 1, Node: 1},
		{Event: model.Confirms, Attempt: 1, Node: 2},
		{Event: model.Succeeds, Attempt: 1},
	}
	return f
}()

// replay is a trace on its way through real nodes.
type replay struct {
	*testing.T
	cluster  *cluster
	operator *redlock.Backend // not through proxies
	direct   []*redis.Client
	f        found
	ttl      time.Duration
	admit    bool // Admit is called where the trace admits a node
	at       [most]*player
	issued   map[int64]string
	complete int64
}

// player is one attempt, by a process of its own.
type player struct {
	name     string
	b        *redlock.Backend
	proxies  []*proxy
	grants   [nodes]*message
	confirms [nodes]*message
	cut      [nodes]bool // the sender of the grant has gone
	early    bool        // it began before a node was admitted
	floor    int64
	cancel   context.CancelFunc
	result   chan result
	over     *result
}

type result struct {
	h   locking.Hold
	err error
}

const contested = "contested"

func newReplay(t *testing.T, f found, ttl time.Duration) *replay {
	t.Helper()
	if f.Steps == nil {
		t.Fatal("there is no counterexample to play")
	}
	c := start(t, nodes, nil)
	o := redlock.Options{NodeTimeout: patient, MaxTTL: ttl}
	p := &replay{T: t, cluster: c, operator: c.ready(t, o), f: f, ttl: ttl, issued: map[int64]string{}}
	knownFor(t, p.operator, ttl)
	for n, s := range c.servers {
		d := connect(s)
		t.Cleanup(func() { _ = d.Close() })
		p.direct = append(p.direct, d)
		// What earlier attempts have left.
		number := min(f.Start.Nodes[n].Counter, f.Start.Complete)
		if err := d.HSet(t.Context(), "fencegate:{"+contested+"}:counter", "ctr", f.Start.Nodes[n].Counter, "number", number, "grant", "").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if p.complete = int64(f.Start.Complete); p.complete > 0 {
		p.issued[p.complete] = "an earlier attempt"
	}
	for a := range p.at {
		b, proxies := c.proxied(t, o)
		p.at[a] = &player{name: fmt.Sprintf("a%d", a+1), b: b, proxies: proxies, result: make(chan result, 1)}
	}
	return p
}

func (p *replay) play() {
	for _, st := range p.f.Steps {
		p.step(st)
	}
	// At last every request arrives that is still under way.
	for _, x := range p.at {
		p.end(x)
		for n := range nodes {
			for _, m := range []*message{x.grants[n], x.confirms[n]} {
				if m != nil {
					p.Logf("%s: a late %s at node %d: %s", x.name, m.kind, n, m.send())
				}
			}
		}
	}
	for range 3 {
		for _, d := range p.direct {
			if err := d.Del(p.Context(), lock(contested)).Err(); err != nil {
				p.Fatal(err)
			}
		}
		r := request(contested)
		r.TTL = p.ttl
		before := p.complete
		p.count("an attempt afterwards", must(p.T, p.operator, r).Token.Number, before)
	}
}

func (p *replay) step(st model.Step) {
	p.Helper()
	x := p.at[st.Attempt]
	switch st.Event {
	case model.Begins:
		p.begin(x)
	case model.Grants, model.GrantsTwice:
		p.Logf("%s: grant at node %d: %s", x.name, st.Node, x.grants[st.Node].send())
		p.freeze(st.Node)
	case model.Chooses:
		p.choose(x, st.Set)
	case model.Confirms:
		p.confirm(x, st.Node)
	case model.LockEnds:
		p.Logf("the lock on node %d ends", st.Node)
		if err := p.direct[st.Node].Del(p.Context(), lock(contested)).Err(); err != nil {
			p.Fatal(err)
		}
	case model.Forgets:
		p.Logf("node %d forgets", st.Node)
		p.cluster.servers[st.Node].RestartEmpty()
	case model.Admits:
		if p.admit {
			if err := p.operator.Admit(p.Context(), st.Node, nil); err != nil {
				p.Fatal(err)
			}
			p.Logf("node %d is admitted, with counter %s", st.Node,
				p.direct[st.Node].HGet(p.Context(), "fencegate:{"+contested+"}:counter", "ctr").Val())
			for _, x := range p.at {
				x.early = x.grants[0] != nil
			}
		}
	case model.Takes: // within Admit
	case model.Succeeds:
		if st.Set != 0 { // the rule knows no confirm: here all arrive
			p.choose(x, st.Set)
			for n := range nodes {
				p.confirm(x, n)
			}
		}
		p.end(x)
	}
}

func (p *replay) begin(x *player) {
	for _, px := range x.proxies {
		px.set(func(kind string) fate {
			switch kind {
			case "grant", "confirm":
				return hold
			case "abort", "release":
				return lose
			}
			return pass
		})
	}
	ctx, cancel := context.WithCancel(p.Context())
	x.floor, x.cancel = p.complete, cancel
	r := request(contested)
	r.TTL = p.ttl
	go func() {
		h, err := x.b.TryAcquire(ctx, r)
		x.result <- result{h, err}
	}()
	for n, px := range x.proxies {
		x.grants[n] = px.next("grant")
	}
	p.Logf("%s begins, %d is complete", x.name, x.floor)
}

// freeze keeps the locks of a node from ending, where their TTL is short.
func (p *replay) freeze(n int) {
	if p.ttl == waited {
		p.direct[n].PExpire(p.Context(), lock(contested), time.Hour)
	}
}

// choose lets the attempt go on with the answers of a set of nodes. It then sends its
// confirms, or has come to another conclusion than the model.
func (p *replay) choose(x *player, set int) {
	for n, m := range x.grants {
		if set&(1<<n) != 0 && m.reply != nil {
			m.answer()
		} else {
			x.cut[n] = true
			m.cut()
		}
	}
	testenv.Eventually(p.T, 20*time.Second, x.name+" to go on", func() bool {
		all := true
		for n := range nodes {
			if set&(1<<n) == 0 {
				continue
			}
			if x.confirms[n] == nil {
				x.confirms[n] = x.proxies[n].take("confirm")
			}
			all = all && x.confirms[n] != nil
		}
		return all || x.done()
	})
}

// done reports whether the attempt has ended, or has begun once more.
func (x *player) done() bool {
	select {
	case r := <-x.result:
		x.over = &r
	default:
	}
	if x.over != nil {
		return true
	}
	for _, px := range x.proxies {
		if m := px.take("grant"); m != nil {
			x.cancel() // no more rounds
			m.cut()
			return true
		}
	}
	return false
}

func (p *replay) confirm(x *player, n int) {
	m := x.confirms[n]
	if m == nil {
		m = x.proxies[n].take("confirm") // where the model did not look for it
	}
	if m == nil {
		p.Logf("%s does not send a confirm to node %d", x.name, n)
		return
	}
	x.confirms[n] = nil
	said := m.deliver()
	p.Logf("%s: confirm at node %d: %s", x.name, n, said)
	if x.early && strings.Contains(said, "confirmed") {
		p.Errorf("%s is confirmed by node %d, which has given its counter to another one since it granted", x.name, n)
	}
	p.freeze(n)
}

// end lets the attempt see no more answers, and counts what it brought.
func (p *replay) end(x *player) {
	if x.cancel == nil || x.grants[0] == nil {
		return
	}
	for n, m := range x.confirms {
		if m != nil {
			m.cut()
			p.Logf("%s gets no answer to its confirm from node %d", x.name, n)
		}
	}
	for n, m := range x.grants {
		if !x.cut[n] {
			m.cut() // harmless where it was answered
		}
	}
	testenv.Eventually(p.T, 20*time.Second, x.name+" to end", func() bool {
		for _, px := range x.proxies {
			for _, kind := range []string{"grant", "confirm"} {
				if m := px.take(kind); m != nil {
					x.cancel()
					m.cut()
				}
			}
		}
		select {
		case r := <-x.result:
			x.over = &r
		default:
		}
		return x.over != nil
	})
	x.cancel()
	x.cancel = nil
	if x.over.err != nil {
		p.Logf("%s is not granted: %s", x.name, strings.ReplaceAll(x.over.err.Error(), "\n", "; "))
		return
	}
	p.Logf("%s is granted %v", x.name, x.over.h.Token)
	p.count(x.name, x.over.h.Token.Number, x.floor)
}

func (p *replay) count(name string, number, floor int64) {
	p.Helper()
	if other := p.issued[number]; other != "" {
		p.Errorf("%s has the number %d of %s", name, number, other)
	}
	if number <= floor {
		p.Errorf("%s has the number %d, and %d was complete when it began", name, number, floor)
	}
	p.issued[number] = name
	p.complete = max(p.complete, number)
}
