package lab

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/storage"
)

// sent is a write that was sent, so that it can be sent again, byte for byte.
type sent struct {
	call     call
	task     *task // nil: it hands nothing out, such as a receipt
	resource string
	key      string
	number   string
	value    string
	slow     bool // it may wait for a lock
}

// writes carries out a command that changes the store.
func (c *client) writes(ctx context.Context, cmd Command, e *trace.Event) {
	w, trouble := c.prepare(cmd)
	if trouble != "" {
		e.Outcome, e.Text = outFailed, trouble
		return
	}
	c.last = w
	c.write(ctx, w, e)
	switch {
	case cmd.Action == Write && e.Outcome == outAccepted:
		c.unsettled = w.task
	case cmd.Action == Receipt && c.unsettled != nil:
		if e.Outcome == outRefused {
			e.Damage = "a task is half done: " + c.name + " has counted its coupon down, and the receipt for it was refused"
		}
		c.unsettled = nil
	}
}

func (c *client) retry(ctx context.Context, e *trace.Event) {
	if c.last == nil {
		e.Outcome, e.Text = outFailed, c.name+" has written nothing yet that it could send again."
		return
	}
	c.write(ctx, c.last, e)
}

// prepare makes the request of a command, or says what is missing for it.
func (c *client) prepare(cmd Command) (w *sent, trouble string) {
	w = &sent{resource: cmd.Resource, key: leftKey}
	if cmd.Action == Pair {
		w.resource = Coupon
	}
	if l := c.lease(w.resource); l != nil && c.s.mode != ModeNone {
		w.number = l.number()
	}
	if w.resource == Coupon {
		w.task = &task{actor: c.name}
	}
	resource := c.s.resource(w.resource)
	less := wire.Op{Kind: storage.KindAdd, Resource: resource, Key: leftKey, Delta: wire.Ptr(-1), Min: wire.Ptr(0)}
	switch cmd.Action {
	case Add:
		w.call = c.commit(cmd.Key, less)
		return w, ""
	case AddFree:
		w.slow, w.number = true, ""
		w.call = keyed(message(http.MethodPost, "/v1/commits", wire.Commit{
			Lock: &wire.CommitLock{Wait: wire.Span(oneCallWait), Label: oneCallLabel(c.name)}, Ops: []wire.Op{less},
		}), cmd.Key)
		return w, ""
	case Pair:
		stock := less
		stock.Resource = c.s.resource(Stock)
		w.call = c.commit(cmd.Key, less, stock)
		return w, ""
	}
	had, n, trouble := c.count(cmd)
	if trouble != "" {
		return nil, trouble
	}
	w.value = strconv.FormatInt(n, 10)
	if w.task != nil {
		w.task.value = w.value
	}
	receipt := "receipt-" + strconv.FormatInt(had, 10)
	switch cmd.Action {
	case Write:
		w.call = c.put(w.resource, leftKey, w.value)
	case Receipt:
		w.task, w.key, w.value = nil, receipt, c.name
		w.call = c.put(w.resource, receipt, c.name)
	case Commit:
		left, who := wire.Bytes(w.value), wire.Bytes(c.name)
		w.call = c.commit(cmd.Key,
			wire.Op{Kind: storage.KindPut, Resource: resource, Key: leftKey, Value: &left},
			wire.Op{Kind: storage.KindPut, Resource: resource, Key: receipt, Value: &who})
	case Forge:
		t := c.s.forged(w.resource, cmd.Number)
		w.number = strconv.FormatInt(t.Number, 10)
		w.call = raw(http.MethodPut, c.s.at(w.resource, "/records/"+leftKey), w.value)
		w.call.header(wire.HeaderToken, t.Text())
	}
	return w, ""
}

