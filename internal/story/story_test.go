package story_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/story"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

func redisClient(tb testing.TB, r *testenv.Redis) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: r.Addr(), MaxRetries: -1})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func pool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	return pgtxtest.Open(tb, pgtxtest.Database(tb), pgstore.Configure)
}

func lockBackend(tb testing.TB, name string) (b locking.Backend) {
	tb.Helper()
	var err error
	switch name {
	case "memory":
		b = memlock.New()
	case "redis":
		b, err = redislock.New(redisClient(tb, testenv.SharedRedis(tb)), nil)
	case "postgres":
		b, err = pglock.New(tb.Context(), pool(tb), nil)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func storeBackend(tb testing.TB, name string) (b storage.Backend) {
	tb.Helper()
	var err error
	switch name {
	case "memory":
		b = memstore.New(nil)
	case "redis":
		b, err = redisstore.New(tb.Context(), redisClient(tb, testenv.SharedRedis(tb)), nil)
	case "postgres":
		b, err = pgstore.New(tb.Context(), pool(tb), nil)
	case "sqlite":
		var s *sqlitestore.Backend
		s, err = sqlitestore.Open(tb.Context(), filepath.Join(tb.TempDir(), "story.db"), nil)
		if err == nil {
			tb.Cleanup(func() { _ = s.Close() })
		}
		b = s
	}
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// TestEveryLockWithEveryStore tells the whole story on every pair, with clients in
// processes that are stopped for real.
func TestEveryLockWithEveryStore(t *testing.T) {
	t.Parallel()
	if !story.CanSignal {
		t.Fatal("this system has no SIGSTOP: the test needs one that has")
	}
	for _, lock := range []string{"memory", "redis", "postgres"} {
		for _, store := range []string{"sqlite", "memory", "redis", "postgres"} {
			t.Run(lock+"-"+store, func(t *testing.T) {
				t.Parallel()
				setup := story.Setup{Lock: lockBackend(t, lock), Store: storeBackend(t, store), TTL: 500 * time.Millisecond, Start: inProcesses}
				for _, mode := range story.Modes() {
					play(t, setup, mode)
				}
			})
		}
	}
}

// patience is how long a mode may take: it is no promise, and a busy machine needs it.
const patience = 3 * time.Minute

func play(t *testing.T, setup story.Setup, mode story.Mode) story.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := story.Run(ctx, setup, mode)
	if err != nil {
		t.Fatalf("%s: %v", mode.Name, err)
	}
	if !res.AsExpected() || res.Held() != (mode.Want.HandedOut+int(mode.Want.Remaining) == story.Initial) {
		t.Fatalf("%s: late write %s, handed out %d, remaining %d, tokens %v; want %+v\n%+v",
			mode.Name, res.LateWrite, res.HandedOut, res.Remaining, res.Tokens, mode.Want, res.Events)
	}
	if refused := mode.Want.LateWrite == story.Refused; refused != (res.Refused == 1) {
		t.Fatalf("%s: %d refusals", mode.Name, res.Refused)
	}
	return res
}

// TestSimulatedPause tells it where there is no SIGSTOP.
func TestSimulatedPause(t *testing.T) {
	t.Parallel()
	setup := story.Setup{Lock: memlock.New(), Store: memstore.New(nil), TTL: 300 * time.Millisecond, Start: inGoroutines}
	for _, mode := range story.Modes() {
		play(t, setup, mode)
	}
}

// TestFlushedLock flushes the lock's Redis between A's grant and B's: the counter is gone
// and B draws number 1, which the store refuses; B is re-issued above the store's mark.
func TestFlushedLock(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "memory", "redis", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			client := redisClient(t, testenv.StartRedis(t, nil))
			lock, err := redislock.New(client, nil)
			if err != nil {
				t.Fatal(err)
			}
			setup := story.Setup{
				Lock: lock, Store: storeBackend(t, store), TTL: 3 * patience, Start: inProcesses,
				Between: func(ctx context.Context) error { return client.FlushAll(ctx).Err() },
			}
			// A's lease lasts for longer than the test waits: only the flush lets B in.
			res := play(t, setup, mode(t, "fence"))
			if !slices.Equal(res.Tokens, []string{"33", "34", "35"}) {
				t.Errorf("got tokens %v", res.Tokens)
			}
		})
	}
}

