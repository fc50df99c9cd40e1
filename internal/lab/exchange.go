package lab

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/trace"
)

// call is a request to the session's gateway, before it is sent.
type call struct {
	method  string
	path    string // below the gateway: /v1/...
	headers []string
	body    string
}

func (c *call) header(name, value string) { c.headers = append(c.headers, name+": "+value) }

// answer is what became of a call.
type answer struct {
	outcome  fencing.Outcome
	status   int
	body     []byte
	replayed bool
	problem  wire.Problem // of a status that is no success

	// What the gateway answered where the reply was thrown away: the truth, which the client does not get.
	truth *answer
}

func (a *answer) real() *answer {
	if a.truth != nil {
		return a.truth
	}
	return a
}

// shown are the headers that matter, of requests and of replies.
var shown = []string{
	"Content-Type", wire.HeaderToken, wire.HeaderKey, wire.HeaderMark, wire.HeaderReplayed, "Etag", "Retry-After", "Location",
}

// send sends a call from the session's client and records it. With lose the request is carried out, and
// its reply thrown away.
func (s *session) send(ctx context.Context, c call, lose bool) (answer, trace.Exchange) {
	x := trace.Exchange{
		Method: c.method, URL: s.origin + s.path + c.path, Headers: slices.Clone(c.headers), Body: c.body,
		Curl: curl(s.origin+s.path+c.path, c),
	}
	a, headers := s.roundTrip(ctx, c)
	if lose {
		x.Lost = true
		return answer{outcome: fencing.Unknown, truth: &a}, x
	}
	x.Status, x.Replied, x.Reply = a.status, headers, string(a.body)
	return a, x
}

func (s *session) roundTrip(ctx context.Context, c call) (answer, []string) {
	unknown := answer{outcome: fencing.Unknown}
	r, err := http.NewRequestWithContext(ctx, c.method, "http://lab"+s.path+c.path, strings.NewReader(c.body))
	if err != nil {
		return unknown, nil
	}
	if u, err := url.Parse(s.origin); err == nil {
		r.Host = u.Host
	}
	for _, h := range c.headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := s.lab.inside.client.Do(r)
	if err != nil {
		return unknown, nil
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 256<<10))
	if err != nil {
		return unknown, nil
	}
	a := answer{status: resp.StatusCode, body: body, replayed: resp.Header.Get(wire.HeaderReplayed) == "true"}
	if resp.StatusCode/100 != 2 {
		a.outcome = fencing.Unknown
		if json.Unmarshal(body, &a.problem) == nil {
			switch a.problem.Outcome {
			case fencing.Refused.String():
				a.outcome = fencing.Refused
			case fencing.Failed.String():
				a.outcome = fencing.Failed
			}
		}
	}
	var headers []string
	for _, name := range shown {
		for _, v := range resp.Header.Values(name) {
			headers = append(headers, name+": "+v)
		}
	}
	return a, headers
}

// curl returns a command for a POSIX shell that sends the call.
func curl(address string, c call) string {
	var b strings.Builder
	b.WriteString("curl -i")
	if c.method != http.MethodGet {
		b.WriteString(" -X " + c.method)
	}
	for _, h := range c.headers {
		b.WriteString(" -H " + quote(h))
	}
	if c.body != "" {
		b.WriteString(" --data-binary " + quote(c.body))
	}
	b.WriteString(" " + quote(address))
	return b.String()
}

// quote quotes a word for a POSIX shell.
func quote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
