package testenv_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
)

func redisClient(t *testing.T, r *testenv.Redis) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(r.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.ReadTimeout = 10 * time.Second
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func set(t *testing.T, c *redis.Client, key, value string) {
	t.Helper()
	if err := c.Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatalf("SET: %v", err)
	}
}

// wantValue reads a key; "" means that it must not exist.
func wantValue(t *testing.T, c *redis.Client, key, want string) {
	t.Helper()
	got, err := c.Get(t.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("GET: %v", err)
	}
	if got != want {
		t.Errorf("GET %s: got %q, want %q", key, got, want)
	}
}

func TestRedisKeepsItsDataThroughAKill(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: true})
	c := redisClient(t, r)
	set(t, c, "stock", "10")
	addr, pid := r.Addr(), r.Pid()
	r.Kill()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("a killed server answered")
	}
	if got := r.Pid(); got != 0 {
		t.Errorf("Pid of a killed server: got %d, want 0", got)
	}
	r.Kill() // does nothing
	r.Restart()
	wantValue(t, c, "stock", "10")
	if r.Addr() != addr || r.Pid() == pid {
		t.Errorf("after Restart: got %s, process %d; want %s, another process than %d", r.Addr(), r.Pid(), addr, pid)
	}
	r.Restart() // of a running server
	wantValue(t, c, "stock", "10")
	r.RestartEmpty()
	wantValue(t, c, "stock", "")
	if r.Addr() != addr {
		t.Errorf("after RestartEmpty: got %s, want %s", r.Addr(), addr)
	}
}

func TestRedisCopyOfTheDataIsPutBack(t *testing.T) {
	t.Parallel()
	for name, appendOnly := range map[string]bool{"append only": true, "in memory": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: appendOnly})
			c := redisClient(t, r)
			set(t, c, "stock", "10")
			pid := r.Pid()
			r.SaveCopy()
			if got := r.Pid(); got != pid {
				t.Errorf("SaveCopy restarted the server: got process %d, want %d", got, pid)
			}
			set(t, c, "stock", "9")
			r.RestoreCopy()
			wantValue(t, c, "stock", "10")
			set(t, c, "stock", "8")
			r.RestoreCopy()
			wantValue(t, c, "stock", "10")
		})
	}
}

func TestRedisInMemoryForgetsEvenAfterACopy(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t, nil)
	c := redisClient(t, r)
	set(t, c, "stock", "10")
	r.SaveCopy()
	r.Restart()
	wantValue(t, c, "stock", "")
}

func TestRedisPausedAnswersOnlyWhenResumed(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t, nil)
	c := redisClient(t, r)
	set(t, c, "stock", "10")
	r.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got, err := c.Get(ctx, "stock").Result(); err == nil {
		t.Errorf("a paused server answered %q", got)
	}
	r.Pause() // does nothing
	r.Resume()
	wantValue(t, c, "stock", "10")
	r.Resume() // does nothing
	r.Pause()
	r.Kill()
	r.Restart()
	wantValue(t, c, "stock", "")
}

func TestRedisArgumentsAndEnvironment(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t, &testenv.RedisOptions{Args: []string{"--maxmemory", "2mb", "--databases", "3"}, Env: []string{"TZ=Asia/Tokyo"}})
	c := redisClient(t, r)
	got, err := c.ConfigGet(t.Context(), "databases").Result()
	if err != nil || got["databases"] != "3" {
		t.Errorf("databases: got %v, %v; want 3", got, err)
	}
}

func TestServersRunSideBySide(t *testing.T) {
	t.Parallel()
	a, b := testenv.StartRedis(t, nil), testenv.StartRedis(t, nil)
	if a.Addr() == b.Addr() || a.Pid() == b.Pid() || a.Dir() == b.Dir() {
		t.Fatalf("two servers share something: %s %d %s, %s %d %s", a.Addr(), a.Pid(), a.Dir(), b.Addr(), b.Pid(), b.Dir())
	}
	ca, cb := redisClient(t, a), redisClient(t, b)
	set(t, ca, "stock", "1")
	wantValue(t, cb, "stock", "")
	a.Kill()
	set(t, cb, "stock", "2")
}

// A server that was forked by the thread of its test would die with that thread.
func TestServerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	t.Parallel()
	const n = 2 // at the same time: one may sit on the main thread, which never ends
	started, locked := make(chan *testenv.Redis, n), make(chan bool, n)
	for range n {
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			locked <- true
			var r *testenv.Redis
			defer func() { started <- r }() // nil where the start ended the test
			for len(locked) < n {
				time.Sleep(time.Millisecond)
			}
			r = testenv.StartRedis(t, nil)
		}()
	}
	for range n {
		r := <-started
		if r == nil {
			t.FailNow()
		}
		c := redisClient(t, r)
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
			if err := c.Ping(t.Context()).Err(); err != nil {
				t.Fatalf("the server died with the thread: %v", err)
			}
		}
	}
}
