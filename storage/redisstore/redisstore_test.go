package redisstore_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencingtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/redisstore"
	"github.com/fencegate/fencegate/storage/storagetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// harness runs the suite on what connect returns.
func harness(connect func(tb testing.TB) redis.UniversalClient) storagetest.Harness {
	return storagetest.Harness{New: func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
		b := backend(tb, connect(tb))
		s, err := storage.New(b, &storage.Options{Mode: mode})
		if err != nil {
			tb.Fatal(err)
		}
		return storagetest.Subject{Store: s, Fence: s, Backend: b}
	}, Aged: func(tb testing.TB, _ storagetest.Subject, resource string) { aged(tb, connect(tb), resource) }, Answered: storagetest.Answered}
}

// aged makes the answers of a resource overdue.
func aged(tb testing.TB, c redis.UniversalClient, resource string) {
	tb.Helper()
	fields, err := c.HGetAll(tb.Context(), answersKey(resource)).Result()
	if err != nil {
		tb.Fatal(err)
	}
	var overdue []string
	for field, value := range fields {
		if strings.HasPrefix(field, "#") {
			_, rest, _ := strings.Cut(value, " ")
			overdue = append(overdue, field, "1 "+rest)
		}
	}
	if err := c.HSet(tb.Context(), answersKey(resource), overdue).Err(); err != nil {
		tb.Fatal(err)
	}
}

func shared(tb testing.TB) redis.UniversalClient { return connect(tb, testenv.SharedRedis(tb)) }

func TestSuite(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, harness(shared))
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	storagetest.Differential(t, harness(shared))
}

func TestRule(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	now := incarnation(t, c)
	storagetest.RunRule(t, harness(shared), storagetest.Rule{
		Set: func(tb testing.TB, _ storagetest.Subject, resource string, state fencingtest.State) {
			if state.Absent {
				return
			}
			retired, made := "0", now
			if state.Mark.Retired {
				retired = "1"
			}
			if state.Inherited {
				made = strings.Repeat("0", 40) + ":" + strings.Repeat("0", 40)
			}
			err := c.HSet(tb.Context(), markKey(resource), "number", strconv.FormatInt(state.Mark.Number, 10),
				"grant", state.Mark.Grant, "retired", retired, "incarnation", made).Err()
			if err != nil {
				tb.Fatal(err)
			}
		},
		Incarnations: true,
	})
}

