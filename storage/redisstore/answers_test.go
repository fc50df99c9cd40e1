package redisstore_test

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
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/redisstore"
)

func answersKey(resource string) string { return "fencegate:{" + resource + "}:answers" }

// keeping returns a backend that keeps answers for so long.
func keeping(t *testing.T, c redis.UniversalClient, retention time.Duration) *redisstore.Backend {
	t.Helper()
	b, err := redisstore.New(t.Context(), c, &redisstore.Options{KeyRetention: retention})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// add counts one up in a commit with a key, or without one.
func add(ctx context.Context, b *redisstore.Backend, tok fencing.Token, key string) (sum int64, replayed bool, err error) {
	out := b.Apply(ctx, []storage.Commit{addition(tok, key)})[0]
	if out.Err != nil {
		return 0, false, out.Err
	}
	return out.Result.Ops[0].Counter, out.Result.Replayed, nil
}

func addition(tok fencing.Token, key string) storage.Commit {
	return storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add(tok.Resource, "n", 1, 0)}, Key: key}
}

// wantAdd: the add was answered with sum, as one that is replayed or not.
func wantAdd(t *testing.T, b *redisstore.Backend, tok fencing.Token, key string, want int64, replayed bool) {
	t.Helper()
	if sum, again, err := add(t.Context(), b, tok, key); sum != want || again != replayed || err != nil {
		t.Errorf("add under the key %q = %d, replayed %v, %v; want %d, %v", key, sum, again, err, want, replayed)
	}
}

// expiry returns the time that the answers of a resource have left, -1 if they do not
// expire, and -2 if there are none.
func expiry(t *testing.T, c *redis.Client, resource string) time.Duration {
	t.Helper()
	left, err := c.PTTL(t.Context(), answersKey(resource)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// TestAnswersOfEndedTokens: an answer is found under a later token, under the one that was
// superseded or retired, and under one of an earlier incarnation.
func TestAnswersOfEndedTokens(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: true})
	c := connect(t, server)
	b := backend(t, c)
	old := raised(t, b, "coupon:42", 34)
	wantAdd(t, b, old, "k1", 1, false)
	next := raised(t, b, "coupon:42", 35)
	wantAdd(t, b, old, "k1", 1, true)
	wantAdd(t, b, next, "k1", 1, true)
	_, _, err := add(t.Context(), b, old, "k2")
	wantReason(t, err, fencing.Superseded)
	wantAdd(t, b, next, "k2", 2, false) // what the fence refused left no answer
	if err := b.Retire(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	wantAdd(t, b, next, "k2", 2, true)

	last := raised(t, b, "coupon:42", 36)
	wantAdd(t, b, last, "k3", 3, false)
	server.Kill()
	server.Restart()
	_ = c.Ping(t.Context()).Err()
	wantAdd(t, b, last, "k3", 3, true)
	_, _, err = add(t.Context(), b, last, "k4")
	wantReason(t, err, fencing.Retired)
}

// TestAnswersOfRefusals: what the data refused stays refused under its key, in the same
// words, also after the data has changed.
func TestAnswersOfRefusals(t *testing.T) {
	t.Parallel()
	b := backend(t, connect(t, testenv.SharedRedis(t)))
	tok := raised(t, b, testenv.Unique(t, "refusals"), 34)
	r := tok.Resource
	if _, err := apply(t.Context(), b, []storage.Op{
		storage.Add(r, "much", storage.MaxCounter, 0), storage.Add(r, "few", 100000000000000, 0), storage.Put(r, "text", []byte("x")),
	}, tok); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		op         storage.Op
		reason     error
		have, want int64
	}{
		"version": {storage.Require(r, "text", 7), storage.ErrVersionMismatch, 1, 7},
		"minimum": {storage.Add(r, "few", -1, 100000000000001), storage.ErrBelowMinimum, 100000000000000, 100000000000001},
		"counter": {storage.Add(r, "text", 1, 0), storage.ErrNotCounter, 0, 0},
		"range":   {storage.Add(r, "much", 1, 0), storage.ErrCounterRange, storage.MaxCounter, 0},
	}
	try := func(when string) {
		t.Helper()
		for key, c := range cases {
			out := b.Apply(t.Context(), []storage.Commit{{
				Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Put(r, "side", nil), c.op}, Key: key,
			}})[0]
			got, ok := errors.AsType[*storage.RefusedError](out.Err)
			if !ok {
				t.Errorf("%s, %s: got %v, want a refusal", when, key, out.Err)
				continue
			}
			want := storage.RefusedError{Op: 1, Resource: r, Key: c.op.Key, Reason: c.reason, Have: c.have, Want: c.want}
			if *got != want {
				t.Errorf("%s, %s: got %+v, want %+v", when, key, *got, want)
			}
		}
	}
	try("first")
	if _, err := apply(t.Context(), b, []storage.Op{
		storage.Put(r, "much", []byte("1")), storage.Put(r, "few", []byte("200000000000000")), storage.Put(r, "text", []byte("1")),
	}, tok); err != nil {
		t.Fatal(err)
	}
	try("again")
	if _, err := b.Get(t.Context(), r, "side"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("got %v, want nothing written by what was refused", err)
	}
}

