package link_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/torture/link"
)

// What is sent arrives as it was sent, both ways, whatever delays it.
func TestBytesStayTheSame(t *testing.T) {
	t.Parallel()
	for name, tr := range map[string]link.Trouble{
		"no trouble": {},
		"latency":    {Latency: 3 * time.Millisecond, Jitter: 3 * time.Millisecond},
		"bandwidth":  {Bandwidth: 2 << 20},
		"held":       {HoldShare: 0.3, HoldFor: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := connect(t, serve(t, echo).Addr().String())
			trouble(t, l, link.Requests, tr)
			trouble(t, l, link.Replies, tr)
			var running sync.WaitGroup
			for i := range 8 {
				c := dial(t, l)
				rnd := rand.New(rand.NewPCG(1, uint64(i)))
				want := make([]byte, 200_000)
				for k := range want {
					want[k] = byte(rnd.Uint32())
				}
				running.Go(func() {
					for rest := want; len(rest) > 0; {
						n := min(len(rest), 1+rnd.IntN(20_000))
						if _, err := c.Write(rest[:n]); err != nil {
							t.Error(err)
							return
						}
						rest = rest[n:]
					}
					if err := c.(*net.TCPConn).CloseWrite(); err != nil {
						t.Error(err)
					}
				})
				running.Go(func() {
					got, err := io.ReadAll(c) // the end comes through, too
					if err != nil || !bytes.Equal(got, want) {
						t.Errorf("got %d bytes, %v; want the %d that were sent", len(got), err, len(want))
					}
				})
			}
			running.Wait()
		})
	}
}

func TestLatency(t *testing.T) {
	t.Parallel()
	l := connect(t, serve(t, echo).Addr().String())
	c := dial(t, l)
	for _, d := range []link.Direction{link.Requests, link.Replies} {
		trouble(t, l, d, link.Trouble{Latency: 60 * time.Millisecond, Jitter: 20 * time.Millisecond})
	}
	began := time.Now()
	send(t, c, "a")
	expect(t, c, "a")
	if took := time.Since(began); took < 80*time.Millisecond {
		t.Errorf("there and back took %v, want at least 80ms", took)
	}
	l.Heal()
	send(t, c, "b")
	expect(t, c, "b")
}

func TestBandwidth(t *testing.T) {
	t.Parallel()
	l := connect(t, serve(t, echo).Addr().String())
	c := dial(t, l)
	trouble(t, l, link.Replies, link.Trouble{Bandwidth: 10_000})
	began := time.Now()
	text := strings.Repeat("x", 2000)
	send(t, c, text)
	expect(t, c, text)
	if took := time.Since(began); took < 190*time.Millisecond {
		t.Errorf("2000 bytes at 10000 bytes a second took %v", took)
	}
}

// A partition in one direction: the other one works, nobody is told, and what was cut in two is reset in the end.
func TestSilent(t *testing.T) {
	t.Parallel()
	push := make(chan string)
	s := serve(t, func(c io.ReadWriter) {
		end := make(chan struct{})
		go func() { _, _ = io.Copy(io.Discard, c); close(end) }()
		for {
			select {
			case text := <-push:
				_, _ = io.WriteString(c, text)
			case <-end:
				return
			}
		}
	})
	l := connect(t, s.Addr().String())
	c := dial(t, l)
	send(t, c, "before")
	eventually(t, "the first request", func() bool { return slices.Equal(s.got(), []string{"before"}) })
	trouble(t, l, link.Requests, link.Trouble{Silent: true})
	send(t, c, "never")
	push <- "reply"
	expect(t, c, "reply")
	expectNothing(t, c)
	if got := s.got(); !slices.Equal(got, []string{"before"}) {
		t.Errorf("the server got %q", got)
	}
	l.Heal()
	expectReset(t, c)
	c = dial(t, l)
	send(t, c, "after")
	eventually(t, "a request after healing", func() bool { return slices.Equal(s.got(), []string{"before", "after"}) })
}

