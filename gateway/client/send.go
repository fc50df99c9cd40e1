package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
)

// call is one request.
type call struct {
	method string
	path   string // escaped; what it is made of fits the grammar, which needs no escaping
	query  url.Values
	token  *fencing.Token
	// idempotency is the key of a commit; empty for none.
	idempotency string
	body        any           // a message; nil for none
	raw         []byte        // in place of body, for a record
	wait        time.Duration // how long the gateway may take beyond Options.Timeout
	read        bool          // it has no effect: a lost reply is failed, not unknown
	exact       bool          // to repeat it after an unknown outcome changes nothing
	urgent      bool          // a replica that hangs must leave time for another; only where it is exact
	want        int           // the status of success
	into        any           // the message to read on success; nil for none
}

// answer is what came back.
type answer struct {
	at      int  // which replica was asked
	status  int  // 0: no reply, or half of one
	closes  bool // the connection is closed after it
	header  http.Header
	body    []byte
	problem *wire.Problem // where the gateway said no
}

// exchange sends a request to a replica and reads the reply.
func (c *Client) exchange(ctx context.Context, at int, k call) (answer, error) {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, k.wait+c.patience(ctx, k))
	defer cancel()
	sent := &sending{}
	req, err := c.request(httptrace.WithClientTrace(ctx, sent.trace()), c.fleet.bases[at], k)
	if err != nil {
		return answer{}, fencing.AsFailed(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(outer); cause != nil && !errors.Is(err, cause) {
			err = errors.Join(err, cause)
		}
		return answer{}, lost(err, k.read || sent.nothing(err))
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.o.MaxReply+1))
	if err == nil && int64(len(body)) > c.o.MaxReply {
		err = fmt.Errorf("the reply is larger than %d bytes", c.o.MaxReply)
	}
	if err != nil {
		return answer{}, lost(fmt.Errorf("%s %s: reading the reply: %w", k.method, k.path, err), k.read)
	}
	a := answer{status: resp.StatusCode, closes: resp.Close, header: resp.Header, body: body}
	if resp.StatusCode != k.want {
		if a.problem = problem(resp, body); a.problem == nil {
			return a, lost(fmt.Errorf("%s %s: HTTP status %d, and not from a gateway", k.method, k.path, resp.StatusCode), k.read)
		}
		if k.read && a.problem.Outcome == fencing.Unknown.String() {
			a.problem.Outcome = fencing.Failed.String()
		}
		return a, a.problem.Err()
	}
	if k.into != nil {
		if err := json.Unmarshal(body, k.into); err != nil {
			// The text stays out of the error: it may contain a token.
			return a, lost(fmt.Errorf("%s %s: the reply is not readable", k.method, k.path), k.read)
		}
	}
	return a, nil
}

// patience is how long one attempt may take apart from its waiting.
func (c *Client) patience(ctx context.Context, k call) time.Duration {
	d := c.o.Timeout
	if end, bounded := ctx.Deadline(); bounded && k.urgent && len(c.fleet.bases) > 1 {
		d = min(d, time.Until(end)/2)
	}
	return d
}

func (c *Client) request(ctx context.Context, base string, k call) (*http.Request, error) {
	target := base + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	var body io.Reader
	contentType := ""
	switch {
	case k.raw != nil:
		body, contentType = bytes.NewReader(k.raw), wire.TypeRecord
	case k.body != nil:
		data, err := json.Marshal(k.body)
		if err != nil {
			return nil, err
		}
		body, contentType = bytes.NewReader(data), wire.TypeJSON
	}
	req, err := http.NewRequestWithContext(ctx, k.method, target, body)
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if c.auth != nil {
		req.Header.Set("Authorization", *c.auth)
	}
	if k.token != nil {
		req.Header.Set(wire.HeaderToken, k.token.Text())
	}
	if k.idempotency != "" {
		req.Header.Set(wire.HeaderKey, k.idempotency)
	}
	// Something in between that compresses would weaken the ETag, which is the version.
	req.Header.Set("Accept-Encoding", "identity")
	return req, nil
}

// sending watches whether a request may have left. That nothing was sent is claimed on
// positive evidence only: a transport that does not report its connections, or reported
// one, may have sent something.
type sending struct {
	asked, got atomic.Bool // for a connection; the hooks run on the transport's goroutines too
}

func (s *sending) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { s.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { s.got.Store(true) },
	}
}

func (s *sending) nothing(err error) bool {
	if s.got.Load() {
		return false
	}
	op, ok := errors.AsType[*net.OpError](err)
	return s.asked.Load() || ok && op.Op == "dial"
}

func lost(err error, nothing bool) error {
	if nothing {
		return fencing.AsFailed(err)
	}
	return fencing.AsUnknown(err)
}

// ended says why ctx has ended: its error, and its cause where that is another.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if !errors.Is(cause, err) {
		err = errors.Join(err, cause)
	}
	return fencing.AsFailed(err)
}

// problem reads a problem, or returns nil: the reply is then not a gateway's.
func problem(resp *http.Response, body []byte) *wire.Problem {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	var p wire.Problem
	if err != nil || kind != wire.TypeProblem || json.Unmarshal(body, &p) != nil || p.Type == "" || p.Outcome == "" {
		return nil
	}
	return &p
}