// count returns what the client believes is left, and what it makes of it.
func (c *client) count(cmd Command) (had, n int64, trouble string) {
	c.s.mu.Lock()
	read, ok := c.read[cmd.Resource]
	remaining := c.s.account.remaining
	if cmd.Resource == Stock {
		remaining = c.s.account.stock
	}
	c.s.mu.Unlock()
	had, err := strconv.ParseInt(read, 10, 64)
	switch {
	case cmd.Value != "":
		n, _ = strconv.ParseInt(cmd.Value, 10, 64) // was validated
		if !ok || err != nil {
			had = n + 1
		}
		return had, n, ""
	case cmd.Action == Forge && (!ok || err != nil):
		return remaining, max(remaining-1, 0), "" // a thief looks first
	case !ok:
		return 0, 0, c.name + " has read nothing yet: there is nothing to compute with."
	case err != nil:
		return 0, 0, "What " + c.name + " has read is no number: there is nothing to compute with."
	case had < 1 && cmd.Action != Forge:
		return 0, 0, c.name + " has read that none are left: there is nothing to hand out."
	}
	return had, max(had-1, 0), ""
}

// forged returns a token that nobody was granted.
func (s *session) forged(short, number string) fencing.Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number == "" {
		number = s.marks[short].Number
	}
	n, err := fencing.ParseNumber(number)
	if err != nil {
		n = 1
	}
	return fencing.Token{Resource: s.resource(short), Number: n, Grant: fencing.NewGrant()}
}

func raw(method, path, body string) call {
	k := call{method: method, path: path, body: body}
	k.header("Content-Type", wire.TypeRecord)
	return k
}

func keyed(k call, key string) call {
	if key != "" {
		k.header(wire.HeaderKey, key)
	}
	return k
}

// put is a write of one record, with the client's token where it has one.
func (c *client) put(short, key, value string) call {
	k := raw(http.MethodPut, c.s.at(short, "/records/"+key), value)
	if l := c.lease(short); l != nil && c.s.mode != ModeNone {
		k.header(wire.HeaderToken, l.token.Text())
	}
	return k
}

// commit is a commit of ops, with the client's tokens for what they touch.
func (c *client) commit(key string, ops ...wire.Op) call {
	m := wire.Commit{Ops: ops}
	for _, short := range []string{Coupon, Stock} {
		l := c.lease(short)
		for _, op := range ops {
			if l != nil && c.s.mode != ModeNone && op.Resource == c.s.resource(short) {
				m.Tokens = append(m.Tokens, wire.Token{Resource: op.Resource, Token: l.token.Text()})
				break
			}
		}
	}
	return keyed(message(http.MethodPost, "/v1/commits", m), key)
}

// oneCallLabel is what the lock is labelled with while the gateway holds it for a client.
func oneCallLabel(name string) string { return name + " in one call" }

// write sends a write and takes its answer into the account.
func (c *client) write(ctx context.Context, w *sent, e *trace.Event) {
	e.Resource, e.Key, e.Number, e.Value = w.resource, w.key, w.number, w.value
	action := "write"
	if w.call.method == http.MethodPost {
		action = "commit"
	}
	e.Source = c.s.lab.o.Source("store", action)
	var a answer
	if w.slow {
		c.free(1)
		a = c.patiently(ctx, e, w.resource, w.call)
		c.s.writing.Lock()
		c.free(-1)
	} else {
		c.s.writing.Lock()
		a = c.request(ctx, e, w.call)
	}
	defer c.s.writing.Unlock()
	if a.outcome == fencing.Applied {
		e.Outcome = outAccepted
		var m wire.CommitReply
		if w.value == "" && json.Unmarshal(a.body, &m) == nil && len(m.Results) > 0 && m.Results[0].Counter != nil {
			e.Value = strconv.FormatInt(int64(*m.Results[0].Counter), 10)
		}
		e.Text = c.acceptedText(e, w, a.replayed)
	} else {
		c.explain(e, a)
	}
	c.s.settled(context.WithoutCancel(ctx), e)
	if w.task == nil {
		return
	}
	truth := a.real()
	c.update(func() {
		e.Damage = c.s.account.judge(w.task, truth.outcome == fencing.Applied, truth.replayed, a.outcome == fencing.Applied)
	})
}

// free says that a one-call write is under way, or is not any more.
func (c *client) free(by int64) { c.update(func() { c.s.account.free += by }) }
