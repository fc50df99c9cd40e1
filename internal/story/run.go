package story

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// Setup is where a mode is played.
type Setup struct {
	Lock  locking.Backend
	Store storage.Backend
	// TTL is the clients' lease time. Default: 1 s.
	TTL time.Duration
	// Listen is the gateway's address. Default: 127.0.0.1:0.
	Listen string
	// Start plays a role.
	Start func(ctx context.Context, r Role) (Performer, error)
	// Between, if not nil, is called between A's pause and B's first step: for faults.
	Between func(ctx context.Context) error
}

// Event is one thing that happened, on the clock of the one who tells the story.
type Event struct {
	At      time.Duration // when it began
	Done    time.Duration // when it was answered
	Actor   string
	Action  Action
	Number  int64
	Value   int64
	Highest int64
	Outcome string
	Detail  string
	// Mark is the store's afterwards, where it was looked at: the zero mark where it was not.
	Mark fencing.Mark
}

// Result is what came of a mode, measured.
type Result struct {
	Mode      Mode
	LateWrite string
	HandedOut int // accepted writes
	Remaining int64
	Refused   int
	Tokens    []string
	TTL       time.Duration
	Events    []Event
}

// Held reports whether every coupon is accounted for.
func (r Result) Held() bool { return int64(r.HandedOut)+r.Remaining == Initial }

// AsExpected reports whether the mode ended as it must. The numbers must increase; they need not
// follow one another: an attempt to grant that came to nothing, as one on a redlock node that is
// down can, has used one up.
func (r Result) AsExpected() bool {
	w := r.Mode.Want
	return r.LateWrite == w.LateWrite && r.HandedOut == w.HandedOut && r.Remaining == w.Remaining &&
		len(r.Tokens) == len(w.Tokens) && increasing(r.Tokens)
}

func increasing(numbers []string) bool {
	last := int64(0)
	for _, text := range numbers {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n <= last {
			return false
		}
		last = n
	}
	return true
}

// run is one telling under way.
type run struct {
	setup    Setup
	mode     Mode
	resource string
	actors   map[string]Performer
	refused  map[string]bool // the actors who were refused and start over
	stage    *stage

	mu     sync.Mutex // guards what follows
	holder int64      // the number whose hold nobody gave back yet
	start  time.Time  // of the first step
	events []Event
}

// Run plays a mode. The error says why it could not be played to its end; that it did not
// end as expected is no error.
func Run(ctx context.Context, setup Setup, mode Mode) (_ Result, err error) {
	if setup.TTL == 0 {
		setup.TTL = time.Second
	}
	r := &run{
		setup: setup, mode: mode, actors: map[string]Performer{}, refused: map[string]bool{},
		resource: "coupon:" + mode.Name + "." + fencing.NewGrant()[:8],
	}
	if r.stage, err = newStage(ctx, setup, mode, r.raised); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, r.stage.close()) }()
	if err := r.stage.seed(ctx, r.resource); err != nil {
		return Result{}, fmt.Errorf("preparing the coupon: %w", err)
	}
	defer func() {
		for _, p := range r.actors {
			err = errors.Join(err, p.Close())
		}
	}()
	for _, name := range []string{A, B} {
		role := Role{
			Name: name, URL: r.stage.url, Resource: r.resource, TTL: setup.TTL,
			Locked: mode.Locked, Fenced: mode.RaiseAtGrant,
		}
		p, err := setup.Start(ctx, role)
		if err != nil {
			return Result{}, err
		}
		r.actors[name] = p
	}
	r.mu.Lock()
	r.start = time.Now()
	r.mu.Unlock()
	for _, step := range mode.Steps {
		if err := r.step(ctx, step); err != nil {
			return Result{}, fmt.Errorf("%s: %s could not %s: %w", mode.Name, step.Actor, step.Action, err)
		}
	}
	return r.result(ctx)
}

func (r *run) step(ctx context.Context, s Step) error {
	if s.Retry && !r.refused[s.Actor] {
		return nil
	}
	p := r.actors[s.Actor]
	switch s.Action {
	case Pause:
		e := r.begin(s.Actor, Pause)
		if err := p.Pause(); err != nil {
			return err
		}
		e.Outcome = "stopped"
		r.end(e)
		if r.setup.Between != nil {
			return r.setup.Between(ctx)
		}
		return nil
	case Wake:
		return r.wake(ctx, s.Actor, p)
	}
	return r.perform(ctx, s.Actor, s.Action, p, nil)
}