// A connection on which nothing was withheld survives a partition.
func TestSilentIdle(t *testing.T) {
	t.Parallel()
	l := connect(t, serve(t, echo).Addr().String())
	c := dial(t, l)
	send(t, c, "a")
	expect(t, c, "a")
	trouble(t, l, link.Requests, link.Trouble{Silent: true})
	l.Heal()
	send(t, c, "b")
	expect(t, c, "b")
}

func TestHalfOpen(t *testing.T) {
	t.Parallel()
	l := connect(t, serve(t, echo).Addr().String())
	open, idle := dial(t, l), dial(t, l)
	for _, c := range []net.Conn{open, idle} {
		send(t, c, "a")
		expect(t, c, "a")
	}
	trouble(t, l, link.Replies, link.Trouble{HalfOpen: true})
	send(t, open, "b")
	expectNothing(t, open)
	c := dial(t, l)
	send(t, c, "new ones work")
	expect(t, c, "new ones work")
	l.Heal()
	expectReset(t, open)
	send(t, idle, "c")
	expect(t, idle, "c")
}

// A client that gives up a half-open connection is not noticed by the server.
func TestHalfOpenEnd(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	l := connect(t, serve(t, func(c io.ReadWriter) { echo(c); close(ended) }).Addr().String())
	c := dial(t, l)
	send(t, c, "a")
	expect(t, c, "a")
	trouble(t, l, link.Requests, link.Trouble{HalfOpen: true})
	_ = c.Close()
	select {
	case <-ended:
		t.Fatal("the server was told")
	case <-time.After(100 * time.Millisecond):
	}
	l.Heal()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the server was not told after healing")
	}
}

func TestResetLosesTheMessage(t *testing.T) {
	t.Parallel()
	for _, d := range []link.Direction{link.Requests, link.Replies} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			s := serve(t, echo)
			l := connect(t, s.Addr().String())
			c := dial(t, l)
			send(t, c, "a")
			expect(t, c, "a")
			trouble(t, l, d, link.Trouble{ResetShare: 1})
			send(t, c, "b")
			expectReset(t, c)
			want := map[link.Direction]string{link.Requests: "a", link.Replies: "ab"}[d]
			if got := s.got(); !slices.Equal(got, []string{want}) {
				t.Errorf("the server got %q, want %q", got, want)
			}
		})
	}
}

func TestHeld(t *testing.T) {
	t.Parallel()
	l := connect(t, serve(t, echo).Addr().String())
	c := dial(t, l)
	trouble(t, l, link.Requests, link.Trouble{HoldShare: 1, HoldFor: 200 * time.Millisecond})
	began := time.Now()
	send(t, c, "a")
	expect(t, c, "a")
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("held for %v, want half to all of 200ms", took)
	}
	trouble(t, l, link.Requests, link.Trouble{HoldShare: 1, HoldFor: time.Hour})
	send(t, c, "b")
	expectNothing(t, c)
	send(t, c, "c")
	l.Heal()
	expect(t, c, "bc") // healing delivers, in order
}

// What is held when a partition begins does not come through it.
func TestHeldThenSilent(t *testing.T) {
	t.Parallel()
	s := serve(t, echo)
	l := connect(t, s.Addr().String())
	c := dial(t, l)
	send(t, c, "a")
	expect(t, c, "a")
	trouble(t, l, link.Requests, link.Trouble{HoldShare: 1, HoldFor: time.Hour})
	send(t, c, "b")
	expectNothing(t, c)
	trouble(t, l, link.Requests, link.Trouble{Silent: true})
	expectNothing(t, c)
	l.Heal()
	expectReset(t, c)
	if got := s.got(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the server got %q", got)
	}
}

