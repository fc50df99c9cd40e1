package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking/redlock"
)

// hook stands between a backend and one node. around is called for each script, with its
// kind and the call itself.
type hook struct {
	around func(kind string, send func() error) error
}

func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		var words []string
		for _, arg := range cmd.Args() {
			words = append(words, fmt.Sprint(arg))
		}
		kind := kindOf(words)
		// A straggler is sent when its caller has long gone.
		err := h.around(kind, func() error { return next(context.WithoutCancel(ctx), cmd) })
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

// first is a hook that does something before the first script of a kind goes out.
func first(kind string, fn func()) *hook {
	var once sync.Once
	return &hook{around: func(k string, send func() error) error {
		if k == kind {
			once.Do(fn)
		}
		return send()
	}}
}

// known makes the servers know the scripts, so that each call is one command.
func known(t *testing.T, b *redlock.Backend) {
	t.Helper()
	knownFor(t, b, 30*time.Second)
}

func knownFor(t *testing.T, b *redlock.Backend, ttl time.Duration) {
	t.Helper()
	r := request("known")
	r.TTL = ttl
	release(t, b, must(t, b, r).Token)
	r.Grant = fencing.NewGrant()
	h := must(t, b, r)
	r.Floor = h.Token.Number
	release(t, b, must(t, b, r).Token)
}

func lock(resource string) string { return "fencegate:{" + resource + "}:lock" }

// TestLockGoneBeforeConfirm: a number is confirmed only where the lock is still the very
// one whose counter made it.
func TestLockGoneBeforeConfirm(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	o := redlock.Options{NodeTimeout: patient}
	known(t, c.ready(t, o))
	for name, lose := range map[string]func(direct *redis.Client) error{
		"expired": func(direct *redis.Client) error { return direct.Del(context.Background(), lock("expired")).Err() },
		"granted again": func(direct *redis.Client) error {
			return direct.HIncrBy(context.Background(), lock("again"), "ctr", 1).Err()
		},
		"another's": func(direct *redis.Client) error {
			return direct.HSet(context.Background(), lock("other"), "attempt", fencing.NewGrant()).Err()
		},
	} {
		resource := map[string]string{"expired": "expired", "granted again": "again", "another's": "other"}[name]
		hooks := make([]redis.Hook, 3)
		for i := range 2 {
			direct := connect(c.servers[i])
			t.Cleanup(func() { _ = direct.Close() })
			hooks[i] = first("confirm", func() {
				if err := lose(direct); err != nil {
					t.Error(err)
				}
			})
		}
		h := must(t, c.backend(t, o, hooks...), request(resource))
		if h.Token.Number != 2 {
			t.Errorf("%s: got %v, want 2, of a second round", name, h.Token)
		}
	}
}

// TestStragglerFindsATombstone: a grant that arrives after its attempt was taken back does nothing.
func TestStragglerFindsATombstone(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	o := redlock.Options{NodeTimeout: patient}
	known(t, c.ready(t, o))
	var late func() error
	hooks := make([]redis.Hook, 3)
	hooks[2] = &hook{around: func(kind string, send func() error) error {
		if kind == "grant" && late == nil {
			late = send
			return errors.New("no answer")
		}
		return send()
	}}
	b := c.backend(t, o, hooks...)
	h := must(t, b, request("r"))
	release(t, b, h.Token) // the debt is paid before it
	if err := late(); err != nil {
		t.Fatal(err)
	}
	direct := connect(c.servers[2])
	t.Cleanup(func() { _ = direct.Close() })
	if keys := direct.Keys(t.Context(), "fencegate:{r}:*").Val(); len(keys) != 1 {
		t.Errorf("the node has %q, want only the tombstone", keys)
	}
}

// TestRefusedGrantLeavesTheGrantUsable: what was confirmed by a minority and taken back does
// not make the grant one that has ended.
func TestRefusedGrantLeavesTheGrantUsable(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	o := redlock.Options{NodeTimeout: patient}
	known(t, c.ready(t, o))
	hooks := make([]redis.Hook, 3)
	for i := range 2 {
		done := false
		hooks[i] = &hook{around: func(kind string, send func() error) error {
			if kind == "confirm" && !done {
				done = true
				return errors.New("no answer") // and never arrives
			}
			return send()
		}}
	}
	b := c.backend(t, o, hooks...)
	r := request("r")
	if h := must(t, b, r); h.Token.Number != 2 || !h.Drawn {
		t.Errorf("got %v (drawn %v), want 2 of a second round", h.Token, h.Drawn)
	}
	c.servers[0].Kill() // node 2, which confirmed in vain, is needed now
	if again := must(t, b, r); again.Token.Number != 2 || again.Drawn {
		t.Errorf("got %v (drawn %v), want 2 again", again.Token, again.Drawn)
	}
}

// TestLateGrantIsRefused: a grant that took all of its TTL is none.
func TestLateGrantIsRefused(t *testing.T) {
	t.Parallel()
	c := start(t, 3, nil)
	o := redlock.Options{NodeTimeout: patient}
	known(t, c.ready(t, o))
	slow := &hook{around: func(kind string, send func() error) error {
		err := send()
		if kind == "confirm" {
			time.Sleep(500 * time.Millisecond)
		}
		return err
	}}
	b := c.backend(t, o, slow)
	r := request("r")
	r.TTL = 400 * time.Millisecond
	if h, err := b.TryAcquire(t.Context(), r); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("got %v, %v, want failed", h, err)
	}
	if st, err := b.Status(t.Context(), "r"); err != nil || st.Held {
		t.Errorf("Status = %+v, %v, want nothing held", st, err)
	}
}

func TestDriftIsTakenOff(t *testing.T) {
	t.Parallel()
	b := start(t, 3, nil).ready(t, redlock.Options{NodeTimeout: patient, Drift: 10 * time.Second})
	r := request("r")
	first, again := must(t, b, r), must(t, b, r)
	if first.Remaining > 20*time.Second || again.Remaining > 20*time.Second || first.Remaining < 10*time.Second {
		t.Errorf("got %v and %v of %v, want 10s less", first.Remaining, again.Remaining, r.TTL)
	}
}
