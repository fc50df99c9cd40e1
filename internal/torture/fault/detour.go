package fault

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// detour is a way to a server through a network namespace of its own, which has a loopback device and
// nothing else: connections to front go on inside, to back, and from there outside again, to the
// server. What is dropped inside concerns nobody else.
type detour struct {
	ns          *namespace
	front, back *net.TCPListener
	inside      atomic.Bool // a connection has come through
	running     sync.WaitGroup
	cancel      context.CancelFunc
}

// newDetour returns a way to the server at an address. The error is a *VoidError where this machine cannot make one.
func newDetour(ctx context.Context, to string) (_ *detour, err error) {
	ns, err := newNamespace(ctx)
	if err != nil {
		return nil, err
	}
	d := &detour{ns: ns}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it lasts until close
	d.cancel = cancel
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	if d.front, err = net.ListenTCP("tcp4", loopback); err != nil {
		return nil, err
	}
	if err = ns.do(func() error { d.back, err = net.ListenTCP("tcp4", loopback); return err }); err != nil {
		return nil, err
	}
	back := d.back.Addr().String()
	d.running.Go(func() {
		d.forward(ctx, d.front, func(ctx context.Context) (c net.Conn, err error) {
			err = ns.do(func() error { c, err = (&net.Dialer{}).DialContext(ctx, "tcp", back); return err })
			return c, err
		})
	})
	d.running.Go(func() {
		d.forward(ctx, d.back, func(ctx context.Context) (net.Conn, error) {
			d.inside.Store(true)
			return (&net.Dialer{}).DialContext(ctx, "tcp", to)
		})
	})
	return d, nil
}

// addr is where it begins.
func (d *detour) addr() string { return d.front.Addr().String() }

// used reports whether a connection has come through.
func (d *detour) used() bool { return d.inside.Load() }

// drop has the kernel drop the packets whose port of a side ("dport", "sport") is the server's, or all where side is empty.
func (d *detour) drop(ctx context.Context, side string) error {
	rule := "drop"
	if side != "" {
		_, port, err := net.SplitHostPort(d.back.Addr().String())
		if err != nil {
			return err
		}
		rule = "tcp " + side + " " + port + " drop"
	}
	return d.ns.filter(ctx, "add table inet torture\n"+
		"add chain inet torture arriving { type filter hook input priority 0; policy accept; }\n"+
		"add rule inet torture arriving "+rule+"\n")
}

// pass lets everything pass again.
func (d *detour) pass(ctx context.Context) error { return d.ns.filter(ctx, "flush ruleset\n") }

// close ends it and the connections on it.
func (d *detour) close() {
	d.cancel()
	for _, l := range []*net.TCPListener{d.front, d.back} {
		if l != nil {
			_ = l.Close() // it is of no interest any more
		}
	}
	d.running.Wait()
	d.ns.close()
}

// forward leads each connection to l on to what dial returns.
func (d *detour) forward(ctx context.Context, l *net.TCPListener, dial func(context.Context) (net.Conn, error)) {
	for {
		from, err := l.AcceptTCP()
		if err != nil {
			return
		}
		d.running.Go(func() {
			defer from.Close()
			dialing, cancel := context.WithTimeout(ctx, 10*time.Second)
			to, err := dial(dialing)
			cancel()
			if err != nil {
				return
			}
			defer to.Close()
			defer context.AfterFunc(ctx, func() { _ = from.Close(); _ = to.Close() })()
			join(from, to)
		})
	}
}

// join copies both ways until both have ended, or one with an error.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, err := io.Copy(way[1], way[0])
			if c, ok := way[1].(*net.TCPConn); ok && err == nil {
				err = c.CloseWrite()
			}
			if err != nil {
				_ = a.Close() // and so the other way ends, too
				_ = b.Close()
			}
		})
	}
	both.Wait()
}