// TestAnswersOfOneBatch: the second commit of a key gets the answer of the first.
func TestAnswersOfOneBatch(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil) // does not know the script
	b := backend(t, connect(t, server))
	tok := raised(t, b, "coupon:42", 34)
	other := addition(tok, "k")
	other.Ops[0].Delta = 2
	out := b.Apply(t.Context(), []storage.Commit{addition(tok, "k"), addition(tok, ""), addition(tok, "k"), other})
	for i, want := range []int64{1, 2, 1} {
		if out[i].Err != nil || out[i].Result.Ops[0].Counter != want || out[i].Result.Replayed != (i == 2) {
			t.Errorf("commit %d: got %+v, want the sum %d", i, out[i], want)
		}
	}
	reused, ok := errors.AsType[*storage.RefusedError](out[3].Err)
	if !ok || !errors.Is(reused, storage.ErrKeyReused) || reused.Op != storage.NoOp || reused.Resource != "coupon:42" || reused.Key != "k" {
		t.Errorf("another commit under the key: got %v, want ErrKeyReused", out[3].Err)
	}
}

// TestAnswersBelongToTheLowestResource of a commit.
func TestAnswersBelongToTheLowestResource(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	b := backend(t, c)
	x, y := raised(t, b, testenv.Unique(t, "x"), 7), raised(t, b, testenv.Unique(t, "y"), 9)
	both := storage.Commit{
		Tokens: []fencing.Token{x, y}, Key: "k",
		Ops: []storage.Op{storage.Add(y.Resource, "n", 5, 0), storage.Add(x.Resource, "n", 3, 0)},
	}
	if err := b.Retire(t.Context(), y); err != nil {
		t.Fatal(err)
	}
	wantReason(t, b.Apply(t.Context(), []storage.Commit{both})[0].Err, fencing.Retired)
	both.Tokens[1] = raised(t, b, y.Resource, 10)
	for i := range 2 {
		out := b.Apply(t.Context(), []storage.Commit{both})[0]
		if out.Err != nil || out.Result.Replayed != (i == 1) || out.Result.Ops[0].Counter != 5 || out.Result.Ops[1].Counter != 3 {
			t.Errorf("commit %d: got %+v, %v", i, out.Result, out.Err)
		}
	}
	if n := c.Exists(t.Context(), answersKey(x.Resource)).Val(); n != 1 {
		t.Error("no answer lies with the lowest resource")
	}
	if n := c.Exists(t.Context(), answersKey(y.Resource)).Val(); n != 0 {
		t.Error("an answer lies with the other resource")
	}
}

