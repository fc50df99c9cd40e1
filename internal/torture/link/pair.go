package link

import (
	"context"
	"net"
	"sync"
	"time"
)

// dialTimeout bounds how long the server behind a link has to take a connection.
const dialTimeout = 5 * time.Second

// pair is a client's connection and the one to the server that belongs to it.
type pair struct {
	link   *Link
	index  uint64 // how many the link had before it
	to     string
	client *net.TCPConn
	cancel context.CancelFunc                   // ends what waits for something of it
	repeat func(q request, after time.Duration) // sends once more to the same server, even after the pair's end

	// Guarded by Link.mu, by direction.
	frozen [2]bool // half-open
	lost   [2]bool // something was withheld: the rest would make no sense any more

	mu     sync.Mutex // after Link.mu where both are held
	server *net.TCPConn
	ended  bool
}

// serve passes on what comes, until both directions have ended or the pair is reset.
func (p *pair) serve(ctx context.Context) {
	defer p.reset()
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", p.to)
	if err != nil {
		return // the client is told by the reset
	}
	server, ok := conn.(*net.TCPConn)
	if !ok || !p.join(server) {
		_ = conn.Close()
		return
	}
	ways := []*pipe{newPipe(p, Requests, p.client, server), newPipe(p, Replies, server, p.client)}
	var running sync.WaitGroup
	for _, w := range ways {
		running.Go(func() { w.read(ctx) })
		running.Go(func() { w.write(ctx) })
	}
	running.Wait()
	p.close(false)
}

// join adds the connection to the server; false where the pair has been reset meanwhile.
func (p *pair) join(server *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.server = server
	}
	return !p.ended
}

// reset ends both connections at once, in a way that their peers see as an error (RST).
func (p *pair) reset() { p.close(true) }

// close ends both connections; a second call does nothing.
func (p *pair) close(abort bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	p.cancel()
	for _, c := range []*net.TCPConn{p.client, p.server} {
		if c == nil {
			continue
		}
		if abort {
			_ = c.SetLinger(0) // fails where the peer has gone, and then there is nobody to be told
		}
		_ = c.Close()
	}
}
