package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/redislock"
)

func TestBackend(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	lockingtest.RunBackend(t, lockingtest.BackendHarness{
		New:    func(tb testing.TB) locking.Backend { return backend(tb, connect(tb, server)) },
		Unique: testenv.Unique,
		Wakes:  true, Line: true, Transfers: true,
	})
}

func TestBackendOnCluster(t *testing.T) {
	t.Parallel()
	c := connectCluster(t, startCluster(t))
	lockingtest.RunBackend(t, lockingtest.BackendHarness{
		New:    func(tb testing.TB) locking.Backend { return backend(tb, c) },
		Unique: testenv.Unique,
		Wakes:  true, Line: true, Transfers: true,
	})
}

// TestClockJumpedBack gives holds an expiry that is further away than their TTL, which is
// what a clock that jumps back does.
func TestClockJumpedBack(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	b := backend(t, c)
	for name, look := range map[string]func(t *testing.T, r locking.Request, h locking.Hold){
		"another": func(t *testing.T, r locking.Request, _ locking.Hold) {
			_, err := b.TryAcquire(t.Context(), request(r.Resource))
			held, ok := errors.AsType[*locking.HeldError](err)
			if !ok || held.Remaining > minute {
				t.Errorf("got %v, want a *HeldError with at most the TTL", err)
			}
		},
		"repeat": func(t *testing.T, r locking.Request, _ locking.Hold) {
			if h := must(t, b, r); h.Drawn || h.Remaining > minute {
				t.Errorf("got %v, drawn %t, want at most the TTL", h.Remaining, h.Drawn)
			}
		},
		"re-issue": func(t *testing.T, r locking.Request, h locking.Hold) {
			r.Floor = h.Token.Number + 8
			if h := must(t, b, r); !h.Drawn || h.Remaining > minute || h.Token.Number != r.Floor+1 {
				t.Errorf("got %v for %v, drawn %t, want at most the TTL", h.Remaining, h.Token, h.Drawn)
			}
		},
		"renewal": func(t *testing.T, _ locking.Request, h locking.Hold) { renewed(t, b, time.Second, h.Token) },
	} {
		for how, jump := range map[string]func(key string) error{
			"later": func(key string) error { return c.PExpire(t.Context(), key, 2*time.Hour).Err() },
			"never": func(key string) error { return c.Persist(t.Context(), key).Err() },
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				r := request(testenv.Unique(t, "jump"))
				h := must(t, b, r)
				if err := jump(lockKey(r.Resource)); err != nil {
					t.Fatal(err)
				}
				st, err := b.Status(t.Context(), r.Resource)
				if err != nil || !st.Held || st.Remaining > minute {
					t.Errorf("Status = %+v, %v, want at most the TTL", st, err)
				}
				look(t, r, h)
				wantLeft(t, c, r.Resource, minute/2, minute)
			})
		}
	}
}

// TestRenewalMovesTheBound: a hold that was renewed for longer is not cut to its old TTL.
func TestRenewalMovesTheBound(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	b := backend(t, c)
	r := request(testenv.Unique(t, "renew"))
	h := must(t, b, r)
	renewed(t, b, 10*minute, h.Token)
	_ = must(t, b, r)
	wantLeft(t, c, r.Resource, 9*minute, 10*minute)
	renewed(t, b, time.Second, h.Token)
	_ = must(t, b, r)
	wantLeft(t, c, r.Resource, 9*minute, 10*minute)
}

// TestCounterNeverExpires: else a number would come again.
func TestCounterNeverExpires(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	b := backend(t, c)
	r := request(testenv.Unique(t, "counter"))
	must(t, b, r)
	if got := c.PTTL(t.Context(), counterKey(r.Resource)).Val(); got != -1 {
		t.Errorf("got PTTL %v, want none", got)
	}
}