// TestAnswersExpire: answers of the mark do not, whatever ends the mark lets them, and a
// commit under the next one keeps them.
func TestAnswersExpire(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	b := keeping(t, c, time.Hour)
	ctx := t.Context()
	ends := map[string]func(fencing.Token) error{
		"retired": func(tok fencing.Token) error { return b.Retire(ctx, tok) },
		"evicted": func(tok fencing.Token) error { return b.Evict(ctx, tok) },
		"evicted by its number": func(tok fencing.Token) error {
			return b.Evict(ctx, fencing.Token{Resource: tok.Resource, Number: tok.Number})
		},
		"evicted before it came": func(tok fencing.Token) error {
			return b.Evict(ctx, fencing.Token{Resource: tok.Resource, Number: tok.Number + 1})
		},
		"superseded": func(tok fencing.Token) error {
			return b.Raise(ctx, fencing.Token{Resource: tok.Resource, Number: tok.Number + 1, Grant: fencing.NewGrant()})
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok := raised(t, b, testenv.Unique(t, "expire"), 100000000000000)
			wantAdd(t, b, tok, "k1", 1, false)
			if err := errors.Join(b.Raise(ctx, tok), b.Retire(ctx, fencing.Token{Resource: tok.Resource, Number: 7, Grant: tok.Grant})); err != nil {
				t.Fatal(err)
			}
			if got := expiry(t, c, tok.Resource); got != -1 {
				t.Errorf("under the mark: expire in %v, want never", got)
			}
			if err := end(tok); err != nil {
				t.Fatal(err)
			}
			if got := expiry(t, c, tok.Resource); got < 55*time.Minute || got > time.Hour {
				t.Errorf("after the mark: expire in %v, want the rest of an hour", got)
			}
			wantAdd(t, b, tok, "k1", 1, true)
			next := raised(t, b, tok.Resource, tok.Number+2)
			wantAdd(t, b, next, "k2", 2, false)
			if got := expiry(t, c, tok.Resource); got != -1 {
				t.Errorf("under the next mark: expire in %v, want never", got)
			}
			wantAdd(t, b, next, "k1", 1, true)
		})
	}
	t.Run("refused by the data", func(t *testing.T) {
		t.Parallel()
		tok := raised(t, b, testenv.Unique(t, "expire"), 1)
		wantAdd(t, b, tok, "k1", 1, false)
		next := raised(t, b, tok.Resource, 2)
		out := b.Apply(ctx, []storage.Commit{{Tokens: []fencing.Token{next}, Ops: []storage.Op{storage.Add(tok.Resource, "n", -5, 0)}, Key: "k2"}})
		if !errors.Is(out[0].Err, storage.ErrBelowMinimum) {
			t.Fatal(out[0].Err)
		}
		if got := expiry(t, c, tok.Resource); got != -1 {
			t.Errorf("under the mark: expire in %v, want never", got)
		}
	})
}

// TestAnswersGoByThemselves: those of the mark outlive their retention; after its end nobody
// has to come for them to go.
func TestAnswersGoByThemselves(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	b := keeping(t, c, 300*time.Millisecond)
	tok := raised(t, b, testenv.Unique(t, "due"), 34)
	wantAdd(t, b, tok, "k1", 1, false)
	wantPast(t, c, 300*time.Millisecond)
	wantAdd(t, b, tok, "k1", 1, true)
	if err := b.Retire(t.Context(), tok); err != nil { // long due: at once
		t.Fatal(err)
	}
	if got := expiry(t, c, tok.Resource); got != -2 {
		t.Errorf("expire in %v, want that they are gone", got)
	}

	next := raised(t, b, tok.Resource, 35)
	wantAdd(t, b, next, "k1", 2, false)
	if err := b.Retire(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 20*time.Second, "the answers are gone", func() bool { return expiry(t, c, tok.Resource) == -2 })
	_, _, err := add(t.Context(), b, next, "k1")
	wantReason(t, err, fencing.Retired)
}

// wantPast waits until the server's clock is so much further.
func wantPast(t *testing.T, c *redis.Client, d time.Duration) {
	t.Helper()
	begin := c.Time(t.Context()).Val()
	testenv.Eventually(t, 20*time.Second, "time passes", func() bool { return c.Time(t.Context()).Val().Sub(begin) > d+time.Millisecond })
}