func connect(tb testing.TB, r *testenv.Redis) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: r.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, ReadTimeout: 20 * time.Second,
	})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func backend(tb testing.TB, c redis.UniversalClient) *redisstore.Backend {
	tb.Helper()
	b, err := redisstore.New(tb.Context(), c, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func markKey(resource string) string    { return "fencegate:{" + resource + "}:mark" }
func recordsKey(resource string) string { return "fencegate:{" + resource + "}:records" }

// incarnation is what a mark that is made now carries.
func incarnation(t *testing.T, c *redis.Client) string {
	t.Helper()
	tok := raised(t, backend(t, c), testenv.Unique(t, "incarnation"), 1)
	made := c.HGet(t.Context(), markKey(tok.Resource), "incarnation").Val()
	if run, history, ok := strings.Cut(made, ":"); !ok || len(run) != 40 || len(history) != 40 {
		t.Fatalf("got the incarnation %q, want run id and replication id", made)
	}
	return made
}

func raised(t *testing.T, b *redisstore.Backend, resource string, number int64) fencing.Token {
	t.Helper()
	tok := fencing.Token{Resource: resource, Number: number, Grant: fencing.NewGrant()}
	if err := b.Raise(t.Context(), tok); err != nil {
		t.Fatalf("raise %v: %v", tok, err)
	}
	return tok
}

func apply(ctx context.Context, b *redisstore.Backend, ops []storage.Op, tokens ...fencing.Token) (storage.Result, error) {
	out := b.Apply(ctx, []storage.Commit{{Tokens: tokens, Ops: ops}})[0]
	return out.Result, out.Err
}

func put(ctx context.Context, b *redisstore.Backend, tok fencing.Token, key, value string) error {
	_, err := apply(ctx, b, []storage.Op{storage.Put(tok.Resource, key, []byte(value))}, tok)
	return err
}

func wantReason(t *testing.T, err error, want fencing.Reason) {
	t.Helper()
	stale, ok := errors.AsType[*fencing.StaleError](err)
	if !ok || stale.Reason != want {
		t.Errorf("got %v, want a *StaleError because of %q", err, want)
	}
}

// wantEnded: tok was the mark in an earlier incarnation. Its number is remembered, nothing
// accepts it any more, and only a higher one is the next.
func wantEnded(t *testing.T, b *redisstore.Backend, tok fencing.Token) {
	t.Helper()
	ctx := t.Context()
	m, err := b.Mark(ctx, tok.Resource)
	if err != nil || m.Number != tok.Number || !m.Retired || m.Grant != "" {
		t.Errorf("Mark = %v, %v, want %d (retired)", m, err, tok.Number)
	}
	wantReason(t, put(ctx, b, tok, "a", "stale"), fencing.Retired)
	_, err = b.GetFenced(ctx, tok, "a")
	wantReason(t, err, fencing.Retired)
	wantReason(t, b.Raise(ctx, tok), fencing.Retired)
	next := raised(t, b, tok.Resource, tok.Number+1)
	if rec, err := b.GetFenced(ctx, next, "a"); err != nil || string(rec.Value) != "1" {
		t.Errorf("GetFenced = %q, %v, want the data that was there", rec.Value, err)
	}
	wantReason(t, put(ctx, b, tok, "a", "stale"), fencing.Superseded)
}

func TestRestartIsANewIncarnation(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: true})
	c := connect(t, server)
	b := backend(t, c)
	tok := raised(t, b, "coupon:42", 34)
	if err := put(t.Context(), b, tok, "a", "1"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	server.Restart()
	_ = c.Ping(t.Context()).Err() // the broken connection goes
	wantEnded(t, b, tok)
}

// TestRestoredCopyIsANewIncarnation: the server comes back with older data, in which a
// token of before is the mark.
func TestRestoredCopyIsANewIncarnation(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: true})
	c := connect(t, server)
	b := backend(t, c)
	old := raised(t, b, "coupon:42", 34)
	if err := put(t.Context(), b, old, "a", "1"); err != nil {
		t.Fatal(err)
	}
	server.SaveCopy()
	lost := raised(t, b, "coupon:42", 35)
	server.RestoreCopy()
	_ = c.Ping(t.Context()).Err()
	wantReason(t, put(t.Context(), b, lost, "a", "2"), fencing.Ungranted)
	wantEnded(t, b, old)
}

// TestPromotionIsANewIncarnation fails over to a replica that has the mark, and looks at
// the old primary after it became a replica.
func TestPromotionIsANewIncarnation(t *testing.T) {
	t.Parallel()
	first, second := testenv.StartRedis(t, quickSync), testenv.StartRedis(t, quickSync)
	c1, c2 := connect(t, first), connect(t, second)
	replicate(t, second, first)
	b := backend(t, c1)
	if _, err := redisstore.New(t.Context(), c2, nil); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("New on a replica = %v, want ErrInvalid", err)
	}
	tok := raised(t, b, "coupon:42", 34)
	if err := put(t.Context(), b, tok, "a", "1"); err != nil {
		t.Fatal(err)
	}
	if n, err := c1.Wait(t.Context(), 1, 10*time.Second).Result(); n != 1 {
		t.Fatalf("WAIT = %d, %v", n, err)
	}
	if err := c2.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	wantEnded(t, backend(t, c2), tok)

	replicate(t, first, second)
	for name, err := range map[string]error{
		"commit": put(t.Context(), b, tok, "a", "2"),
		"mark":   errOf(b.Mark(t.Context(), "coupon:42")),
		"get":    errOf(b.Get(t.Context(), "coupon:42", "a")),
		"fenced": errOf(b.GetFenced(t.Context(), tok, "a")),
		"list":   errOf(b.List(t.Context(), "coupon:42", "", "", 10)),
		"raise":  b.Raise(t.Context(), tok),
		"retire": b.Retire(t.Context(), tok),
		"evict":  b.Evict(t.Context(), tok),
	} {
		if fencing.OutcomeOf(err) != fencing.Failed {
			t.Errorf("%s on the old primary = %v, want failed: it is a replica", name, err)
		}
	}
}

