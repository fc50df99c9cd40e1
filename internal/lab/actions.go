package lab

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/trace"
)

// The outcomes of events.
const (
	outGranted  = "granted"
	outAccepted = "accepted"
	outRefused  = "refused"
	outFailed   = "failed"
	outUnknown  = "unknown"
	outOK       = "ok"
	outLost     = "lost"
)

// oneCallWait is how long a one-call write waits for the lock.
const oneCallWait = 30 * time.Second

// do carries out a command of the client and returns its event.
func (c *client) do(ctx context.Context, cmd Command) trace.Event {
	e := trace.Event{AtMS: c.s.now(), Actor: c.name, Action: string(cmd.Action), Resource: cmd.Resource}
	if c.s.mode == ModeNone {
		switch cmd.Action {
		case Acquire, Reenter, Check, Renew, Release:
			e.Outcome, e.Text = outOK, "There is no lock in this session: "+c.name+" goes on at once."
			return e
		}
	}
	if cmd.Resource == Stock || cmd.Action == Pair {
		c.update(func() { c.s.touched = true })
	}
	switch cmd.Action {
	case Acquire:
		c.acquire(ctx, &e)
	case Reenter:
		c.reenter(ctx, &e)
	case Read:
		c.readLeft(ctx, &e)
	case Check:
		c.check(&e)
	case Renew:
		e = c.renew(ctx, cmd.Resource)
	case Release:
		c.release(ctx, &e)
	case Retry:
		c.retry(ctx, &e)
	case LoseReply:
		c.lose = true
		e.Outcome, e.Text = outOK, "The reply to "+c.name+"'s next request will be lost on its way."
	default:
		c.writes(ctx, cmd, &e)
	}
	return e
}

// request sends a call for a command and records it in e. The reply is lost if that was asked for.
func (c *client) request(ctx context.Context, e *trace.Event, k call) answer {
	lose := c.lose
	c.lose = false
	e.To = "store"
	if len(k.path) > 5 && k.path[len(k.path)-5:] == "/lock" {
		e.To = "lock"
	}
	a, x := c.s.send(ctx, k, lose)
	e.Exchanges = append(e.Exchanges, x)
	return a
}

// patiently is request for what may have to wait for a lock.
func (c *client) patiently(ctx context.Context, e *trace.Event, short string, k call) (a answer) {
	c.update(func() { c.waits = short })
	c.awaiting(func() { a = c.request(ctx, e, k) })
	c.update(func() { c.waits = "" })
	return a
}

func (s *session) at(short, rest string) string {
	return "/v1/resources/" + url.PathEscape(s.resource(short)) + rest
}

func message(method, path string, v any) call {
	k := call{method: method, path: path}
	if v != nil {
		body, err := json.Marshal(v)
		if err != nil {
			panic(err) // the wire types always marshal
		}
		k.header("Content-Type", wire.TypeJSON)
		k.body = string(body)
	}
	return k
}

func (c *client) acquire(ctx context.Context, e *trace.Event) {
	short := e.Resource
	if l := c.lease(short); l != nil {
		if !l.lost { // it holds it, or believes so: one client asks for one lock once
			k := call{method: http.MethodDelete, path: c.s.at(short, "/lock")}
			k.header(wire.HeaderToken, l.token.Text())
			_, x := c.s.send(ctx, k, false)
			e.Exchanges = append(e.Exchanges, x)
		}
		c.update(func() { delete(c.leases, short) })
	}
	c.grants[short] = fencing.NewGrant()
	e.Source = c.s.lab.o.Source("lock", "acquire")
	sent := time.Now()
	a := c.patiently(ctx, e, short, c.lockCall(short, maxWait))
	c.granted(e, sent, a)
}

func (c *client) lockCall(short string, wait time.Duration) call {
	m := wire.LockRequest{TTL: wire.Span(c.s.ttl), Label: c.name, Grant: c.grants[short]}
	if wait > 0 {
		m.Wait = wire.Span(wait)
	}
	return message(http.MethodPost, c.s.at(short, "/lock"), m)
}