func TestNumbersOfManyDigits(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	b := backend(t, c)
	for _, last := range []int64{99999999999999, 100000000000000, 999999999999999, 1 << 52, fencing.MaxNumber - 1} {
		r := request(testenv.Unique(t, "digits"))
		r.Floor = last - 1
		h := must(t, b, r)
		if h.Token.Number != last {
			t.Errorf("got number %d, want %d", h.Token.Number, last)
		}
		renewed(t, b, minute, h.Token)
		if freed, err := b.Release(t.Context(), h.Token); !freed || err != nil {
			t.Errorf("Release of %d = %t, %v", last, freed, err)
		}
		if got := must(t, b, request(r.Resource)).Token.Number; got != last+1 {
			t.Errorf("got number %d after %d", got, last)
		}
		number, _, _ := strings.Cut(c.Get(t.Context(), lockKey(r.Resource)).Val(), " ")
		for _, got := range []string{number, c.HGet(t.Context(), counterKey(r.Resource), "number").Val()} {
			if want := fmt.Sprint(last + 1); got != want {
				t.Errorf("the server has the number %q, want %s", got, want)
			}
		}
	}
}

func TestFlushedServerHealsByFloor(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	c := connect(t, server)
	b := backend(t, c)
	var h locking.Hold
	for range 7 {
		h = must(t, b, request("coupon:42"))
		if _, err := b.Release(t.Context(), h.Token); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	r := request("coupon:42")
	if got := must(t, b, r).Token.Number; got != 1 {
		t.Errorf("got number %d after FLUSHALL, want 1", got)
	}
	r.Floor = 7 // what the store answered
	again := must(t, b, r)
	if again.Token.Number != 8 || !again.Drawn {
		t.Errorf("got %v, drawn %t, want 8, drawn", again.Token, again.Drawn)
	}
	if freed, err := b.Release(t.Context(), h.Token); freed || err != nil {
		t.Errorf("the release of a lost hold = %t, %v", freed, err)
	}
}

// TestRestart: with an append-only file, holds and numbers outlive the server.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: true})
	b := backend(t, connect(t, server))
	r := request("coupon:42")
	h := must(t, b, r)
	server.Kill()
	server.Restart()
	if again := must(t, b, r); again.Token != h.Token || again.Drawn {
		t.Errorf("got %v, drawn %t, want %v again", again.Token, again.Drawn, h.Token)
	}
	if _, err := b.TryAcquire(t.Context(), request("coupon:42")); !errors.Is(err, locking.ErrHeld) {
		t.Errorf("got %v, want held", err)
	}
}

// TestOutcomes: a server that does not answer never makes a call look applied, and what
// is unknown may indeed have happened.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	b := backend(t, connect(t, server))
	held := must(t, b, request("held")).Token
	calls := map[string]func(ctx context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := b.TryAcquire(ctx, request("free")); return err },
		"renew":   func(ctx context.Context) error { return b.Renew(ctx, minute, []fencing.Token{held})[0] },
		"renew several": func(ctx context.Context) error {
			return errors.Join(b.Renew(ctx, minute, []fencing.Token{held, held})...)
		},
		"release": func(ctx context.Context) error { _, err := b.Release(ctx, held); return err },
		"evict":   func(ctx context.Context) error { return b.Evict(ctx, "free", 1) },
	}
	reads := map[string]func(ctx context.Context) error{
		"status": func(ctx context.Context) error { _, err := b.Status(ctx, "held"); return err },
		"list":   func(ctx context.Context) error { _, err := b.List(ctx, "", "", 10); return err },
	}
	check := func(when string, ctx context.Context, calls map[string]func(context.Context) error, want fencing.Outcome) {
		t.Helper()
		for name, call := range calls {
			err := call(ctx)
			if got := fencing.OutcomeOf(err); got != want {
				t.Errorf("%s, %s: got %v (%v), want %v", when, name, err, got, want)
			}
			if err != nil && strings.Contains(err.Error(), held.Grant) {
				t.Errorf("%s, %s: the error shows a grant id", when, name)
			}
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	check("the context has ended", ended, calls, fencing.Failed)
	check("the context has ended", ended, reads, fencing.Failed)

	server.Pause()
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second) // it is sent by then
	defer cancel()
	// Of what was sent before the deadline nobody knows.
	if _, err := b.TryAcquire(short, request("late")); fencing.OutcomeOf(err) != fencing.Unknown {
		t.Errorf("a paused server: got %v, want unknown", err)
	}
	server.Resume()
	testenv.Eventually(t, 30*time.Second, "the lost call took the lock", func() bool {
		st, err := b.Status(t.Context(), "late")
		return err == nil && st.Held
	})

	server.Kill()
	_, _ = b.Status(t.Context(), "held") // the broken connections go
	_, _ = b.Status(t.Context(), "held")
	check("nobody listens", t.Context(), calls, fencing.Failed)
	check("nobody listens", t.Context(), reads, fencing.Failed)
}

