package testenv_test

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// recorder is a test that keeps what it was told instead of failing.
type recorder struct {
	testing.TB
	failed, skipped string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// record runs f with a recorder, which f may end.
func record(t *testing.T, f func(testing.TB)) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r
}

func TestEventually(t *testing.T) {
	t.Parallel()
	calls := 0
	testenv.Eventually(t, 30*time.Second, "the third call", func() bool { calls++; return calls == 3 })
	if calls != 3 {
		t.Errorf("got %d calls, want 3", calls)
	}
	got := record(t, func(tb testing.TB) {
		testenv.Eventually(tb, 10*time.Millisecond, "the lock is free", func() bool { return false })
	})
	if !strings.Contains(got.failed, "the lock is free") {
		t.Errorf("got %q, want the awaited thing in it", got.failed)
	}
	testenv.Eventually(t, 0, "what is so already", func() bool { return true })
}

func TestUnique(t *testing.T) {
	t.Parallel()
	grammar := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$`)
	seen := map[string]bool{}
	for _, prefix := range []string{"coupon:42", "a", strings.Repeat("x", 160)} {
		for range 100 {
			name := testenv.Unique(t, prefix)
			if !grammar.MatchString(name) || !strings.HasPrefix(name, prefix) || seen[name] {
				t.Fatalf("Unique(%q): got %q (seen before: %v)", prefix, name, seen[name])
			}
			seen[name] = true
		}
	}
	for _, prefix := range []string{"", ":a", "a b", "a\n", "ä", strings.Repeat("x", 161)} {
		if got := record(t, func(tb testing.TB) { testenv.Unique(tb, prefix) }); got.failed == "" {
			t.Errorf("Unique(%q) was accepted", prefix)
		}
	}
}

func TestMissingProgramSkipsOrFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	start := func(tb testing.TB) { testenv.StartRedis(tb, nil) }
	t.Setenv("FENCEGATE_TEST_REQUIRE", "")
	if got := record(t, start); !strings.Contains(got.skipped, "make deps") || got.failed != "" {
		t.Errorf("got skipped %q, failed %q; want skipped with `make deps`", got.skipped, got.failed)
	}
	t.Setenv("FENCEGATE_TEST_REQUIRE", "1")
	if got := record(t, start); !strings.Contains(got.failed, "make deps") || got.skipped != "" {
		t.Errorf("got skipped %q, failed %q; want failed with `make deps`", got.skipped, got.failed)
	}
}

func TestFailedStartShowsTheLog(t *testing.T) {
	t.Parallel()
	got := record(t, func(tb testing.TB) {
		testenv.StartRedis(tb, &testenv.RedisOptions{Args: []string{"--no-such-option", "1"}})
	})
	if !strings.Contains(got.failed, "no-such-option") {
		t.Errorf("got %q, want the log of the server in it", got.failed)
	}
}

func TestSharedServersAreSharedAndSafe(t *testing.T) {
	t.Parallel()
	a, b := testenv.SharedRedis(t), testenv.SharedRedis(t)
	if a.Addr() != b.Addr() || a.Pid() != b.Pid() {
		t.Errorf("two shared servers: %s, %s", a.Addr(), b.Addr())
	}
	for name, change := range map[string]func(*testenv.Redis){
		"Kill": func(r *testenv.Redis) { r.Kill() }, "Pause": func(r *testenv.Redis) { r.Pause() },
		"Restart": func(r *testenv.Redis) { r.Restart() }, "RestartEmpty": func(r *testenv.Redis) { r.RestartEmpty() },
		"RestoreCopy": func(r *testenv.Redis) { r.RestoreCopy() },
	} {
		if got := record(t, func(tb testing.TB) { change(testenv.SharedRedis(tb)) }); got.failed == "" {
			t.Errorf("%s of a shared server was accepted", name)
		}
	}
}
