package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// attempt sends a request once, to the replica whose turn it is. The error carries its outcome.
func (c *Client) attempt(ctx context.Context, k call) (answer, error) {
	if ctx.Err() != nil {
		return answer{}, ended(ctx)
	}
	// Who waits for a lock is not told apart from a replica that hangs for a long time.
	at := c.fleet.choose(k.wait == 0)
	sent := time.Now()
	a, err := c.exchange(ctx, at, k)
	a.at = at
	switch away := a.retryAfter(); {
	case a.problem == nil && a.status >= http.StatusInternalServerError:
		c.fleet.avoid(at, away)
	case a.problem != nil && (a.problem.Slug() == wire.SlugDraining || a.problem.Slug() == wire.SlugOverloaded):
		c.fleet.avoid(at, away)
	case a.closes && a.problem == nil:
		// A gateway that drains serves what it can, and wants its clients to go elsewhere. But a
		// server also closes where it has refused a body that it did not read.
		c.fleet.avoid(at, 0)
	case err == nil || a.problem != nil:
		c.fleet.answered(at, sent)
	case a.status == 0 && (ctx.Err() == nil || k.wait == 0 && errors.Is(ctx.Err(), context.DeadlineExceeded)):
		// No answer, and not because the caller has given up. Who waits for a lock may be patient
		// for less time than that takes.
		c.fleet.avoid(at, 0)
	}
	return a, err
}

// exact sends a request that may be repeated until it is answered: nil or a refusal. Where no
// attempt was answered, one that is unknown speaks for all.
func (c *Client) exact(ctx context.Context, k call) (answer, error) {
	k.exact = true
	return c.repeat(ctx, k)
}

// once sends a request that is carried out at most once: only an attempt that surely did nothing
// is followed by another.
func (c *Client) once(ctx context.Context, k call) (answer, error) { return c.repeat(ctx, k) }

func (c *Client) repeat(ctx context.Context, k call) (answer, error) {
	var unknown error
	for n, pause := 0, firstPause; ; n++ {
		a, err := c.attempt(ctx, k)
		o := fencing.OutcomeOf(err)
		again := o == fencing.Failed || o == fencing.Unknown && k.exact
		// Where a release has freed the lock and failed beside it, a repeat would only say
		// that the lock was free already.
		freed := a.problem != nil && a.problem.Released != nil
		if !again || freed || n == c.o.Retries || !c.rest(ctx, a, &pause) {
			if unknown != nil && (o == fencing.Failed && !freed || o == fencing.Refused && !settled(err)) {
				err = unknown
			}
			return a, err
		}
		if o == fencing.Unknown {
			unknown = err
		}
	}
}

// settled reports whether a refusal comes from behind the door, and so says what became of an attempt
// before it.
func settled(err error) bool {
	return judged(err) || errors.Is(err, storage.ErrNotFound) || errors.Is(err, locking.ErrLost)
}

// judged reports whether a refusal of a commit comes from behind the look-up of its key. One that
// comes from the door says nothing of an attempt before it.
func judged(err error) bool {
	if _, data := errors.AsType[*storage.RefusedError](err); data {
		return true
	}
	stale, ok := errors.AsType[*fencing.StaleError](err)
	return ok && stale.Reason != fencing.GrantRequired
}

const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// rest pauses before a repeat and reports whether there is to be one. Another replica is asked at
// once. The same one is given the time that it asked for, unless that is more than there is.
func (c *Client) rest(ctx context.Context, a answer, pause *time.Duration) bool {
	if c.fleet.another(a.at) {
		return ctx.Err() == nil
	}
	d, asked := *pause, a.retryAfter()
	*pause = min(2*d, lastPause)
	if asked > d {
		d = asked
		if end, bounded := ctx.Deadline(); d > c.o.Timeout || bounded && time.Until(end) < d {
			return false
		}
	}
	return sleep(ctx, d)
}

// retryAfter is what the reply says of when to ask again; 0 if it says nothing.
func (a answer) retryAfter() time.Duration {
	text := a.header.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// sleep reports whether ctx lasted for d.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
