package rig

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands before a Redis or PostgreSQL server. It counts what clients send, whatever
// library they use, and delays what passes, each way by the same time: many things are on
// their way at once, as on a wire.
type Proxy struct {
	addr     string
	delay    time.Duration
	counter  func() counter // one for each connection
	commands atomic.Int64
	trips    atomic.Int64
}

// counter counts in what a client sends, in whatever pieces it comes.
type counter interface{ Count(piece []byte) int }

// StartProxy starts a proxy before a Redis server. It ends with tb.
func StartProxy(tb testing.TB, server string, delay time.Duration) *Proxy {
	tb.Helper()
	return start(tb, server, delay, func() counter { return &Commands{} })
}

// StartPostgresProxy starts a proxy before a PostgreSQL server. It ends with tb.
func StartPostgresProxy(tb testing.TB, server string) *Proxy {
	tb.Helper()
	return start(tb, server, 0, func() counter { return &Questions{} })
}

func start(tb testing.TB, server string, delay time.Duration, counter func() counter) *Proxy {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("rig: %v", err)
	}
	p := &Proxy{addr: l.Addr().String(), delay: delay, counter: counter}
	var open connections
	tb.Cleanup(func() {
		_ = l.Close()
		open.close()
	})
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client, server, &open)
		}
	}()
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.addr }

// Commands returns how many commands were sent so far, of a PostgreSQL server how many
// [Questions]; what clients say when they connect or when nothing happens (HELLO, CLIENT,
// PING) does not count.
func (p *Proxy) Commands() int64 { return p.commands.Load() }

// Trips returns how often a client sent something after it had been answered: a pipeline is
// one round trip.
func (p *Proxy) Trips() int64 { return p.trips.Load() }

func (p *Proxy) serve(client net.Conn, addr string, open *connections) {
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		_ = client.Close()
		return
	}
	open.add(client, server)
	var answered atomic.Bool
	answered.Store(true)
	requests := p.counter()
	go p.pass(server, client, func(b []byte) {
		if n := requests.Count(b); n > 0 {
			p.commands.Add(int64(n))
			if answered.Swap(false) {
				p.trips.Add(1)
			}
		}
	})
	p.pass(client, server, func([]byte) { answered.Store(true) })
}

// late is what was read, and when it is to be written.
type late struct {
	data []byte
	due  time.Time
}

// pass copies until one side ends, and then closes both.
func (p *Proxy) pass(to, from net.Conn, seen func([]byte)) {
	defer to.Close()
	defer from.Close()
	if p.delay == 0 {
		_, _ = io.Copy(writer{to, seen}, reader{from})
		return
	}
	queue := make(chan late, 1024)
	defer close(queue)
	go func() {
		for l := range queue {
			time.Sleep(time.Until(l.due))
			if _, err := to.Write(l.data); err != nil {
				_ = from.Close()
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			seen(buf[:n])
			queue <- late{append([]byte(nil), buf[:n]...), time.Now().Add(p.delay)}
		}
		if err != nil {
			return
		}
	}
}

// writer and reader hide what io.Copy could do without passing through them.
type writer struct {
	to   net.Conn
	seen func([]byte)
}

func (w writer) Write(b []byte) (int, error) {
	w.seen(b)
	return w.to.Write(b)
}

type reader struct{ from net.Conn }

func (r reader) Read(b []byte) (int, error) { return r.from.Read(b) }

// connections are closed together.
type connections struct {
	mu     sync.Mutex
	open   []net.Conn
	closed bool
}

func (c *connections) add(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, conns...)
	if c.closed {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.open {
		_ = conn.Close()
	}
}