// wake sends the actor the write that it was about to do, which waits for it, and then
// lets it go on: the write is the first thing that it does.
func (r *run) wake(ctx context.Context, actor string, p Performer) error {
	return r.perform(ctx, actor, Write, p, func() error {
		e := r.begin(actor, Wake)
		e.Outcome = "continued"
		r.end(e)
		return p.Wake()
	})
}

// perform lets an actor act, calls during while its reply is awaited, and records both.
func (r *run) perform(ctx context.Context, actor string, action Action, p Performer, during func() error) error {
	type answer struct {
		reply Reply
		err   error
	}
	answers := make(chan answer, 1)
	e := r.begin(actor, action)
	go func() {
		reply, err := p.Do(ctx, action)
		answers <- answer{reply, err}
	}()
	if during != nil {
		if err := during(); err != nil {
			return err
		}
		e.At = r.now()
	}
	var got answer
	select {
	case got = <-answers:
	case <-ctx.Done():
		return ctx.Err()
	}
	if got.err != nil {
		return got.err
	}
	reply := got.reply
	e.Number, e.Value, e.Highest, e.Outcome, e.Detail = reply.Number, reply.Value, reply.Highest, reply.Outcome, reply.Detail
	r.follow(e)
	e.Done = r.now() // and not when the mark has been looked at
	if e.Mark, got.err = r.stage.store.Mark(ctx, r.resource); got.err != nil {
		return fmt.Errorf("looking at the mark: %w", got.err)
	}
	r.end(e)
	if reply.Outcome == Failed || action != Write && reply.Outcome == Refused {
		return errors.New(reply.Detail)
	}
	return nil
}

// follow keeps what later steps hang on.
func (r *run) follow(e Event) {
	switch e.Action {
	case Acquire:
		r.held(e.Number, r.now())
	case Release:
		r.held(0, r.now())
	case Write:
		if e.Outcome == Refused {
			r.refused[e.Actor] = true
		}
	}
}

// held takes in that the lock is held under a number now, or by nobody. If another held
// it and did not give it back, its time was up.
func (r *run) held(number int64, at time.Duration) {
	r.mu.Lock()
	before := r.holder
	r.holder = number
	r.mu.Unlock()
	if before != 0 && number > before {
		r.end(Event{At: at, Actor: Lock, Action: Expire, Number: before, Outcome: OK})
	}
}

// now is the time since the first step; 0 before it.
func (r *run) now() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.start.IsZero() {
		return 0
	}
	return time.Since(r.start)
}

func (r *run) begin(actor string, action Action) Event {
	return Event{At: r.now(), Actor: actor, Action: action}
}

func (r *run) end(e Event) {
	if e.Done == 0 {
		e.Done = r.now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// raised takes in that the issuer raised a token.
func (r *run) raised(t fencing.Token) {
	if at := r.now(); at > 0 && t.Resource == r.resource {
		r.held(t.Number, at)
		r.end(Event{
			At: at, Actor: Lock, Action: Raise, Number: t.Number, Outcome: OK,
			Mark: fencing.Mark{Number: t.Number},
		})
	}
}

func (r *run) result(ctx context.Context) (Result, error) {
	res := Result{Mode: r.mode, TTL: r.setup.TTL}
	rec, err := r.setup.Store.Get(ctx, r.resource, key)
	if err != nil {
		return res, fmt.Errorf("reading what is left: %w", err)
	}
	n, ok := storage.ParseCounter(rec.Value)
	if !ok {
		return res, errors.New("what is left is no counter")
	}
	res.Remaining = n
	r.mu.Lock()
	res.Events = slices.Clone(r.events)
	r.mu.Unlock()
	slices.SortStableFunc(res.Events, func(a, b Event) int { return int(a.At - b.At) })
	woken := false
	for _, e := range res.Events {
		switch {
		case e.Action == Wake:
			woken = true
		case e.Action == Acquire && e.Outcome == Granted:
			res.Tokens = append(res.Tokens, strconv.FormatInt(e.Number, 10))
		case e.Action == Write && e.Outcome == Accepted:
			res.HandedOut++
		case e.Action == Write && e.Outcome == Refused:
			res.Refused++
		}
		if woken && res.LateWrite == "" && e.Action == Write && e.Actor == A {
			res.LateWrite = e.Outcome
		}
	}
	return res, nil
}