func mode(t *testing.T, name string) story.Mode {
	t.Helper()
	i := slices.IndexFunc(story.Modes(), func(m story.Mode) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("no mode %q", name)
	}
	return story.Modes()[i]
}

// TestABrokenFenceIsSeen breaks the store's check: the story must not claim success.
func TestABrokenFenceIsSeen(t *testing.T) {
	t.Parallel()
	setup := story.Setup{Lock: memlock.New(), Store: unfenced{memstore.New(nil)}, TTL: 300 * time.Millisecond, Start: inGoroutines}
	for _, name := range []string{"fence", "gap-grant"} {
		res, err := story.Run(t.Context(), setup, mode(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if res.AsExpected() || res.LateWrite != story.Accepted {
			t.Errorf("%s: a store without a check was not noticed: %+v", name, res)
		}
	}
}

// unfenced is a store that makes any token the mark before it looks.
type unfenced struct{ *memstore.Backend }

func (u unfenced) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	for i, c := range batch {
		for j, t := range c.Tokens {
			m, _ := u.Mark(ctx, t.Resource)
			t = fencing.Token{Resource: t.Resource, Number: m.Number + 1, Grant: fencing.NewGrant()}
			_ = u.Raise(ctx, t)
			batch[i].Tokens[j] = t
		}
	}
	return u.Backend.Apply(ctx, batch)
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	setup := story.Setup{
		Lock: memlock.New(), Store: memstore.New(nil), TTL: 3 * patience, Start: inProcesses,
		Between: func(context.Context) error { cancel(); return nil },
	}
	start := time.Now()
	if _, err := story.Run(ctx, setup, mode(t, "fence")); err == nil {
		t.Fatal("an interrupted story ended without an error")
	}
	if took := time.Since(start); took > patience {
		t.Errorf("it took %v to end", took)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	setup := story.Setup{Lock: memlock.New(), Store: memstore.New(nil), TTL: 300 * time.Millisecond, Start: inGoroutines}
	res := play(t, setup, mode(t, "fence"))
	rep := story.NewReport("memory", "memory", "simulated", []story.Result{res})
	out, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"scenario":"paused-client","lock":"memory","store":"memory","pause":"simulated","ok":true,"modes":[{"mode":"fence","initial":10,"handed_out":2,"remaining":8,"refused":1,"invariant_held":true,`,
		`"tokens":["33","34","35"],"events":[{"at_ms":0,"actor":"A","action":"acquire","number":"33","outcome":"granted"}`,
		`"action":"write","number":"33","value":"9","highest":"34","outcome":"refused"`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the report lacks %s\n%s", want, out)
		}
	}
	var text strings.Builder
	if err := res.Diagram("memory", "memory").Text(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"token 33", "token 34", "token 35", "stopped", "continued", "REFUSED, 33 is older than 34", "the lease of 33 is over", "raise 34"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the diagram lacks %q\n%s", want, text.String())
		}
	}
	over, raise := strings.Index(text.String(), "is over"), strings.Index(text.String(), "raise 34")
	if over > raise {
		t.Error("the lease ends after its successor is raised")
	}
}

// TestNumbersMayLeap: a grant that came to nothing uses a number up. What must not be is one that
// goes back, or is granted twice.
func TestNumbersMayLeap(t *testing.T) {
	t.Parallel()
	mode := story.Modes()[2]
	for _, c := range []struct {
		tokens []string
		want   bool
	}{
		{[]string{"33", "34", "35"}, true},
		{[]string{"33", "35", "36"}, true},
		{[]string{"33", "34"}, false},
		{[]string{"33", "33", "34"}, false},
		{[]string{"34", "33", "35"}, false},
	} {
		r := story.Result{Mode: mode, LateWrite: mode.Want.LateWrite, HandedOut: mode.Want.HandedOut, Remaining: mode.Want.Remaining, Tokens: c.tokens}
		if got := r.AsExpected(); got != c.want {
			t.Errorf("%v: got as expected = %t, want %t", c.tokens, got, c.want)
		}
	}
}
