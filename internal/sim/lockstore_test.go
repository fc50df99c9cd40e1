package sim_test

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
)

// lockHost is the lock store's server.
type lockHost struct {
	host
	h       *history
	planted planted
	line    bool // memlock, which keeps a line; its clock is exact
	store   locking.Backend
	clock   skewed
}

// skewed is a clock that runs faster or slower than the clients', and may jump.
type skewed struct {
	net  *network
	rate float64
	jump time.Duration
}

func (c *skewed) now() time.Duration {
	return time.Duration(float64(c.net.elapsed())*c.rate) + c.jump
}

// fresh starts the lock store with nothing in it.
func (s *lockHost) fresh() {
	if s.line {
		s.store = memlock.New()
		return
	}
	s.store = &plainLock{clock: &s.clock, planted: s.planted, locks: map[string]*plainHold{}}
}

// plainLock is a lock store as simple as can be: no line, and no hand-over.
type plainLock struct {
	clock   *skewed
	planted planted
	locks   map[string]*plainHold
}

type plainHold struct {
	number  int64
	grant   string
	label   string
	ttl     time.Duration
	expires time.Duration // on the store's clock; 0: ended
}

func (s *plainLock) remaining(l *plainHold) time.Duration {
	return min(l.expires-s.clock.now(), l.ttl) // more than its TTL: the clock has jumped back
}

// TryAcquire implements locking.Backend.
func (s *plainLock) TryAcquire(_ context.Context, r locking.Request) (locking.Hold, error) {
	l := s.locks[r.Resource]
	if l == nil {
		l = &plainHold{}
		s.locks[r.Resource] = l
	}
	if left := s.remaining(l); l.expires > 0 && left < l.expires-s.clock.now() {
		l.expires = s.clock.now() + left
	}
	held, mine := l.expires > s.clock.now(), l.grant == r.Grant
	switch {
	case held && !mine:
		return locking.Hold{}, &locking.HeldError{Resource: r.Resource, Number: l.number, Label: l.label, Remaining: s.remaining(l)}
	case !held && mine:
		return locking.Hold{}, locking.ErrLost
	}
	drawn := !held || l.number <= r.Floor
	if s.planted == counterDies && !held && l.grant != "" && l.expires > 0 {
		l.number = 0 // it was kept beside the lock, and went with it
	}
	if drawn {
		l.number = max(l.number, r.Floor) + 1
	}
	if !held {
		l.grant, l.label, l.ttl = r.Grant, r.Label, r.TTL
		l.expires = s.clock.now() + r.TTL
		if s.planted == expiresEarly {
			l.expires -= r.TTL / 2
		}
	}
	left := s.remaining(l)
	if s.planted == expiresEarly {
		left = r.TTL
	}
	return locking.Hold{
		Token: fencing.Token{Resource: r.Resource, Number: l.number, Grant: l.grant}, Drawn: drawn, Remaining: left,
	}, nil
}

// Renew implements locking.Backend.
func (s *plainLock) Renew(_ context.Context, ttl time.Duration, held []fencing.Token) []error {
	verdicts := make([]error, len(held))
	for i, t := range held {
		l := s.locks[t.Resource]
		if l == nil || l.number != t.Number || l.grant != t.Grant || l.expires <= s.clock.now() && s.planted != renewRevives {
			verdicts[i] = locking.ErrLost
			continue
		}
		l.expires, l.ttl = max(l.expires, s.clock.now()+ttl), max(l.ttl, ttl)
	}
	return verdicts
}

// Release implements locking.Backend.
func (s *plainLock) Release(_ context.Context, t fencing.Token) (bool, error) {
	l := s.locks[t.Resource]
	if l == nil || l.expires <= s.clock.now() || (l.number != t.Number || l.grant != t.Grant) && s.planted != releaseAnyones {
		return false, nil
	}
	l.expires = 0
	return true, nil
}

// Evict implements locking.Backend.
func (s *plainLock) Evict(_ context.Context, resource string, number int64) error {
	if l := s.locks[resource]; l != nil && l.number == number {
		l.expires = 0
	}
	return nil
}

