package redisx

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
)

// Sender sends calls of scripts, and lets concurrent calls share pipelines: while [width]
// round trips are under way, calls gather, and the next round trip takes all of them.
// Where few calls run at once each is sent by itself, on its caller's goroutine, at no cost.
//
// Calls of a script with a [Joint] that are in one pipeline are one script, as far as its
// bounds allow. A server that refuses that for their keys (it is one of a cluster, or the user
// may not touch all of them) ran nothing: they are sent by themselves, and so is what follows.
//
// Over a Redis Cluster each call is sent by itself: a pipeline there waits for its slowest
// server, and callers of the others with it.
//
// A caller whose context ends before its call was sent is told that it failed; the call will
// never be sent. After that the outcome is unknown. A Sender has a goroutine only while a
// pipeline is under way.
type Sender struct {
	client   redis.UniversalClient
	alone    bool // no pipelines
	patience time.Duration
	apart    atomic.Bool // the server has refused calls that were joined

	mu    sync.Mutex // guards what follows; nothing blocks under it
	trips int        // under way
	queue []*sending
}

const (
	// width is how many round trips of a Sender are under way at once: enough that one may
	// be slow, and few enough that calls gather.
	width = 3
	// hanging is how long a round trip counts as one of these: what hangs must not keep the
	// others from being sent.
	hanging = 250 * time.Millisecond
	// most is how many calls share a pipeline: the server does not stop for others in
	// between its parts, and a reply that is lost leaves so many outcomes unknown.
	most = 128
)

// sending is a call on its way.
type sending struct {
	ctx    context.Context
	script *Script
	call   Call
	sent   bool          // guarded by the Sender's mu
	reply  Reply         // set by who sends
	done   chan struct{} // closed when reply is there
}

// NewSender returns a Sender on a client.
func NewSender(client redis.UniversalClient) *Sender {
	_, cluster := client.(*redis.ClusterClient)
	return &Sender{client: client, alone: cluster, patience: hanging}
}

// Run is [Script.Run] that may share a pipeline.
func (s *Sender) Run(ctx context.Context, script *Script, call Call) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, fencing.AsFailed(err)
	}
	if s.alone {
		return script.Run(ctx, s.client, call)
	}
	s.mu.Lock()
	if s.trips < width {
		defer s.begin()()
		s.mu.Unlock()
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
	if !it.sent {
		i := slices.Index(s.queue, it)
		s.queue = slices.Delete(s.queue, i, i+1)
	}
	return nil, err
}

// begin counts a round trip until the function that it returns is called, or until it hangs.
// Callers hold s.mu; those of the function do not.
func (s *Sender) begin() (end func()) {
	s.trips++
	timer := time.AfterFunc(s.patience, s.next)
	return func() {
		if timer.Stop() {
			s.next()
		}
	}
}

// next ends a round trip, and begins the next one with what has gathered.
func (s *Sender) next() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trips--
	if len(s.queue) == 0 {
		return
	}
	n := min(len(s.queue), most)
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	for _, it := range batch {
		it.sent = true
	}
	end := s.begin()
	go func() {
		defer end()
		s.send(batch)
	}()
}

// send carries out a batch in one round trip.
func (s *Sender) send(batch []*sending) {
	ctx, cancel := bound(batch)
	defer cancel()
	runs := s.plan(batch)
	var again []run
	for i, cmd := range s.pipeline(ctx, runs, false) {
		switch {
		case unknownScript(cmd.Err()):
			again = append(again, runs[i])
		case runs[i].parted(cmd.Err()):
			s.apart.Store(true)
			again = single(again, runs[i].of)
		default:
			runs[i].answer(cmd)
		}
	}
	for i, cmd := range s.pipeline(ctx, again, true) {
		again[i].answer(cmd)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range batch {
		close(it.done)
	}
}

// bound returns a context for a batch: no caller's may cut the others off, so it ends with
// the last of them, if all have a deadline. Else the client's own timeouts are the bound.
func bound(batch []*sending) (context.Context, context.CancelFunc) {
	var last time.Time
	for _, it := range batch {
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

func (s *Sender) pipeline(ctx context.Context, runs []run, source bool) []once {
	if len(runs) == 0 {
		return nil
	}
	pipe := s.client.Pipeline()
	cmds := make([]once, len(runs))
	for i, r := range runs {
		name, body := "evalsha", r.script.sha
		if source {
			name, body = "eval", r.script.src
		}
		cmds[i] = r.script.command(ctx, name, body, r.call)
		_ = pipe.Process(ctx, cmds[i])
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	return cmds
}