// TestFailbackIsANewIncarnation: a server that was replaced and takes over again is the
// same run of the same server, with a mark of its own, and has missed what happened
// between. Only the replication history tells.
func TestFailbackIsANewIncarnation(t *testing.T) {
	t.Parallel()
	first, second := testenv.StartRedis(t, quickSync), testenv.StartRedis(t, quickSync)
	c1, c2 := connect(t, first), connect(t, second)
	replicate(t, second, first)
	b := backend(t, c1)
	tok := raised(t, b, "coupon:42", 34)
	if err := put(t.Context(), b, tok, "a", "1"); err != nil {
		t.Fatal(err)
	}
	if n, err := c1.Wait(t.Context(), 1, 10*time.Second).Result(); n != 1 {
		t.Fatalf("WAIT = %d, %v", n, err)
	}
	if err := c2.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	replicate(t, first, second)
	if err := c1.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	wantEnded(t, b, tok)
}

// TestRetiredAwayStaysRetired: a slot of a cluster goes to another server, the lease is
// released there, and the slot comes back to the incarnation in which the token was raised.
func TestRetiredAwayStaysRetired(t *testing.T) {
	t.Parallel()
	first, second := connect(t, testenv.StartRedis(t, nil)), connect(t, testenv.StartRedis(t, nil))
	b, away := backend(t, first), backend(t, second)
	move := func(to, from *redis.Client, key string) {
		t.Helper()
		dump, err := from.Dump(t.Context(), key).Result()
		if err == nil {
			err = to.RestoreReplace(t.Context(), key, 0, dump).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tok := raised(t, b, "coupon:42", 34)
	if err := put(t.Context(), b, tok, "a", "1"); err != nil {
		t.Fatal(err)
	}
	move(second, first, markKey("coupon:42"))
	for _, other := range []fencing.Token{
		{Resource: "coupon:42", Number: 34, Grant: fencing.NewGrant()},
		{Resource: "coupon:42", Number: 33, Grant: tok.Grant},
	} {
		if err := away.Retire(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	if got := second.HGet(t.Context(), markKey("coupon:42"), "grant").Val(); got != tok.Grant {
		t.Error("another token's retire changed the mark")
	}
	if err := away.Retire(t.Context(), tok); err != nil {
		t.Fatal(err)
	}
	move(first, second, markKey("coupon:42"))
	wantEnded(t, b, tok)
}

func errOf[T any](_ T, err error) error { return err }

// TestFirstReplicaIsANewIncarnation: Redis begins a new replication history then. This is
// no wish of ours, but the documentation says so.
func TestFirstReplicaIsANewIncarnation(t *testing.T) {
	t.Parallel()
	first, second := testenv.StartRedis(t, quickSync), testenv.StartRedis(t, quickSync)
	b := backend(t, connect(t, first))
	tok := raised(t, b, "coupon:42", 34)
	if err := put(t.Context(), b, tok, "a", "1"); err != nil {
		t.Fatal(err)
	}
	replicate(t, second, first)
	wantEnded(t, b, tok)
}

// quickSync: a primary waits for no second replica before it sends its data.
var quickSync = &testenv.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}}

func replicate(t *testing.T, replica, of *testenv.Redis) {
	t.Helper()
	host, port, _ := strings.Cut(of.Addr(), ":")
	c := connect(t, replica)
	if err := c.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 30*time.Second, "the replica is in step", func() bool {
		return strings.Contains(c.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
}

// TestFlush: marks and data are lost together, within one incarnation.
func TestFlush(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.StartRedis(t, nil))
	b := backend(t, c)
	tok := raised(t, b, "coupon:42", 34)
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	wantReason(t, put(t.Context(), b, tok, "a", "1"), fencing.Ungranted)
}

// TestManyDigits: what tostring would print as 1e+14.
func TestManyDigits(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	b := backend(t, c)
	ctx := t.Context()
	for _, n := range []int64{99999999999999, 100000000000000, 999999999999999, 1 << 52, fencing.MaxNumber - 1} {
		tok := raised(t, b, testenv.Unique(t, "digits"), n)
		if m, err := b.Mark(ctx, tok.Resource); err != nil || m != (fencing.Mark{Number: n, Grant: tok.Grant}) {
			t.Errorf("Mark = %v, %v, want %d", m, err, n)
		}
		next := raised(t, b, tok.Resource, n+1)
		err := put(ctx, b, tok, "a", "1")
		wantReason(t, err, fencing.Superseded)
		if stale, ok := errors.AsType[*fencing.StaleError](err); ok && stale.Highest != n+1 {
			t.Errorf("got highest %d, want %d", stale.Highest, n+1)
		}

		// A version, a base and a counter of as many digits.
		c.HSet(ctx, recordsKey(tok.Resource), "v", strconv.FormatInt(n-1, 10)+":x")
		res, err := apply(ctx, b, []storage.Op{
			storage.Require(tok.Resource, "v", n-1), storage.Put(tok.Resource, "v", nil),
			storage.Add(tok.Resource, "c", n-1, 0),
		}, next)
		if err != nil || res.Ops[0].Version != n || res.Ops[1].Version != n || res.Ops[2].Counter != n-1 {
			t.Fatalf("got %v, %v, want %d", res, err, n)
		}
		if _, err := apply(ctx, b, []storage.Op{storage.Delete(tok.Resource, "v"), storage.Add(tok.Resource, "c", 1, 0)}, next); err != nil {
			t.Fatal(err)
		}
		res, err = apply(ctx, b, []storage.Op{storage.Put(tok.Resource, "new", nil)}, next)
		if err != nil || res.Ops[0].Version != n+1 {
			t.Errorf("got %v, %v, want version %d", res, err, n+1)
		}
		if rec, err := b.Get(ctx, tok.Resource, "c"); err != nil || string(rec.Value) != strconv.FormatInt(n, 10) {
			t.Errorf("got the counter %s, %v, want %d", rec.Value, err, n)
		}
	}
}

// TestVersionsCompareAsText: a version that no double holds equals no other one.
func TestVersionsCompareAsText(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	b := backend(t, c)
	tok := raised(t, b, testenv.Unique(t, "versions"), 1)
	c.HSet(t.Context(), recordsKey(tok.Resource), "v", "9007199254740992:x")
	_, err := apply(t.Context(), b, []storage.Op{storage.Require(tok.Resource, "v", 9007199254740993)}, tok)
	refused, ok := errors.AsType[*storage.RefusedError](err)
	if !ok || refused.Have != 9007199254740992 || refused.Want != 9007199254740993 {
		t.Errorf("got %v, want a version mismatch with both versions", err)
	}
}

// TestNothingIsWrittenOnError: an error inside the script comes before its first write.
func TestNothingIsWrittenOnError(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.SharedRedis(t))
	b := backend(t, c)
	x, y := raised(t, b, testenv.Unique(t, "x"), 1), raised(t, b, testenv.Unique(t, "y"), 1)
	c.Set(t.Context(), recordsKey(y.Resource), "not a hash", 0)
	ops := []storage.Op{storage.Put(x.Resource, "a", nil), storage.Put(y.Resource, "a", nil)}
	if _, err := apply(t.Context(), b, ops, x, y); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("got %v, want failed", err)
	}
	if _, err := b.Get(t.Context(), x.Resource, "a"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("got %v, want nothing written", err)
	}
}

func TestApplyNeedsATokenForEachOperation(t *testing.T) {
	t.Parallel()
	b := backend(t, connect(t, testenv.SharedRedis(t)))
	tok := raised(t, b, testenv.Unique(t, "with"), 1)
	without := testenv.Unique(t, "without")
	if _, err := apply(t.Context(), b, []storage.Op{storage.Put(without, "a", nil)}, tok); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
}

// TestRetiredPlainNumber: a plain number has no grant to tell it from its retired mark. The
// Store raises it before each commit; here it was retired between the two.
func TestRetiredPlainNumber(t *testing.T) {
	t.Parallel()
	b := backend(t, connect(t, testenv.SharedRedis(t)))
	plain := fencing.Token{Resource: testenv.Unique(t, "plain"), Number: 34}
	if err := errors.Join(b.Raise(t.Context(), plain), put(t.Context(), b, plain, "a", "1"), b.Retire(t.Context(), plain)); err != nil {
		t.Fatal(err)
	}
	wantReason(t, put(t.Context(), b, plain, "a", "2"), fencing.Retired)
	_, _, err := add(t.Context(), b, plain, "k")
	wantReason(t, err, fencing.Retired)
	_, err = b.GetFenced(t.Context(), plain, "a")
	wantReason(t, err, fencing.Retired)
}
