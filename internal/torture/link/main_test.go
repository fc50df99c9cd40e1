package link_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(servers{m}, testenv.Goroutines()...) }

// servers stops those that the tests have started.
type servers struct{ m *testing.M }

func (s servers) Run() int { return testenv.Run(s.m) }

// patience bounds what is sure to come.
const patience = 20 * time.Second

// server is a TCP server that writes down what comes on each connection.
type server struct {
	net.Listener
	mu    sync.Mutex
	conns []*bytes.Buffer
}

// serve starts one. answer is told of every connection, and of what is read from it; the connection ends when answer returns.
func serve(t *testing.T, answer func(io.ReadWriter)) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: l}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			got := &bytes.Buffer{}
			s.conns = append(s.conns, got)
			s.mu.Unlock()
			running.Go(func() {
				defer c.Close()
				answer(struct {
					io.Reader
					io.Writer
				}{io.TeeReader(c, locked{&s.mu, got}), c})
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait() // the links were closed before, and all connections with them
	})
	return s
}

type locked struct {
	mu *sync.Mutex
	io.Writer
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Writer.Write(b)
}

// got returns what came on each connection so far.
func (s *server) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]string, len(s.conns))
	for i, c := range s.conns {
		all[i] = c.String()
	}
	return all
}

func echo(c io.ReadWriter) { _, _ = io.Copy(c, c) }

// connect returns a link to an address that ends with the test.
func connect(t *testing.T, to string) *link.Link {
	t.Helper()
	l, err := link.New(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func dial(t *testing.T, l *link.Link) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// trouble makes trouble.
func trouble(t *testing.T, l *link.Link, d link.Direction, tr link.Trouble) {
	t.Helper()
	if err := l.Trouble(d, tr, 1); err != nil {
		t.Fatal(err)
	}
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// expect reads exactly text.
func expect(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("read %q, %v; want %q", got, err, text)
	}
}

// expectReset reads until the connection is reset.
func expectReset(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, c)
	if err == nil || isTimeout(err) {
		t.Fatalf("the connection ended with %v; want a reset", err)
	}
}

// expectRefused dials in vain: the reset can come before the dial is over, or after it.
func expectRefused(t *testing.T, l *link.Link) {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr())
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	expectReset(t, c)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// expectNothing reads for a while.
func expectNothing(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	n, err := c.Read(make([]byte, 1))
	if n != 0 || err == nil || !isTimeout(err) {
		t.Fatalf("read %d bytes, %v; want nothing", n, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patience))
}

// eventually looks again until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}
