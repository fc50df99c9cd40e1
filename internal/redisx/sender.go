package redisx

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
)

// Sender sends calls of scripts, and lets concurrent calls share pipelines: while [width]
// round trips are under way, calls gather, and the next round trip takes all of them.
// Where few calls run at once each is sent by itself, on its caller's goroutine, at no cost.
//
// A caller whose context ends before its call was sent is told that it failed; the call will
// never be sent. After that the outcome is unknown. A Sender has a goroutine only while a
// pipeline is under way.
type Sender struct {
	client redis.UniversalClient

	mu    sync.Mutex // guards what follows; nothing blocks under it
	trips int        // under way
	queue []*sending
}

const (
	// width is how many round trips of a Sender are under way at once: enough that one may
	// hang for a while, and few enough that calls gather.
	width = 3
	// most is how many calls share a pipeline: the server does not stop for others in
	// between its parts, and a reply that is lost leaves so many outcomes unknown.
	most = 128
)

// sending is a call on its way.
type sending struct {
	ctx    context.Context
	script *Script
	call   Call
	sent   bool // guarded by the Sender's mu
	reply  Reply
	done   chan struct{} // closed when reply is there
}

// NewSender returns a Sender on a client.
func NewSender(client redis.UniversalClient) *Sender { return &Sender{client: client} }

// Run is [Script.Run] that may share a pipeline.
func (s *Sender) Run(ctx context.Context, script *Script, call Call) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, fencing.AsFailed(err)
	}
	s.mu.Lock()
	if s.trips < width {
		s.trips++
		s.mu.Unlock()
		defer s.next()
		return script.Run(ctx, s.client, call)
	}
	it := &sending{ctx: ctx, script: script, call: call, done: make(chan struct{})}
	s.queue = append(s.queue, it)
	s.mu.Unlock()
	select {
	case <-it.done:
		return it.reply.Values, it.reply.Err
	case <-ctx.Done():
		return s.withdraw(it)
	}
}

// withdraw is the answer for a call whose context has ended.
func (s *Sender) withdraw(it *sending) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-it.done: // both at once: the answer is worth more
		return it.reply.Values, it.reply.Err
	default:
	}
	err := fencing.AsUnknown(it.ctx.Err())
	if !it.sent || it.script.reads {
		err = fencing.AsFailed(it.ctx.Err())
	}
	it.ctx = nil // it is not to be sent, or not to be waited for
	return nil, err
}

// next ends a round trip, and begins the next one with what has gathered.
func (s *Sender) next() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trips--
	var batch []*sending
	n := 0
	for _, it := range s.queue {
		if len(batch) == most {
			break
		}
		n++
		if it.ctx != nil {
			it.sent = true
			batch = append(batch, it)
		}
	}
	s.queue = s.queue[n:]
	if len(batch) > 0 {
		s.trips++
		go s.send(batch)
	}
}

// send carries out a batch in one round trip.
func (s *Sender) send(batch []*sending) {
	defer s.next()
	ctx, cancel := s.bound(batch)
	defer cancel()
	all := make([]int, len(batch))
	for i := range all {
		all[i] = i
	}
	replies := make([]Reply, len(batch))
	var missed []int
	for i, cmd := range s.pipeline(ctx, batch, all, false) {
		if unknownScript(cmd.Err()) {
			missed = append(missed, i)
			continue
		}
		replies[i].Values, replies[i].Err = batch[i].script.reply(cmd)
	}
	for k, cmd := range s.pipeline(ctx, batch, missed, true) {
		i := missed[k]
		replies[i].Values, replies[i].Err = batch[i].script.reply(cmd)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, it := range batch {
		it.reply = replies[i]
		close(it.done)
	}
}

// bound returns a context for a batch: no caller's may cut the others off, so it ends with
// the last of them, if all have a deadline. Else the client's own timeouts are the bound.
func (s *Sender) bound(batch []*sending) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last time.Time
	for _, it := range batch {
		if it.ctx == nil {
			continue // nobody waits for it
		}
		deadline, ok := it.ctx.Deadline()
		if !ok {
			return context.Background(), func() {}
		}
		if deadline.After(last) {
			last = deadline
		}
	}
	return context.WithDeadline(context.Background(), last)
}

func (s *Sender) pipeline(ctx context.Context, batch []*sending, which []int, source bool) []once {
	if len(which) == 0 {
		return nil
	}
	pipe := s.client.Pipeline()
	cmds := make([]once, len(which))
	for k, i := range which {
		it := batch[i]
		name, body := "evalsha", it.script.sha
		if source {
			name, body = "eval", it.script.src
		}
		cmds[k] = it.script.command(ctx, name, body, it.call)
		_ = pipe.Process(ctx, cmds[k])
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	return cmds
}