// TestMemoryIsShort: no lock is granted then, but those that are held can be kept and
// given back.
func TestMemoryIsShort(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	c := connect(t, server)
	b := backend(t, c)
	a, z := must(t, b, request("a")).Token, must(t, b, request("z")).Token
	if err := c.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.TryAcquire(t.Context(), request("b")); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("TryAcquire = %v, want failed", err)
	}
	renewed(t, b, 2*minute, a)
	wantLeft(t, c, "a", minute, 2*minute)
	if freed, err := b.Release(t.Context(), a); !freed || err != nil {
		t.Errorf("Release = %t, %v", freed, err)
	}
	if err := b.Evict(t.Context(), "z", z.Number); err != nil {
		t.Errorf("Evict = %v", err)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	b := backend(t, c)
	r := request("a{b}")
	if _, err := b.TryAcquire(t.Context(), r); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("TryAcquire = %v, want ErrInvalid", err)
	}
	bad := fencing.Token{Resource: "a b", Number: 1, Grant: fencing.NewGrant()}
	good := must(t, b, request(testenv.Unique(t, "good"))).Token
	got := b.Renew(t.Context(), minute, []fencing.Token{bad, good})
	if !errors.Is(got[0], fencing.ErrInvalid) || got[1] != nil {
		t.Errorf("Renew = %v, want ErrInvalid, nil", got)
	}
	for _, err := range b.Renew(t.Context(), time.Microsecond, []fencing.Token{good, good}) {
		if !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("Renew for a microsecond = %v, want ErrInvalid", err)
		}
	}
	if _, err := b.Release(t.Context(), bad); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Release = %v, want ErrInvalid", err)
	}
	if err := b.Evict(t.Context(), good.Resource, 0); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Evict = %v, want ErrInvalid", err)
	}
	if _, err := b.Status(t.Context(), ""); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Status = %v, want ErrInvalid", err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	retrying := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = retrying.Close() })
	_, err := redislock.New(retrying, nil)
	if !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), "MaxRetries: -1") {
		t.Errorf("a client that retries: got %v, want an error that says what to set", err)
	}
	c := connect(t, testenv.SharedRedis(t))
	if _, err := redislock.New(c, &redislock.Options{Prefix: "a{b}"}); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
}

// TestPrefixesAreApart: another prefix is another lock store.
func TestPrefixesAreApart(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	name := testenv.Unique(t, "prefix")
	for _, prefix := range []string{"", "a", "a:b"} {
		b, err := redislock.New(c, &redislock.Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		must(t, b, request(name))
		list, err := b.List(t.Context(), name, "", 10)
		if err != nil || len(list) != 1 {
			t.Errorf("prefix %q: List = %v, %v, want one", prefix, list, err)
		}
	}
}

// TestListManyLocks pages through more locks than one SCAN returns; free ones are no part
// of the limit, and nothing in a prefix is a pattern.
func TestListManyLocks(t *testing.T) {
	t.Parallel()
	b := backend(t, connect(t, testenv.SharedRedis(t)))
	prefix := testenv.Unique(t, "many") + ":"
	var want []string
	for i := range 1500 {
		r := request(fmt.Sprintf("%s%04d", prefix, i))
		h := must(t, b, r)
		if i%3 == 0 {
			if _, err := b.Release(t.Context(), h.Token); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want = append(want, r.Resource)
	}
	var got []string
	for after := ""; ; {
		page, err := b.List(t.Context(), prefix, after, 300)
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range page {
			got = append(got, st.Resource)
		}
		if len(page) < 300 {
			break
		}
		after = page[len(page)-1].Resource
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %d names, want %d", len(got), len(want))
	}
	for _, pattern := range []string{prefix + "*", prefix + "?", prefix + "[0-9]", `\`} {
		if list, err := b.List(t.Context(), pattern, "", 10); err != nil || len(list) != 0 {
			t.Errorf("List(%q) = %v, %v, want nothing", pattern, list, err)
		}
	}
}
