package testenv

import (
	"io"
	"net"
	"sync"
	"time"
)

// Address is a TCP address on 127.0.0.1 that stays while the server behind it changes, like the name or the virtual IP
// that clients know in production. Its methods are safe for concurrent use.
type Address struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	to   string     // "" for nobody
	move int        // grows with every MoveTo
	open map[net.Conn]struct{}
}

// NewAddress returns an address that leads to the server at to, and ends with the test.
func NewAddress(tb TB, to string) *Address {
	tb.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	a := &Address{listener: l, to: to, open: map[net.Conn]struct{}{}}
	a.serving.Go(a.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		a.MoveTo("")
		a.serving.Wait()
	})
	return a
}

// Addr returns "127.0.0.1:PORT". It never changes.
func (a *Address) Addr() string { return a.listener.Addr().String() }

// MoveTo cuts all connections, and leads new ones to the server at to; nowhere where it is empty: they are closed.
func (a *Address) MoveTo(to string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.to = to
	a.move++
	for c := range a.open {
		_ = c.Close()
	}
	clear(a.open)
}

func (a *Address) accept() {
	for {
		client, err := a.listener.Accept()
		if err != nil {
			return
		}
		a.serving.Go(func() { a.serve(client) })
	}
}

func (a *Address) serve(client net.Conn) {
	defer client.Close()
	a.mu.Lock()
	to, move := a.to, a.move
	a.mu.Unlock()
	if to == "" {
		return
	}
	server, err := net.DialTimeout("tcp4", to, 5*time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	if !a.keep(move, client, server) {
		return
	}
	defer a.drop(client, server)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	_, _ = io.Copy(server, client)
	_ = server.Close()
	back.Wait()
}

// keep notes open connections; false if the address has moved since it was asked.
func (a *Address) keep(move int, conns ...net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.move != move {
		return false
	}
	for _, c := range conns {
		a.open[c] = struct{}{}
	}
	return true
}

func (a *Address) drop(conns ...net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range conns {
		delete(a.open, c)
	}
}
