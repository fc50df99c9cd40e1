package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"time"
)

const (
	chunk = 32 << 10 // bytes that are read at once, at most
	queue = 64       // chunks that wait to be delivered; then the sender has to wait
)

// pipe is one direction of a pair. One goroutine reads, so that the time of arrival and the end are
// known however long delivery takes; another delivers.
type pipe struct {
	pair     *pair
	i        int // Direction.index
	src, dst *net.TCPConn
	arrived  chan message
	aborted  bool // the source ended with an error; set before arrived is closed

	// The writer's own.
	state    *state // what rnd was seeded for
	rnd      *rand.Rand
	deaf     bool      // dst takes nothing any more
	requests *requests // nil for replies
}

// message is what arrived at once.
type message struct {
	data []byte
	at   time.Time
}

func newPipe(p *pair, d Direction, src, dst *net.TCPConn) *pipe {
	w := &pipe{pair: p, i: d.index(), src: src, dst: dst, arrived: make(chan message, queue)}
	if d == Requests {
		w.requests = &requests{}
	}
	return w
}

func (w *pipe) read(ctx context.Context) {
	defer close(w.arrived)
	buf := make([]byte, chunk)
	for {
		n, err := w.src.Read(buf)
		if n > 0 {
			select {
			case w.arrived <- message{bytes.Clone(buf[:n]), time.Now()}:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			w.aborted = !errors.Is(err, io.EOF)
			return
		}
	}
}

func (w *pipe) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m, more := <-w.arrived:
			if !more {
				w.end(ctx)
				return
			}
			w.pass(ctx, m)
		}
	}
}

// pass delivers a message, sooner or later, or not at all.
func (w *pipe) pass(ctx context.Context, m message) {
	s, withheld := w.consult()
	for !withheld && !w.sleep(ctx, time.Until(s.due(m.at, w.rnd)), s) {
		s, withheld = w.consult()
	}
	if withheld || w.deaf || ctx.Err() != nil {
		return
	}
	if s.ResetShare > 0 && w.rnd.Float64() < s.ResetShare {
		w.pair.reset()
		return
	}
	for rest := m.data; len(rest) > 0; {
		n := len(rest)
		if s.Bandwidth > 0 {
			n = min(n, int(max(s.Bandwidth/20, 1)))
			w.sleep(ctx, time.Duration(n)*time.Second/time.Duration(s.Bandwidth), s)
			if s, withheld = w.consult(); withheld {
				return
			}
		}
		if _, err := w.dst.Write(rest[:n]); err != nil {
			w.deaf = true // what its own direction says of it is passed on there
			return
		}
		rest = rest[n:]
	}
	if w.requests != nil {
		w.repeat(s, w.requests.add(m.data))
	}
}

// end passes on that there is nothing more to come.
func (w *pipe) end(ctx context.Context) {
	if _, withheld := w.consult(); withheld {
		<-ctx.Done() // nobody is told
		return
	}
	if w.aborted {
		w.pair.reset()
		return
	}
	_ = w.dst.CloseWrite() // fails where dst has gone
}

// consult returns what is to be done now, and whether what has come is withheld: the pair is lost
// then. Both are one step, so that a connection with a gap is sure to be reset when the trouble ends.
func (w *pipe) consult() (s *state, withheld bool) {
	l := w.pair.link
	l.mu.Lock()
	defer l.mu.Unlock()
	s = l.states[w.i]
	if s != w.state {
		w.state = s
		w.rnd = rand.New(rand.NewPCG(s.seed, w.pair.index<<1|uint64(w.i&1)))
	}
	if s.Silent || w.pair.frozen[w.i] || w.pair.lost[w.i] {
		w.pair.lost[w.i] = true
		return s, true
	}
	return s, false
}

// sleep waits for d, and reports false where the state was replaced before.
func (w *pipe) sleep(ctx context.Context, d time.Duration, s *state) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-s.replaced:
		return false
	}
	return true
}
