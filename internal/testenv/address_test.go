package testenv_test

import (
	"net"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// TestAddressMoves: new connections come to where the address leads now, old ones are cut.
func TestAddressMoves(t *testing.T) {
	t.Parallel()
	first, second := greeter(t, "1"), greeter(t, "2")
	address := testenv.NewAddress(t, first)
	old := dial(t, address.Addr())
	if got := hear(old); got != "1" {
		t.Errorf("got %q, want the first server", got)
	}
	address.MoveTo(second)
	if got := hear(old); got != "" {
		t.Errorf("got %q on the old connection, want it cut", got)
	}
	if got := hear(dial(t, address.Addr())); got != "2" {
		t.Errorf("got %q, want the second server", got)
	}
	address.MoveTo("")
	if got := hear(dial(t, address.Addr())); got != "" {
		t.Errorf("got %q, want nobody", got)
	}
}

// greeter returns the address of a server that says one thing and waits for its client to go.
func greeter(t *testing.T, says string) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Write([]byte(says))
				_, _ = c.Read(make([]byte, 1))
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// hear returns what comes next, "" if the connection has ended.
func hear(c net.Conn) string {
	b := make([]byte, 8)
	n, _ := c.Read(b)
	return string(b[:n])
}
