package redlock_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking/redlock"
)

// proxy stands between one process and one node. What a plan says to hold waits until the
// test says what becomes of it: request and reply are delivered, delayed, lost or repeated
// one by one, and a request can reach the node long after its sender has gone.
type proxy struct {
	t      *testing.T
	listen net.Listener
	node   string // the node's address

	mu    sync.Mutex // guards what follows
	plan  func(kind string) fate
	held  []*message // that no test has taken yet
	all   []*message // that were ever held
	over  bool
	conns []net.Conn
}

// fate is what becomes of a request.
type fate int

const (
	pass fate = iota // to the node and back, at once
	hold             // until the test decides
	lose             // it never arrives, and its sender sees the connection break
)

// message is a request that is held.
type message struct {
	p     *proxy
	kind  string
	raw   []byte
	reply []byte
	fate  chan []byte // the reply for the sender; nil breaks the connection
}

func newProxy(t *testing.T, node string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, listen: l, node: node, plan: func(string) fate { return pass }}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, c)
			p.mu.Unlock()
			wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.over = true
		for _, m := range p.all {
			select {
			case m.fate <- nil:
			default: // it was decided often enough
			}
		}
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		wg.Wait()
	})
	return p
}

// proxied is a process of its own, with a proxy before each node.
func (c *cluster) proxied(t *testing.T, o redlock.Options) (*redlock.Backend, []*proxy) {
	t.Helper()
	var clients []redis.UniversalClient
	var proxies []*proxy
	for _, s := range c.servers {
		p := newProxy(t, s.Addr())
		client := dial(p.listen.Addr().String())
		t.Cleanup(func() { _ = client.Close() })
		clients, proxies = append(clients, client), append(proxies, p)
	}
	b, err := redlock.New(clients, &o)
	if err != nil {
		t.Fatal(err)
	}
	return b, proxies
}

// set replaces the plan.
func (p *proxy) set(plan func(kind string) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

// holding is a plan that holds some kinds and passes on the others.
func holding(held ...string) func(string) fate {
	return func(kind string) fate {
		for _, k := range held {
			if k == kind {
				return hold
			}
		}
		return pass
	}
}

// take returns the first held message of a kind, if there is one.
func (p *proxy) take(kind string) *message {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range p.held {
		if m.kind == kind {
			p.held = append(p.held[:i:i], p.held[i+1:]...)
			return m
		}
	}
	return nil
}

// next waits for a message of a kind to be held.
func (p *proxy) next(kind string) (m *message) {
	p.t.Helper()
	testenv.Eventually(p.t, 20*time.Second, "a "+kind+" at the proxy", func() bool {
		m = p.take(kind)
		return m != nil
	})
	return m
}

// send lets the request reach the node, once more if it did before. The reply is kept.
func (m *message) send() string {
	m.p.t.Helper()
	c, err := net.Dial("tcp", m.p.node)
	if err != nil {
		m.p.t.Fatal(err)
	}
	defer c.Close()
	reply := m.roundTrip(c)
	if strings.HasPrefix(string(reply), "-NOSCRIPT") {
		for src, kind := range kinds {
			if kind == m.kind && len(src) > 40 {
				load := fmt.Sprintf("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n", len(src), src)
				(&message{p: m.p, raw: []byte(load)}).roundTrip(c)
			}
		}
		reply = m.roundTrip(c)
	}
	if m.reply == nil {
		m.reply = reply
	}
	return strings.Join(strings.Fields(string(reply)), " ")
}

func (m *message) roundTrip(c net.Conn) []byte {
	m.p.t.Helper()
	var reply bytes.Buffer
	if _, err := c.Write(m.raw); err != nil {
		m.p.t.Fatal(err)
	}
	if err := copyReply(bufio.NewReader(c), &reply); err != nil {
		m.p.t.Fatal(err)
	}
	return reply.Bytes()
}

// answer passes the node's reply on to the sender.
func (m *message) answer() { m.fate <- m.reply }

// cut lets the sender see its connection break; the message can be sent later all the same.
func (m *message) cut() { m.fate <- nil }

// deliver is send and answer.
func (m *message) deliver() string {
	m.p.t.Helper()
	said := m.send()
	m.answer()
	return said
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	node, err := net.Dial("tcp", p.node)
	if err != nil {
		return
	}
	defer node.Close()
	in, out := bufio.NewReader(c), bufio.NewReader(node)
	for {
		args, raw, err := readCommand(in)
		if err != nil {
			return
		}
		m := &message{p: p, kind: kindOf(args), raw: raw, fate: make(chan []byte, 4)}
		p.mu.Lock()
		fate := p.plan(m.kind)
		if fate == hold {
			p.held, p.all = append(p.held, m), append(p.all, m)
		}
		gone := p.over || fate == lose
		p.mu.Unlock()
		if gone {
			return
		}
		if m.kind == "subscribe" { // from here on the node speaks when it likes
			var wg sync.WaitGroup
			wg.Go(func() {
				_, _ = io.Copy(c, out)
				_ = c.Close()
			})
			if _, err := node.Write(raw); err == nil {
				_, _ = io.Copy(node, in)
			}
			_ = node.Close()
			wg.Wait()
			return
		}
		reply := &bytes.Buffer{}
		if fate == hold {
			text := <-m.fate
			if text == nil {
				return
			}
			reply.Write(text)
		} else {
			if _, err := node.Write(raw); err != nil {
				return
			}
			if err := copyReply(out, reply); err != nil {
				return
			}
		}
		if _, err := c.Write(reply.Bytes()); err != nil {
			return
		}
	}
}

// readCommand reads an array of bulk strings, as clients send it.
func readCommand(r *bufio.Reader) (args []string, raw []byte, err error) {
	var all bytes.Buffer
	head, err := readLine(r, &all)
	if err != nil {
		return nil, nil, err
	}
	n, err := strconv.Atoi(head[1:])
	if head[0] != '*' || err != nil || n < 1 {
		return nil, nil, errors.New("not a command")
	}
	for range n {
		head, err := readLine(r, &all)
		if err != nil {
			return nil, nil, err
		}
		size, err := strconv.Atoi(head[1:])
		if err != nil {
			return nil, nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, nil, err
		}
		all.Write(text)
		args = append(args, string(text[:size]))
	}
	return args, all.Bytes(), nil
}

// copyReply copies one reply of any type of RESP2 or RESP3.
func copyReply(r *bufio.Reader, w *bytes.Buffer) error {
	head, err := readLine(r, w)
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(head[1:])
	switch head[0] {
	case '$', '=', '!':
		if n < 0 {
			return nil
		}
		_, err := io.CopyN(w, r, int64(n)+2)
		return err
	case '%', '|':
		n *= 2
	case '*', '~', '>':
	default:
		return nil
	}
	for range n {
		if err := copyReply(r, w); err != nil {
			return err
		}
	}
	return nil
}

func readLine(r *bufio.Reader, w *bytes.Buffer) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	w.WriteString(line)
	if line = strings.TrimSuffix(line, "\r\n"); line == "" {
		return "", errors.New("an empty line")
	}
	return line, nil
}
