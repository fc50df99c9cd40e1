package lab

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/trace"
)

const (
	// longestWait is how long the command wait takes at most.
	longestWait = 2 * time.Second
	// waitWorthTelling is from when on a grant says that it was waited for.
	waitWorthTelling = 200 * time.Millisecond
)

// operate carries out a command of the operator and returns its event. Here the lab has hands inside
// the lock store that no client has.
func (s *session) operate(ctx context.Context, cmd Command) (trace.Event, error) {
	e := trace.Event{AtMS: s.now(), Actor: "operator", To: "lock", Action: string(cmd.Action), Resource: cmd.Resource, Outcome: outOK}
	if s.mode == ModeNone && cmd.Action != Wait {
		e.To, e.Text = "", "There is no lock in this session: nothing changes."
		return s.tell(e), nil
	}
	var err error
	switch cmd.Action {
	case Expire:
		err = s.expire(ctx, &e)
	case Flush:
		err = s.flush(ctx, &e)
	case Evict:
		err = s.evict(ctx, cmd, &e)
	case ForgetNode:
		s.forgetNode(cmd.Node, &e)
	case Wait:
		err = s.wait(ctx, &e)
	}
	if err != nil {
		return trace.Event{}, err
	}
	return s.tell(e), nil
}

// expire ends a hold in the lock store alone. To the store that is what an expiry is: nothing.
func (s *session) expire(ctx context.Context, e *trace.Event) error {
	st, err := s.stage.issuer.Status(ctx, s.resource(e.Resource))
	if err != nil {
		return err
	}
	if !st.Held {
		e.Text = "Nobody holds the lock of the " + e.Resource + ": there is nothing to end."
		return nil
	}
	e.Number = strconv.FormatInt(st.Number, 10)
	h := s.over(e.Resource, st.Number, st.Label)
	if err := s.stage.lock.Evict(ctx, s.resource(e.Resource), st.Number); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Text = s.endedText(e.Resource, h)
	return nil
}

// over takes in that a hold is about to end, so that its end is not told twice.
func (s *session) over(short string, number int64, label string) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.holds[short]; h != nil && (h.number == number || number == 0) {
		h.over = true
		return h
	}
	return &hold{number: number, label: label}
}

func (s *session) flush(ctx context.Context, e *trace.Event) error {
	switch {
	case s.nodes != nil:
		s.nodes.forget(s.resource(e.Resource))
	case s.lab.o.Forget == nil:
		return wire.NewError(wire.SlugRefused, "this lock store cannot be made to forget one resource")
	default:
		if err := s.lab.o.Forget(ctx, s.resource(e.Resource)); err != nil {
			return err
		}
	}
	s.over(e.Resource, 0, "")
	e.Text = "The lock store forgets the " + e.Resource + ": who holds its lock, and how far its numbers went. Nobody is told."
	return nil
}

// evict ends a token without its holder, by the gateway's own route for it.
func (s *session) evict(ctx context.Context, cmd Command, e *trace.Event) error {
	number := cmd.Number
	if number == "" {
		st, err := s.stage.issuer.Status(ctx, s.resource(cmd.Resource))
		if err != nil {
			return err
		}
		if st.Number == 0 {
			e.Text = "Nobody was ever granted the lock of the " + cmd.Resource + ": there is nothing to evict."
			return nil
		}
		number = strconv.FormatInt(st.Number, 10)
	}
	n, err := fencing.ParseNumber(number)
	if err != nil {
		return err
	}
	e.Number, e.Source = number, s.lab.o.Source("lock", "evict")
	a, x := s.send(ctx, message(http.MethodPost, s.at(cmd.Resource, "/lock/evict"), wire.EvictRequest{
		Number: wire.Ptr(n), Reason: "the operator of the lab",
	}), false)
	e.Exchanges = append(e.Exchanges, x)
	switch a.outcome {
	case fencing.Applied:
		s.settled(ctx, e)
		e.Text = "The operator ends " + number + " without its holder: first in the store, which retires it, then in the lock."
		if s.mode != ModeGrant {
			e.Text = "The operator ends " + number + " in the lock, without its holder."
		}
	case fencing.Refused:
		e.Outcome, e.Reason = outRefused, a.problem.Slug()
		e.Text = "Refused: " + number + " was never granted."
	case fencing.Failed, fencing.Unknown:
		e.Outcome = a.outcome.String()
		e.Text = "The eviction was not answered well; to repeat it is safe."
	}
	return nil
}

