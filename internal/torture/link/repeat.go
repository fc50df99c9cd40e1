package link

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	mostRepeats   = 256             // of a link at once; more are left out
	repeatTimeout = 5 * time.Second // for a repeat to be answered
)

// repeat chooses, from requests that were delivered, those that come once more.
func (w *pipe) repeat(s *state, delivered []request) {
	if s.RepeatShare == 0 {
		return
	}
	for _, q := range delivered {
		if w.rnd.Float64() < s.RepeatShare && (s.Repeat == nil || s.Repeat(q.bytes)) {
			w.pair.repeat(q, time.Duration(w.rnd.Float64()*float64(s.HoldFor)))
		}
	}
}

// repeat sends a request to a server once more, after a while, unless ctx ends.
func (l *Link) repeat(ctx context.Context, q request, to string, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.repeats == mostRepeats {
		return
	}
	l.repeats++
	l.running.Go(func() {
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.repeats--
		}()
		t := time.NewTimer(after)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(ctx, repeatTimeout)
		defer cancel()
		_ = q.send(ctx, to) // a server that is not there gets no duplicate
	})
}

// send sends the request on a connection of its own, and waits until it is answered.
func (q request) send(ctx context.Context, to string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write(append(q.prelude, q.bytes...)); err != nil {
		return err
	}
	if !q.http {
		// Redis answers what it has been sent, and then closes.
		if c, ok := conn.(*net.TCPConn); ok {
			err = c.CloseWrite()
		}
		if err == nil {
			_, err = io.Copy(io.Discard, conn)
		}
		return err
	}
	// An HTTP server would take the end of the stream for a client that has gone, and give up.
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