// granted takes in the answer to a request for a lock that was sent at sent.
func (c *client) granted(e *trace.Event, sent time.Time, a answer) {
	short := e.Resource
	var m wire.LockReply
	if a.outcome == fencing.Applied {
		t, err := fencing.Token{}, json.Unmarshal(a.body, &m)
		if err == nil {
			t, err = fencing.ParseToken(c.s.resource(short), m.Token)
		}
		if err != nil {
			e.Outcome, e.Text = outUnknown, c.name+" cannot read the reply."
			return
		}
		expires := time.Duration(m.ExpiresIn)
		l := &lease{token: t, from: sent.Add(time.Duration(m.Waited)), renewAt: time.Now().Add(c.s.ttl / 3)}
		l.until = l.from.Add(expires - drift(expires))
		c.update(func() { c.leases[short] = l })
		e.Outcome, e.Number = outGranted, l.number()
		e.LeaseMS = c.s.since(l.until) - e.AtMS
		e.Text = c.grantText(e, m)
		return
	}
	c.explain(e, a)
	switch {
	case a.outcome == fencing.Unknown:
		e.Text = "No reply comes: " + c.name + " does not know whether it holds the lock. The same grant id asks again."
	case a.problem.Slug() == wire.SlugLeaseLost:
		e.Outcome, e.Text = outLost, "That grant has ended: "+c.name+" must ask with a new one."
		c.lost(short)
	case a.problem.Slug() == wire.SlugHeld:
		e.Text = "Somebody else holds the lock."
		c.lost(short)
	}
}

// drift is by how much the lock store's clock may run faster; a lease ends earlier by it.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// lost takes in that the client was told that it holds the resource no more.
func (c *client) lost(short string) {
	c.update(func() {
		if l := c.leases[short]; l != nil {
			l.lost = true
		}
	})
}

func (c *client) reenter(ctx context.Context, e *trace.Event) {
	if c.grants[e.Resource] == "" {
		e.Outcome, e.Text = outFailed, c.name+" has not asked for this lock yet: there is nothing to enter again."
		return
	}
	e.Source = c.s.lab.o.Source("lock", "acquire")
	sent := time.Now()
	a := c.request(ctx, e, c.lockCall(e.Resource, 0))
	c.granted(e, sent, a)
}

func (c *client) readLeft(ctx context.Context, e *trace.Event) {
	k := call{method: http.MethodGet, path: c.s.at(e.Resource, "/records/"+leftKey)}
	l := c.lease(e.Resource)
	fenced := c.s.mode == ModeGrant && l != nil
	if fenced {
		k.header(wire.HeaderToken, l.token.Text())
		e.Number = l.number()
	}
	e.Key, e.Source = leftKey, c.s.lab.o.Source("store", "read")
	a := c.request(ctx, e, k)
	if a.outcome != fencing.Applied {
		c.explain(e, a)
		return
	}
	e.Outcome, e.Value = outOK, string(a.body)
	c.update(func() { c.read[e.Resource] = e.Value })
	e.Text = c.name + " reads that " + e.Value + " are left."
	if fenced {
		e.Text = c.name + " reads that " + e.Value + " are left, with " + e.Number + ": the store saw that it is the mark."
	}
}

// check looks at the lease, as a careful program does before it writes. It asks nobody.
func (c *client) check(e *trace.Event) {
	l := c.lease(e.Resource)
	switch {
	case l == nil:
		e.Outcome, e.Text = outLost, c.name+" holds nothing."
		return
	case l.trusted(time.Now()):
		e.Outcome, e.Text = outOK, c.name+" looks at its lease: by its own clock it is good. What happens after this look, it cannot see."
	default:
		e.Outcome, e.Text = outLost, c.name+" looks at its lease: it is over."
	}
	e.Number = l.number()
}