// TestAnswersAreSwept: what is due goes in small steps with commits that have a key; what is
// not, or is the mark's, stays.
func TestAnswersAreSwept(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	short, long := keeping(t, c, time.Millisecond), keeping(t, c, time.Hour)
	tok := raised(t, short, testenv.Unique(t, "swept"), 34)
	const many = 10
	for i := range int64(many) {
		wantAdd(t, short, tok, fmt.Sprint("short", i), i+1, false)
	}
	wantAdd(t, long, tok, "long", many+1, false)
	next := raised(t, short, tok.Resource, 35)
	wantPast(t, c, 2*time.Millisecond)
	kept := func() (keys []string) {
		for field := range c.HGetAll(t.Context(), answersKey(tok.Resource)).Val() {
			if !strings.HasPrefix(field, "#") && field != "*" {
				keys = append(keys, field)
			}
		}
		slices.Sort(keys)
		return keys
	}
	if got := len(kept()); got != many+1 {
		t.Fatalf("%d answers are kept, want %d", got, many+1)
	}
	for i, want := range []int{9, 7, 5, 5, 6} {
		wantAdd(t, short, next, fmt.Sprint("next", i), many+2+int64(i), false)
		if got := kept(); len(got) != want {
			t.Errorf("after %d more commits the answers of %q are kept, want %d", i+1, got, want)
		}
	}
	if want := []string{"long", "next0", "next1", "next2", "next3", "next4"}; !slices.Equal(kept(), want) {
		t.Errorf("the answers of %q are kept, want %q", kept(), want)
	}
	if n := c.HLen(t.Context(), answersKey(tok.Resource)).Val(); n != 2*6+1 {
		t.Errorf("they take %d fields, want 13", n)
	}
	wantAdd(t, short, next, "long", many+1, true)
	wantAdd(t, short, next, "short3", many+7, false)

	// All go together when the last of them is due, and that one did not come last.
	if err := short.Retire(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if got := expiry(t, c, tok.Resource); got < 55*time.Minute || got > time.Hour {
		t.Errorf("after the mark: expire in %v, want the rest of an hour", got)
	}
	wantAdd(t, short, next, "long", many+1, true)
}

// TestCommandsOfACommit: an idempotency key costs those who have none nothing.
func TestCommandsOfACommit(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.StartRedis(t, nil))
	b := backend(t, c)
	tok := raised(t, b, "coupon:42", 34)
	for key, want := range map[string][]string{
		"":  {"evalsha 1", "hget 1", "hmget 1", "hset 1", "info 1"},
		"k": {"evalsha 1", "hget 1", "hmget 3", "hset 2", "info 1", "persist 1", "time 1"},
	} {
		if _, _, err := add(t.Context(), b, tok, key+"0"); err != nil { // the script is known
			t.Fatal(err)
		}
		if err := c.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := add(t.Context(), b, tok, key); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(c.Info(t.Context(), "commandstats").Val()) {
			var n int
			name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
			if _, err := fmt.Sscanf(rest, "calls=%d,", &n); err == nil && !strings.HasPrefix(name, "config") {
				got = append(got, fmt.Sprint(name, " ", n))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("key %q: got the commands %q, want %q", key, got, want)
		}
	}
}

func TestKeyRetention(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	for _, d := range []time.Duration{-1, time.Microsecond, 1500 * time.Microsecond, 366*24*time.Hour + time.Millisecond} {
		_, err := redisstore.New(t.Context(), c, &redisstore.Options{KeyRetention: d})
		if !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("KeyRetention %v: got %v, want ErrInvalid", d, err)
		}
	}
	b := keeping(t, c, 0)
	tok := raised(t, b, testenv.Unique(t, "retention"), 1)
	wantAdd(t, b, tok, "k", 1, false)
	if err := b.Retire(t.Context(), tok); err != nil {
		t.Fatal(err)
	}
	if got := expiry(t, c, tok.Resource); got < 23*time.Hour || got > 24*time.Hour {
		t.Errorf("answers expire in %v, want the default of 24 h", got)
	}
}

// TestAnswersNotReadable: an answer that no commit wrote never passes for one.
func TestAnswersNotReadable(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	b := backend(t, c)
	tok := raised(t, b, testenv.Unique(t, "strange"), 1)
	wantAdd(t, b, tok, "k", 1, false)
	good := c.HGet(t.Context(), answersKey(tok.Resource), "k").Val()
	fingerprint, _, _ := strings.Cut(good, " ")
	for _, bad := range []string{"", "x ok 1 1", "00 ok 1 1", fingerprint, fingerprint + " ", fingerprint + " again " + good, fingerprint + " ok 1", fingerprint + " ok 1 x", fingerprint + " data 9 version 1 1", fingerprint + " stale 0 retired 1"} {
		c.HSet(t.Context(), answersKey(tok.Resource), "k", bad)
		if _, _, err := add(t.Context(), b, tok, "k"); fencing.OutcomeOf(err) != fencing.Unknown {
			t.Errorf("%q: got %v, want unknown", bad, err)
		}
	}
}
