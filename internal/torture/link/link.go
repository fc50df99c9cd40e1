// Package link is a TCP address in front of a server, which delays, drops, resets, holds and repeats
// what passes, in each direction by itself, and which stays while the server behind it changes.
//
// # Why not toxiproxy
//
// It is a proxy of our own, and not toxiproxy in this process, because what is wanted most is out of
// a toxic's reach: a toxic sees chunks of bytes of one direction and neither of the two sockets, so
// it cannot reset a connection instead of delivering a reply, tell the connections that are open
// from new ones, or send a request again on another one. Its proxies give up their port when they are disabled or
// led elsewhere, and its toxics are prototypes in a registry of the process.
//
// # Messages
//
// A message is what arrived at once: one chunk of bytes, which with pipelines can hold several
// requests or replies. Only repeats need more: they are of whole requests, of the Redis protocol (with the
// HELLO, AUTH and SELECT of their connection before them; from MULTI to EXEC as one) and of HTTP/1.1 with a
// Content-Length. Other protocols, Postgres among them, are not repeated: a message of theirs means
// nothing without those before it.
//
// # Seeds
//
// The decisions on the n-th connection of a link in one direction depend on the seed, on n and on the messages before it in this
// direction. Which connection is the n-th, and what arrives at once, is decided by scheduling.
package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Direction is that of the bytes.
type Direction string

// The directions.
const (
	Requests Direction = "requests" // from the client to the server
	Replies  Direction = "replies"  // from the server to the client
)

// index returns 0 or 1.
func (d Direction) index() int {
	if d == Replies {
		return 1
	}
	return 0
}

// Link is such an address. It is safe for concurrent use.
type Link struct {
	listener *net.TCPListener
	running  sync.WaitGroup

	// mu guards what follows. Nothing is waited for under it.
	mu     sync.Mutex
	to     string
	states [2]*state // by Direction.index
	pairs  map[*pair]bool
	opened uint64 // connections so far
	closed bool

	repeats int // that are on their way

	cancel context.CancelFunc // ends everything that waits
}

// state is what is done in one direction until it is replaced.
type state struct {
	Trouble
	seed     uint64
	replaced chan struct{} // closed then
}

// New returns a link to the server at to ("127.0.0.1:PORT"); to nowhere where it is empty, see MoveTo.
func New(to string) (*Link, error) {
	if to != "" {
		if _, _, err := net.SplitHostPort(to); err != nil {
			return nil, fmt.Errorf("a link leads to host:port: %w", err)
		}
	}
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, to: to, pairs: make(map[*pair]bool)}
	for i := range l.states {
		l.states[i] = &state{replaced: make(chan struct{})}
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.running.Go(func() { l.accept(ctx) })
	return l, nil
}

// Addr returns "127.0.0.1:PORT". It never changes.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// MoveTo cuts all connections, and leads new ones to the server at to; nowhere where it is empty: then they
// are reset as soon as they are made.
func (l *Link) MoveTo(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
	l.resetLocked(func(*pair) bool { return true })
}

// Trouble replaces what is done to what passes in a direction, for connections that are open and for new ones.
// seed decides which messages are held, repeated or lose their connection. What is held or delayed just
// now is judged anew, and connections on which something was withheld, and no longer would be, are reset. The error
// says what of t is not allowed.
func (l *Link) Trouble(d Direction, t Trouble, seed uint64) error {
	if d != Requests && d != Replies {
		return fmt.Errorf("direction %q is neither %q nor %q", d, Requests, Replies)
	}
	if err := t.check(d); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errors.New("the link is closed")
	}
	l.replaceLocked(d.index(), t, seed)
	return nil
}

// Heal ends all trouble. What is held is delivered; connections on which something was withheld are
// reset; repeats that were decided still come.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.states {
		l.replaceLocked(i, Trouble{}, 0)
	}
}

func (l *Link) replaceLocked(i int, t Trouble, seed uint64) {
	for p := range l.pairs {
		p.frozen[i] = t.HalfOpen
	}
	l.resetLocked(func(p *pair) bool { return t.Cut || p.lost[i] && !t.Silent && !t.HalfOpen })
	close(l.states[i].replaced)
	l.states[i] = &state{Trouble: t, seed: seed, replaced: make(chan struct{})}
}

// resetLocked resets the connections that which chooses.
func (l *Link) resetLocked(which func(*pair) bool) {
	for p := range l.pairs {
		if which(p) {
			p.reset()
		}
	}
}

// Close ends the link and its connections, and returns when nothing of it runs any more.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.cancel()
	_ = l.listener.Close() // what is wrong with it is of no interest any more
	l.resetLocked(func(*pair) bool { return true })
	l.mu.Unlock()
	l.running.Wait()
}

func (l *Link) accept(ctx context.Context) {
	for {
		client, err := l.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // a client that has gone already, or no file left for it: it may try again
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		l.open(ctx, client)
	}
}

// open starts to serve a client, or resets it.
func (l *Link) open(all context.Context, client *net.TCPConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithCancel(all)
	p := &pair{link: l, client: client, to: l.to, index: l.opened, cancel: cancel}
	p.repeat = func(q request, after time.Duration) { l.repeat(all, q, p.to, after) }
	l.opened++
	if l.closed || l.to == "" || l.states[0].Cut || l.states[1].Cut {
		p.reset()
		return
	}
	l.pairs[p] = true
	l.running.Go(func() {
		p.serve(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.pairs, p)
	})
}