// renew extends the lease of a resource.
func (c *client) renew(ctx context.Context, short string) trace.Event {
	e := trace.Event{AtMS: c.s.now(), Actor: c.name, To: "lock", Action: string(Renew), Resource: short, Source: c.s.lab.o.Source("lock", "renew")}
	l := c.lease(short)
	if l == nil {
		e.To, e.Source = "", nil
		e.Outcome, e.Text = outFailed, c.name+" holds nothing that it could renew."
		return e
	}
	k := message(http.MethodPatch, c.s.at(short, "/lock"), wire.RenewRequest{TTL: wire.Span(c.s.ttl)})
	k.header(wire.HeaderToken, l.token.Text())
	e.Number = l.number()
	sent := time.Now()
	a, x := c.s.send(ctx, k, false)
	e.Exchanges = append(e.Exchanges, x)
	var m wire.RenewReply
	switch {
	case a.outcome == fencing.Applied && json.Unmarshal(a.body, &m) == nil:
		until := sent.Add(c.s.ttl - drift(c.s.ttl))
		c.update(func() {
			if held := c.leases[short]; held != nil && held.token == l.token {
				held.until, held.renewAt = until, sent.Add(c.s.ttl/3)
			}
		})
		e.Outcome, e.LeaseMS = outOK, c.s.since(until)-e.AtMS
		e.Text = c.name + " renews its lease on " + e.Number + "."
	case a.problem.Slug() == wire.SlugLeaseLost:
		c.lost(short)
		e.Outcome, e.Text = outLost, c.name+" wants to renew "+e.Number+" and hears that it is lost."
	default:
		c.explain(&e, a)
	}
	return e
}

func (c *client) release(ctx context.Context, e *trace.Event) {
	l := c.lease(e.Resource)
	if l == nil {
		e.Outcome, e.Text = outFailed, c.name+" holds nothing that it could release."
		return
	}
	k := call{method: http.MethodDelete, path: c.s.at(e.Resource, "/lock")}
	k.header(wire.HeaderToken, l.token.Text())
	e.Number, e.Source = l.number(), c.s.lab.o.Source("lock", "release")
	a := c.request(ctx, e, k)
	c.update(func() { delete(c.leases, e.Resource) })
	var m wire.ReleaseReply
	if a.outcome != fencing.Applied || json.Unmarshal(a.body, &m) != nil {
		c.explain(e, a)
		return
	}
	c.s.settled(ctx, e)
	switch {
	case !m.Released:
		e.Outcome, e.Text = outLost, "The lock of "+e.Number+" had ended before: "+c.name+" has nothing to give back."
	case c.s.mode == ModeGrant:
		e.Outcome, e.Text = outOK, c.name+" gives the lock back: the store retires "+e.Number+", then the lock is free."
	default:
		e.Outcome, e.Text = outOK, c.name+" gives the lock of "+e.Number+" back. The store is not told."
	}
}

// explain says what an answer means that is no success.
func (c *client) explain(e *trace.Event, a answer) {
	p := a.problem
	switch a.outcome {
	case fencing.Refused:
		e.Outcome, e.Reason = outRefused, p.Reason
		if e.Reason == "" {
			e.Reason = p.Slug()
		}
		if p.Highest != nil {
			e.Highest = strconv.FormatInt(int64(*p.Highest), 10)
		}
		e.Text = refusedText(c.s, e, p)
		if p.Slug() == wire.SlugStaleToken || p.Slug() == wire.SlugLeaseLost {
			if short, ok := c.s.short(p.Resource); ok && e.Action != string(Forge) && e.Action != string(Retry) {
				c.lost(short)
			}
		}
	case fencing.Failed:
		e.Outcome, e.Text = outFailed, "It failed, and surely nothing happened: "+p.Title+"."
	case fencing.Unknown, fencing.Applied:
		e.Outcome, e.Text = outUnknown, "No reply comes. "+c.name+" does not know whether its request was carried out."
	}
}
