package link_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/link"
)

// web is not the default client: a test server that is closed in another test closes connections of that one.
var web = &http.Client{Transport: &http.Transport{}}

func client(t *testing.T, addr string, db int) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, DB: db, MaxRetries: -1, PoolSize: 1, ReadTimeout: patience})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Every command is carried out twice: alone, in a transaction and in a pipeline, in the database that was selected.
func TestRepeatRedis(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := testenv.StartRedis(t, nil)
	l := connect(t, server.Addr())
	direct := client(t, server.Addr(), 3)
	c := client(t, l.Addr(), 3)
	if err := c.Ping(ctx).Err(); err != nil { // the connection is there before the trouble
		t.Fatal(err)
	}
	trouble(t, l, link.Requests, link.Trouble{RepeatShare: 1, HoldFor: 50 * time.Millisecond})

	c.Incr(ctx, "alone")
	c.Eval(ctx, "return redis.call('INCRBY', KEYS[1], ARGV[1])", []string{"script"}, 10)
	if _, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "tx")
		p.IncrBy(ctx, "tx", 10)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x\r\n*$", 40_000)
	if _, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "pipeline")
		p.Append(ctx, "large", large)
		p.Incr(ctx, "pipeline")
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	for key, want := range map[string]string{"alone": "2", "script": "20", "tx": "22", "pipeline": "4", "large": large + large} {
		eventually(t, key, func() bool { return direct.Get(ctx, key).Val() == want })
	}
	l.Heal()
	c.Incr(ctx, "alone")
	if got := direct.Get(ctx, "alone").Val(); got != "3" {
		t.Errorf("after healing the counter is %s, want 3", got)
	}
}

// The answer of a script that was carried out is lost.
func TestResetRedis(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := testenv.StartRedis(t, nil)
	l := connect(t, server.Addr())
	direct := client(t, server.Addr(), 0)
	c := client(t, l.Addr(), 0)
	if err := c.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	trouble(t, l, link.Replies, link.Trouble{ResetShare: 1})
	if n, err := c.Incr(ctx, "n").Result(); err == nil {
		t.Errorf("INCR was answered with %d", n)
	}
	if got := direct.Get(ctx, "n").Val(); got != "1" {
		t.Errorf("the counter is %q, want 1", got)
	}
	l.Heal()
	if n, err := c.Incr(ctx, "n").Result(); n != 2 || err != nil {
		t.Errorf("INCR after healing: %d, %v; want 2", n, err)
	}
}

func TestRepeatHTTP(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || r.Context().Err() != nil {
			got = append(got, "broken")
			return
		}
		got = append(got, r.Method+" "+r.URL.Path+" "+r.Header.Get("Fencing-Token")+" "+string(body))
	}))
	t.Cleanup(s.Close)
	l := connect(t, s.Listener.Addr().String())
	trouble(t, l, link.Requests, link.Trouble{RepeatShare: 1, HoldFor: 20 * time.Millisecond})
	for _, body := range []string{"", "one", strings.Repeat("long ", 50_000)} {
		mu.Lock()
		got = nil
		mu.Unlock()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+l.Addr()+"/v1/x", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Fencing-Token", "34")
		answer, err := web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		want := "PUT /v1/x 34 " + body
		eventually(t, "the repeat", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Equal(got, []string{want, want})
		})
	}
	web.CloseIdleConnections()
}

// Requests are found however their bytes are cut; what belongs to the connection comes before each repeat, and not by itself.
func TestRepeatsAreWhole(t *testing.T) {
	t.Parallel()
	const (
		hello = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"
		name  = "*3\r\n$6\r\nclient\r\n$7\r\nsetname\r\n$1\r\nx\r\n"
		incr  = "*2\r\n$4\r\nincr\r\n$1\r\na\r\n"
		set   = "*3\r\n$3\r\nSET\r\n$6\r\n*1\r\n$4\r\n$0\r\n\r\n"
		multi = "*1\r\n$5\r\nMULTI\r\n"
		exec  = "*1\r\n$4\r\nEXEC\r\n"
	)
	all := hello + name + incr + set + multi + incr + incr + exec + multi + set + "*1\r\n$7\r\nDISCARD\r\n" + incr
	want := []string{all, hello + incr, hello + set, hello + multi + incr + incr + exec, hello + incr}
	slices.Sort(want)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		s := serve(t, echo)
		l := connect(t, s.Addr().String())
		trouble(t, l, link.Requests, link.Trouble{RepeatShare: 1})
		c := dial(t, l)
		for rest := all; rest != ""; {
			n := 1 + rnd.IntN(min(len(rest), 40))
			send(t, c, rest[:n])
			expect(t, c, rest[:n]) // so that it arrives by itself
			rest = rest[n:]
		}
		eventually(t, "the repeats", func() bool {
			return len(s.got()) >= len(want) && len(strings.Join(s.got(), "")) >= len(strings.Join(want, ""))
		})
		got := s.got()
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("the server got\n%q\nwant\n%q", got, want)
		}
		l.Close()
	}
}

// A predicate leaves requests out; it sees them without what belongs to the connection.
func TestRepeatChosen(t *testing.T) {
	t.Parallel()
	const hello, get, set = "*1\r\n$5\r\nHELLO\r\n", "*2\r\n$3\r\nGET\r\n$1\r\na\r\n", "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n"
	s := serve(t, echo)
	l := connect(t, s.Addr().String())
	trouble(t, l, link.Requests, link.Trouble{RepeatShare: 1, Repeat: func(q []byte) bool { return string(q) == set }})
	c := dial(t, l)
	send(t, c, hello+get+set+get)
	eventually(t, "the repeat", func() bool { return slices.Equal(s.got(), []string{hello + get + set + get, hello + set}) })
	expect(t, c, hello+get+set+get)
	expectNothing(t, c)
	if n := len(s.got()); n != 2 {
		t.Errorf("there were %d connections, want 2", n)
	}
}

// What is not understood passes, and is not repeated.
func TestNoRepeat(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"\x00\x00\x00\x08\x04\xd2\x16\x2f", // Postgres
		"*x\r\n", "*0\r\n", "*1\r\n+OK\r\n", "*99999999999999999999999",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"NONSENSE\r\n\r\n",
	} {
		s := serve(t, echo)
		l := connect(t, s.Addr().String())
		trouble(t, l, link.Requests, link.Trouble{RepeatShare: 1})
		c := dial(t, l)
		text += "*2\r\n$4\r\nincr\r\n$1\r\na\r\n" // too late
		send(t, c, text)
		expect(t, c, text)
		expectNothing(t, c)
		if got := s.got(); !slices.Equal(got, []string{text}) {
			t.Errorf("the server got %q, want %q once", got, text)
		}
	}
}

// Nothing waits for a repeat that is far away.
func TestCloseDropsRepeats(t *testing.T) {
	t.Parallel()
	s := serve(t, echo)
	l := connect(t, s.Addr().String())
	trouble(t, l, link.Requests, link.Trouble{RepeatShare: 1, HoldFor: time.Hour})
	c := dial(t, l)
	send(t, c, "*1\r\n$4\r\nPING\r\n")
	expect(t, c, "*1\r\n$4\r\nPING\r\n")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	closed := make(chan struct{})
	go func() { l.Close(); close(closed) }()
	select {
	case <-closed:
	case <-ctx.Done():
		t.Fatal("Close waits for a repeat")
	}
}
