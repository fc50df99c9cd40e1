package pgstore_test

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
)

// proxy stands between a pool and the server. It counts round trips, and can swallow the
// answer to COMMIT or give another one.
type proxy struct {
	mu       sync.Mutex // guards the fields below
	trips    int        // times that the client spoke after the server had
	server   bool       // the server spoke last
	lose     string     // "", "request" or "reply" of the next COMMIT; "stall" never answers, "pooler" answers as one does that lost the server
	lost     chan struct{}
	losing   bool
	lostOnce sync.Once
}

// through makes a pool connect by way of p.
func (p *proxy) through(tb testing.TB) func(*pgxpool.Config) {
	p.lost = make(chan struct{})
	return func(c *pgxpool.Config) {
		cc := c.ConnConfig
		target := net.JoinHostPort(cc.Host, strconv.Itoa(int(cc.Port)))
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = l.Close() })
		cc.Port = uint16(l.Addr().(*net.TCPAddr).Port)
		c.MinConns, c.MaxConns = 0, 1                                                        // one connection, so that trips can be counted
		c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // a ping is a trip
		go func() {
			for {
				client, err := l.Accept()
				if err != nil {
					return
				}
				server, err := net.Dial("tcp4", target)
				if err != nil {
					_ = client.Close()
					continue
				}
				go p.copy(server, client, true)
				go p.copy(client, server, false)
			}
		}()
	}
}

func (p *proxy) copy(dst, src net.Conn, fromClient bool) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		if !p.pass(buf[:n], fromClient) {
			if !fromClient && p.loses("pooler") {
				_, _ = dst.Write(pgtxtest.ServerCrashed())
			}
			return
		}
		if !fromClient && p.loses("stall") {
			continue
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) pass(data []byte, fromClient bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fromClient && p.server {
		p.trips++
	}
	p.server = !fromClient
	if fromClient && p.lose != "" && commits(data) {
		p.losing = true
		p.lostOnce.Do(func() { close(p.lost) })
		return p.lose != "request"
	}
	return fromClient || !p.losing || p.lose == "stall"
}

// commits reports whether the client sends COMMIT, or a commit that is one statement.
func commits(data []byte) bool {
	return bytes.Contains(bytes.ToLower(data), []byte("commit\x00")) || bytes.Contains(data, []byte("returning r.version"))
}

func (p *proxy) loses(how string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.losing && p.lose == how
}

func (p *proxy) set(lose string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = lose
}

// count returns how many round trips fn takes.
func (p *proxy) count(fn func()) int {
	p.mu.Lock()
	before := p.trips
	p.mu.Unlock()
	fn()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips - before
}
