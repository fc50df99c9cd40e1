package redisx

import (
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
)

// Joint says how a [Sender] carries out several calls of a script by one run of another, which
// pays once for what each of them would pay by itself.
type Joint struct {
	// Script gets the keys of the calls, one after the other, and their arguments as Encode
	// writes them. It carries out each call on its own merits, in order, catches what stops one,
	// and answers one string for each. What it does not catch must come before its first write.
	Script *Script
	// Encode appends the arguments of a call.
	Encode func(args []any, call Call) []any
	// Decode reads the answer to a call, as the reply that the call by itself would bring.
	Decode func(answer string) Reply
}

// Joined returns a script that is s, and of which a Sender may join calls.
func (s *Script) Joined(j Joint) *Script {
	joined := *s
	joined.joint = &j
	return &joined
}

// What one run of a joint script may have: the server does nothing else meanwhile.
const (
	joinCalls = 32        // more save little
	joinWords = 512       // keys and arguments
	joinBytes = 256 << 10 // of arguments
)

// run is one script on its way, for one call or for several that are joined.
type run struct {
	of     []*sending
	script *Script // the joint one where there are several
	call   Call
}

// plan says how a batch is sent: each call in a run of its own, but for those that can be joined.
// Those of one script stay in order.
func (s *Sender) plan(batch []*sending) []run {
	runs := make([]run, 0, len(batch))
	if s.apart.Load() {
		return single(runs, batch)
	}
	var group group
	for _, it := range batch {
		words, bytes := it.size()
		if it.script.joint == nil || words > joinWords || bytes > joinBytes {
			runs = single(runs, []*sending{it})
			continue
		}
		if !group.fits(it.script, words, bytes) {
			runs = group.end(runs)
		}
		group.add(it, words, bytes)
	}
	return group.end(runs)
}

func single(runs []run, of []*sending) []run {
	for i, it := range of {
		runs = append(runs, run{of[i : i+1 : i+1], it.script, it.call})
	}
	return runs
}

// size returns how many words a call has, and the bytes of its arguments.
func (it *sending) size() (words, bytes int) {
	for _, arg := range it.call.Args {
		switch arg := arg.(type) {
		case string:
			bytes += len(arg)
		case []byte:
			bytes += len(arg)
		}
	}
	return len(it.call.Keys) + len(it.call.Args), bytes
}

// group is a run that gathers.
type group struct {
	of           []*sending
	words, bytes int
}

func (g *group) fits(script *Script, words, bytes int) bool {
	return len(g.of) == 0 ||
		g.of[0].script == script && len(g.of) < joinCalls && g.words+words <= joinWords && g.bytes+bytes <= joinBytes
}

func (g *group) add(it *sending, words, bytes int) {
	g.of = append(g.of, it)
	g.words += words
	g.bytes += bytes
}

// end adds the run to others, and begins anew.
func (g *group) end(runs []run) []run {
	defer func() { *g = group{} }()
	if len(g.of) < 2 {
		return single(runs, g.of)
	}
	joint := g.of[0].script.joint
	call := Call{Args: make([]any, 0, g.words+2*len(g.of))}
	for _, it := range g.of {
		call.Keys = append(call.Keys, it.call.Keys...)
		call.Args = joint.Encode(call.Args, it.call)
	}
	return append(runs, run{g.of, joint.Script, call})
}

// answer gives each call of a run its reply.
func (r run) answer(cmd once) {
	values, err := r.script.reply(cmd)
	switch {
	case len(r.of) == 1:
		r.of[0].reply = Reply{values, err}
		return
	case err == nil && len(values) != len(r.of):
		err = fencing.AsUnknown(fmt.Errorf("redis: a script answered %d strings to %d calls", len(values), len(r.of)))
	}
	for i, it := range r.of {
		if err != nil {
			it.reply.Err = err
			continue
		}
		it.reply = it.script.joint.Decode(values[i])
	}
}

// refusedTogether are the codes of replies with which a server refuses a script for its keys,
// before it runs: because they are of several slots, or not all allowed to the user.
var refusedTogether = []string{"CROSSSLOT", "NOPERM", "MOVED", "ASK", "TRYAGAIN"}

// parted reports whether calls that were joined have to be sent each by itself.
func (r run) parted(err error) bool {
	return len(r.of) > 1 && nothingHappened(err) &&
		slices.ContainsFunc(refusedTogether, func(code string) bool { return redis.HasErrorPrefix(err, code) })
}