// Status implements locking.Backend.
func (s *plainLock) Status(_ context.Context, resource string) (locking.Status, error) {
	l := s.locks[resource]
	if l == nil {
		return locking.Status{Resource: resource}, nil
	}
	st := locking.Status{Resource: resource, Number: l.number, Held: l.expires > s.clock.now()}
	if st.Held {
		st.Label, st.Remaining = l.label, s.remaining(l)
	}
	return st, nil
}

// List implements locking.Backend.
func (s *plainLock) List(context.Context, string, string, int) ([]locking.Status, error) {
	return nil, nil
}

// lockClient is a process' driver of the lock store.
type lockClient struct {
	link *link
	to   *lockHost
}

// whole cuts a remaining time to whole cells: it is what remains at least, and the leases of a
// run begin and end in step with its clock.
func whole(d time.Duration) time.Duration { return d.Truncate(cell) }

// TryAcquire implements locking.Backend.
func (c *lockClient) TryAcquire(ctx context.Context, r locking.Request) (locking.Hold, error) {
	h, err := call(ctx, c.link, "acquire", r.Resource, func() (locking.Hold, error) {
		return c.to.granted(r, func() (locking.Hold, error) { return c.to.store.TryAcquire(context.Background(), r) })
	})
	return cutHold(h), cutHeld(err)
}

func cutHold(h locking.Hold) locking.Hold {
	h.Remaining = whole(h.Remaining)
	return h
}

func cutHeld(err error) error {
	if held, ok := err.(*locking.HeldError); ok { //nolint:errorlint // as the store made it
		cut := *held
		cut.Remaining = whole(cut.Remaining)
		return &cut
	}
	return err
}

// granted watches what a call that may grant does.
func (s *lockHost) granted(r locking.Request, do func() (locking.Hold, error)) (locking.Hold, error) {
	before := s.status(r.Resource)
	hold, err := do()
	s.h.granted(r, before, hold, err)
	return hold, err
}

func (s *lockHost) status(resource string) locking.Status {
	st, _ := s.store.Status(context.Background(), resource)
	return st
}

// Renew implements locking.Backend: a message for each hold, so that what is batched with what
// does not decide what the network does.
func (c *lockClient) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	verdicts := make([]error, len(held))
	for i, t := range held {
		_, verdicts[i] = call(ctx, c.link, "renew", t.String(), func() (struct{}, error) {
			before := c.to.status(t.Resource)
			err := c.to.store.Renew(context.Background(), ttl, []fencing.Token{t})[0]
			c.to.h.touched("renew", t, before, c.to.status(t.Resource), err == nil)
			return struct{}{}, err
		})
	}
	return verdicts
}

// Release implements locking.Backend.
func (c *lockClient) Release(ctx context.Context, t fencing.Token) (bool, error) {
	return call(ctx, c.link, "release", t.String(), func() (bool, error) {
		before := c.to.status(t.Resource)
		freed, err := c.to.store.Release(context.Background(), t)
		c.to.h.touched("release", t, before, c.to.status(t.Resource), freed)
		return freed, err
	})
}

// Evict implements locking.Backend.
func (c *lockClient) Evict(ctx context.Context, resource string, number int64) error {
	t := fencing.Token{Resource: resource, Number: number}
	_, err := call(ctx, c.link, "evict lock", t.String(), func() (struct{}, error) {
		before := c.to.status(resource)
		err := c.to.store.Evict(context.Background(), resource, number)
		c.to.h.touched("evict", t, before, c.to.status(resource), err == nil)
		return struct{}{}, err
	})
	return err
}

// Status implements locking.Backend.
func (c *lockClient) Status(ctx context.Context, resource string) (locking.Status, error) {
	return call(ctx, c.link, "status", resource, func() (locking.Status, error) {
		return c.to.store.Status(context.Background(), resource)
	})
}

// List implements locking.Backend.
func (c *lockClient) List(ctx context.Context, prefix, after string, limit int) ([]locking.Status, error) {
	return call(ctx, c.link, "list", "", func() ([]locking.Status, error) {
		return c.to.store.List(context.Background(), prefix, after, limit)
	})
}
