package lab

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/trace"
)

// client is A or B: a goroutine that does one thing after another, and renews its leases in between.
// A pause holds it between two requests.
type client struct {
	s    *session
	name string
	wake chan struct{} // there may be something to do

	// Guarded by s.mu.
	paused bool
	jobs   []*job // in order; the first is under way if busy
	busy   *job
	waits  string // the resource whose lock the job under way may have to wait for
	leases map[string]*lease
	read   map[string]string // by resource: what was read of left

	// Of the client's goroutine alone.
	grants    map[string]string // by resource: the grant id that was asked with last
	lose      bool              // the next reply is thrown away
	last      *sent             // what retry sends again
	unsettled *task             // a write without its receipt
}

// job is a command on its way through its client.
type job struct {
	cmd   Command
	event trace.Event // set before done is closed
	done  chan struct{}
}

// lease is what a client believes to hold.
type lease struct {
	token   fencing.Token
	from    time.Time
	until   time.Time // its own deadline
	renewAt time.Time
	lost    bool // it was told so: the token is kept, for programs that do not look
}

// trusted reports whether the client trusts the lease, by its own clock and what it was told.
func (l *lease) trusted(now time.Time) bool { return l != nil && !l.lost && now.Before(l.until) }

func (l *lease) number() string { return strconv.FormatInt(l.token.Number, 10) }

func newClient(s *session, name string) *client {
	return &client{
		s: s, name: name, wake: make(chan struct{}, 1),
		leases: map[string]*lease{}, read: map[string]string{}, grants: map[string]string{},
	}
}

// maxJobs is how many commands of one client may wait.
const maxJobs = 50

// nudge lets the client look what there is to do.
func (c *client) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run is the client's goroutine.
func (c *client) run() {
	for {
		if j := c.next(); j != nil {
			j.event = c.s.tell(c.do(c.s.ctx, j.cmd))
			c.finished()
			close(j.done)
			continue
		}
		if !c.idle() {
			return
		}
	}
}

// next returns the next command, unless the client is paused.
func (c *client) next() *job {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.paused || len(c.jobs) == 0 || c.s.ctx.Err() != nil {
		return nil
	}
	c.busy, c.jobs = c.jobs[0], c.jobs[1:]
	c.s.changedLocked()
	return c.busy
}

func (c *client) finished() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.busy, c.waits = nil, ""
	c.s.changedLocked()
}

// idle lets time pass until there may be something to do, or a renewal is due. It returns false when
// the session is over.
func (c *client) idle() bool {
	t := time.NewTimer(c.untilRenewal())
	defer t.Stop()
	select {
	case <-c.s.ctx.Done():
		return false
	case <-c.wake:
	case <-t.C:
		c.renewDue(c.s.ctx)
	}
	return true
}

// whilePaused returns when the client is not paused (any more). It reports false when the session is over.
func (c *client) whilePaused() bool {
	for {
		c.s.mu.Lock()
		paused := c.paused
		c.s.mu.Unlock()
		if !paused {
			return c.s.ctx.Err() == nil
		}
		select {
		case <-c.s.ctx.Done():
			return false
		case <-c.wake:
		}
	}
}

// awaiting runs fn, which may take long because it waits for a lock. Meanwhile the client renews its
// leases, and can be paused: then it does not notice that fn has ended until it is resumed.
func (c *client) awaiting(fn func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer close(done)
		fn()
	})
	defer running.Wait()
	for over := false; !over; {
		t := time.NewTimer(c.untilRenewal())
		select {
		case <-done:
			over = true
		case <-c.wake: // paused, or resumed: the next renewal is another
		case <-t.C:
			c.renewDue(c.s.ctx)
		}
		t.Stop()
	}
	c.whilePaused()
}

// enqueue adds a command. It reports whether the client is paused, so that the command waits for resume.
func (c *client) enqueue(cmd Command) (*job, bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if len(c.jobs) >= maxJobs {
		return nil, c.paused
	}
	j := &job{cmd: cmd, done: make(chan struct{})}
	c.jobs = append(c.jobs, j)
	c.s.changedLocked()
	c.nudge()
	return j, c.paused
}

// pause stops the client, or lets it go on; it returns what was parked.
func (c *client) pause(on bool) (was bool, parked []*job) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	was, c.paused = c.paused, on
	if c.busy != nil {
		parked = append(parked, c.busy)
	}
	parked = append(parked, c.jobs...)
	c.nudge()
	return was, parked
}

// lease returns what the client has of a resource, if anything.
func (c *client) lease(short string) *lease {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if l := c.leases[short]; l != nil {
		copied := *l
		return &copied
	}
	return nil
}

// update changes the client's state under the session's mutex.
func (c *client) update(fn func()) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	fn()
	c.s.changedLocked()
}

func (c *client) stateLocked() Client {
	st := Client{Name: c.name, Paused: c.paused, Parked: len(c.jobs), Leases: []Lease{}, Read: c.read[Coupon]}
	if !c.paused {
		st.Parked = 0
	}
	if c.busy != nil {
		st.Busy = string(c.busy.cmd.Action)
	}
	for _, short := range []string{Coupon, Stock} {
		if l := c.leases[short]; l != nil && !l.lost {
			st.Leases = append(st.Leases, Lease{
				Resource: short, Number: l.number(), FromMS: c.s.since(l.from), UntilMS: c.s.since(l.until),
			})
		}
	}
	return st
}

// untilRenewal is the time to the next renewal. A client that is paused renews nothing, nor does it
// renew what it knows to be lost.
func (c *client) untilRenewal() time.Duration {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	next := time.Hour
	for _, l := range c.leases {
		if !c.paused && !l.lost {
			next = min(next, max(0, time.Until(l.renewAt)))
		}
	}
	return next
}

// renewDue renews the leases whose time for it has come, a third of the TTL after the last. That is
// silent, but for the one that finds that the lease is lost.
func (c *client) renewDue(ctx context.Context) {
	for _, short := range []string{Coupon, Stock} {
		c.s.mu.Lock()
		l := c.leases[short]
		due := l != nil && !c.paused && !l.lost && !time.Now().Before(l.renewAt)
		c.s.mu.Unlock()
		if !due {
			continue
		}
		e := c.renew(ctx, short)
		switch {
		case e.Outcome == outLost:
			e.Text = c.name + " renews its lease in the background and hears that it is lost. A program that looks stops here; a write that is under way does not look."
			c.s.tell(e)
		case e.Outcome != outOK: // no answer, or no good one: again soon, while there is time
			over := false
			c.update(func() {
				l.renewAt = time.Now().Add(c.s.ttl / 6)
				l.lost = !time.Now().Before(l.until)
				over = l.lost
			})
			if over {
				e.Outcome, e.Text = outLost, c.name+"'s renewals were not answered, and its lease is over by its own clock."
				c.s.tell(e)
			}
		}
	}
}
