package storagetest

import (
	"context"
	"errors"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

type writeFunc = func(resource, key string, value []byte) error

func (r *run) update(fn func(ctx context.Context, write writeFunc) error, tokens ...fencing.Token) error {
	return r.h.Update(r.Context(), r.s, fn, tokens...)
}

func (r *run) read(resource, key string) string {
	r.Helper()
	value, found, err := r.h.Read(r.Context(), r.s, resource, key)
	r.ok(err, "read")
	if !found {
		return "(none)"
	}
	return string(value)
}

// raiseWaits holds a transaction of 33 open while 34 is raised. The raise may wait for
// its end, or end it; what it may not do is return and have the write appear later.
func raiseWaits(r *run) {
	const hold = 300 * time.Millisecond // enough for a raise that does not wait to return
	t33 := r.held(33)
	written, raised, updated := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		updated <- r.update(func(_ context.Context, write writeFunc) error {
			err := write(t33.Resource, "a", []byte("by 33"))
			close(written)
			select {
			case err := <-raised: // it did not wait: go on, and show the harm
				raised <- err
			case <-time.After(hold):
			}
			return err
		}, t33)
	}()
	select {
	case <-written:
	case err := <-updated:
		r.Fatalf("update: %v, and its function did not run", err)
	}
	raisedAt := make(chan string, 1)
	go func() {
		err := r.s.Fence.Raise(r.Context(), token(t33.Resource, 34))
		value, found, readErr := r.h.Read(r.Context(), r.s, t33.Resource, "a")
		if !found {
			value = []byte("(none)")
		}
		raisedAt <- string(value)
		raised <- errors.Join(err, readErr)
	}()
	err := <-updated
	r.ok(<-raised, "raise, then read")
	at, after := <-raisedAt, r.read(t33.Resource, "a")
	if at != after {
		r.Errorf("when the raise of 34 returned, the value was %s; then 33 made it %s", at, after)
	}
	if want := map[bool]string{true: "by 33", false: "(none)"}[err == nil]; after != want && fencing.OutcomeOf(err) != fencing.Unknown {
		r.Errorf("update returned %v, and the value is %s, want %s", err, after, want)
	}
	r.wantStale(r.update(func(_ context.Context, write writeFunc) error {
		return write(t33.Resource, "a", []byte("late"))
	}, t33), t33, 34, fencing.Superseded)
	if got := r.read(t33.Resource, "a"); got != after {
		r.Errorf("a refused update changed the value to %s", got)
	}
}

func updates(r *run) {
	t, other := r.held(5), r.held(6)
	r.ok(r.update(func(_ context.Context, write writeFunc) error {
		return errors.Join(write(t.Resource, "a", []byte("1")), write(other.Resource, "b", []byte("2")))
	}, t, other), "update")
	if a, b := r.read(t.Resource, "a"), r.read(other.Resource, "b"); a != "1" || b != "2" {
		r.Errorf("got %s, %s, want 1, 2", a, b)
	}
	mine := errors.New("mine")
	err := r.update(func(_ context.Context, write writeFunc) error {
		return errors.Join(mine, write(t.Resource, "a", []byte("undone")), write(t.Resource, "c", nil))
	}, other, t)
	if !errors.Is(err, mine) {
		r.Errorf("got %v, want the function's own error", err)
	}
	if a, c := r.read(t.Resource, "a"), r.read(t.Resource, "c"); a != "1" || c != "(none)" {
		r.Errorf("got %s, %s after an error, want 1, (none)", a, c)
	}
	r.wantMark(t.Resource, markOf(t))
	r.ok(r.s.Fence.Raise(r.Context(), token(t.Resource, 7)), "raise after an update that failed")
}

// updateRefused: with one stale token among several, nothing is written, whether or not
// the function has run.
func updateRefused(r *run) {
	t, other := r.held(5), r.held(6)
	ended := r.held(7)
	r.ok(r.s.Fence.Retire(r.Context(), ended), "retire")
	for _, c := range []struct {
		bad     fencing.Token
		highest int64
		reason  fencing.Reason
	}{
		{token(other.Resource, 5), 6, fencing.Superseded},
		{token(other.Resource, 6), 6, fencing.Duplicate},
		{token(other.Resource, 7), 6, fencing.Ungranted},
		{ended, 7, fencing.Retired},
		{token(r.resource(), 1), 0, fencing.Ungranted},
	} {
		for _, tokens := range [][]fencing.Token{{c.bad}, {t, c.bad}, {c.bad, t}} {
			err := r.update(func(_ context.Context, write writeFunc) error {
				return write(tokens[0].Resource, "a", []byte("stale"))
			}, tokens...)
			r.wantStale(err, c.bad, c.highest, c.reason)
			for _, name := range []string{t.Resource, c.bad.Resource} {
				if got := r.read(name, "a"); got != "(none)" {
					r.Errorf("a refused update wrote %s", got)
				}
			}
		}
	}
}

// updatePanics: a panic goes on, and leaves neither a write nor a lock behind.
func updatePanics(r *run) {
	t := r.held(5)
	func() {
		defer func() {
			if got := recover(); got != "mine" {
				r.Errorf("recovered %v, want the function's own panic", got)
			}
		}()
		_ = r.update(func(_ context.Context, write writeFunc) error {
			if err := write(t.Resource, "a", []byte("undone")); err != nil {
				return err
			}
			panic("mine")
		}, t)
	}()
	if got := r.read(t.Resource, "a"); got != "(none)" {
		r.Errorf("got %s after a panic, want (none)", got)
	}
	r.raise(token(t.Resource, 6))
}