func (s *session) forgetNode(node int, e *trace.Event) {
	s.nodes.restart(node)
	e.Resource, e.Value = "", strconv.Itoa(node)
	e.Text = "Node " + e.Value + " is restarted and comes back empty: it knows of no lock and counts from 1 again."
}

// wait lets one lease time pass.
func (s *session) wait(ctx context.Context, e *trace.Event) error {
	e.To, e.Resource = "", ""
	t := time.NewTimer(min(s.ttl, longestWait) + 50*time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return errOver
	}
	e.Text = "One lease time passes, " + s.ttl.String() + "."
	if s.ttl > longestWait {
		e.Text = "One lease time passes, " + s.ttl.String() + ". (Here it is " + longestWait.String() + ", and the leases of who is paused are ended as if it were all of it.)"
		if err := s.endPaused(ctx); err != nil {
			return err
		}
	}
	s.expired(ctx)
	return nil
}

// endPaused ends what clients hold that are paused, as the rest of the TTL would: in the lock store,
// and on the clients' own clocks.
func (s *session) endPaused(ctx context.Context) error {
	for _, short := range []string{Coupon, Stock} {
		s.mu.Lock()
		h := s.holds[short]
		var c *client
		if h != nil {
			c = s.clients[h.label]
		}
		paused := c != nil && c.paused && !h.over
		if paused {
			if l := c.leases[short]; l != nil {
				l.until = time.Now()
			}
		}
		s.mu.Unlock()
		if !paused {
			continue
		}
		if err := s.stage.lock.Evict(ctx, s.resource(short), h.number); err != nil {
			return err
		}
		s.mu.Lock()
		if !h.over {
			s.expireLocked(short, h)
		}
		s.mu.Unlock()
	}
	return nil
}

// pauses is pause and resume.
func (s *session) pauses(c *client, cmd Command) (trace.Event, []*job) {
	e := trace.Event{AtMS: s.now(), Actor: c.name, Action: string(cmd.Action), Outcome: outOK}
	was, parked := c.pause(cmd.Action == Pause)
	switch {
	case cmd.Action == Pause && was:
		e.Text = c.name + " is paused already."
	case cmd.Action == Pause:
		e.Text = c.name + " is paused between two requests. It renews nothing, and does not notice that time passes."
	case !was:
		e.Text = c.name + " is not paused."
	case len(parked) > 0:
		e.Text = c.name + " goes on where it stopped, with what it was about to do."
	default:
		e.Text = c.name + " goes on. It does not know that it stood still."
	}
	if cmd.Action == Pause {
		parked = nil
	}
	return s.tell(e), parked
}

// settles waits until nobody waits for a lock that is free, nor takes in that it has one, for a moment at
// most: so that who was next in line has it when the command that freed it is answered.
func (s *session) settles(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for _, name := range actors {
		c := s.clients[name]
		for {
			blocked, busy := s.blocked(ctx, c)
			if !busy || blocked || ctx.Err() != nil {
				break
			}
			pause(ctx, 10*time.Millisecond)
		}
	}
}

// blocked reports whether the client does something, and whether that may take long: because it is paused,
// or waits for a lock that is somebody else's.
func (s *session) blocked(ctx context.Context, c *client) (blocked, busy bool) {
	s.mu.Lock()
	short, paused, busy := c.waits, c.paused, c.busy != nil
	oneCall := c.busy != nil && c.busy.cmd.Action == AddFree
	s.mu.Unlock()
	if short == "" || paused {
		return paused, busy
	}
	mine := c.name
	if oneCall {
		mine = oneCallLabel(c.name)
	}
	st, err := s.stage.issuer.Status(ctx, s.resource(short))
	return err == nil && st.Held && st.Label != mine, busy
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