// What is held comes although its client has gone: the delayed write of a holder that gave up.
func TestHeldOutlivesItsClient(t *testing.T) {
	t.Parallel()
	s := serve(t, echo)
	l := connect(t, s.Addr().String())
	c := dial(t, l)
	trouble(t, l, link.Requests, link.Trouble{HoldShare: 1, HoldFor: 100 * time.Millisecond})
	send(t, c, "late")
	_ = c.Close()
	eventually(t, "the held message", func() bool { return slices.Equal(s.got(), []string{"late"}) })
}

func TestCut(t *testing.T) {
	t.Parallel()
	s := serve(t, echo)
	l := connect(t, s.Addr().String())
	c := dial(t, l)
	send(t, c, "a")
	expect(t, c, "a")
	trouble(t, l, link.Requests, link.Trouble{Cut: true})
	expectReset(t, c)
	expectRefused(t, l)
	l.Heal()
	c = dial(t, l)
	send(t, c, "b")
	expect(t, c, "b")
	if got := s.got(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the server got %q", got)
	}
}

func TestMoveTo(t *testing.T) {
	t.Parallel()
	first, second := serve(t, echo), serve(t, echo)
	l := connect(t, "")
	addr := l.Addr()
	expectRefused(t, l)
	for _, s := range []*server{first, second} {
		l.MoveTo(s.Addr().String())
		c := dial(t, l)
		send(t, c, "a")
		expect(t, c, "a")
		l.MoveTo("")
		expectReset(t, c)
		expectRefused(t, l)
		if got := s.got(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("a server got %q", got)
		}
	}
	if l.Addr() != addr {
		t.Errorf("the address is %s, and was %s", l.Addr(), addr)
	}
}

// A server that is not there, or goes away, is noticed by the client.
func TestServerGone(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c io.ReadWriter) { _, _ = io.WriteString(c, "bye") })
	l := connect(t, s.Addr().String())
	c := dial(t, l)
	if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
		t.Errorf("read %q, %v; want the last words and the end", got, err)
	}
	_ = s.Close()
	expectRefused(t, l)
}

// The same seed and the same messages: the same decisions.
func TestSeed(t *testing.T) {
	t.Parallel()
	s := serve(t, echo)
	survived := func(seed uint64) (counts []int) {
		l := connect(t, s.Addr().String())
		if err := l.Trouble(link.Replies, link.Trouble{ResetShare: 0.1}, seed); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			c, n := dial(t, l), 0
			for b := make([]byte, 1); ; n++ {
				if _, err := c.Write(b); err != nil {
					break
				}
				if _, err := c.Read(b); err != nil {
					break
				}
			}
			counts = append(counts, n)
		}
		return counts
	}
	one, again, two := survived(1), survived(1), survived(2)
	if !slices.Equal(one, again) {
		t.Errorf("seed 1 gave %v, then %v", one, again)
	}
	if slices.Equal(one, two) {
		t.Errorf("seeds 1 and 2 both gave %v", one)
	}
}

func TestBadTrouble(t *testing.T) {
	t.Parallel()
	l := connect(t, "127.0.0.1:1")
	for _, bad := range []link.Trouble{
		{ResetShare: 1.5},
		{HoldShare: -1, HoldFor: time.Second},
		{HoldShare: 0.5},
		{RepeatShare: 2},
		{Latency: -1},
		{Bandwidth: -1},
	} {
		if err := l.Trouble(link.Requests, bad, 0); err == nil {
			t.Errorf("%+v is allowed", bad)
		}
	}
	if err := l.Trouble(link.Replies, link.Trouble{RepeatShare: 1}, 0); err == nil {
		t.Error("replies are repeated")
	}
	if err := l.Trouble("sideways", link.Trouble{}, 0); err == nil {
		t.Error("a third direction is allowed")
	}
	if _, err := link.New("nowhere"); err == nil {
		t.Error("an address without a port is allowed")
	}
	l.Close()
	if err := l.Trouble(link.Requests, link.Trouble{}, 0); err == nil {
		t.Error("a closed link makes trouble")
	}
}
