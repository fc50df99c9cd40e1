package client

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Options tunes a [Client]. The zero value is the default.
type Options struct {
	// HTTPClient sends the requests. It is used as a copy that follows no redirects and
	// has no cookies; its Timeout must exceed MaxWait. Default: one of its own.
	HTTPClient *http.Client
	// Timeout bounds one attempt, on top of the time that it waits for a lock, 10 ms to
	// 10 min. Default: 15 s.
	Timeout time.Duration
	// MaxWait is the longest wait of one lock request, 1 ms to 1 h; a longer one is made
	// of several. It must not exceed the gateway's. Default: 30 s.
	MaxWait time.Duration
	// Retries is how often a request is repeated, where that is exact, after it failed or
	// its reply was lost, -1 (never) to 100. Default: 3.
	Retries int
	// Cleanup bounds the freeing of what an unanswered grant may have left, also after
	// the caller's context has ended, 10 ms to 1 min. Default: 2 s.
	Cleanup time.Duration
	// MaxReply is the largest reply in bytes, 1 KiB to 1 GiB. Default: 128 MiB.
	MaxReply int64
}

func (o *Options) complete() error {
	for _, d := range []struct {
		what             string
		v                *time.Duration
		def, least, most time.Duration
	}{
		{"Timeout", &o.Timeout, 15 * time.Second, 10 * time.Millisecond, 10 * time.Minute},
		{"MaxWait", &o.MaxWait, 30 * time.Second, time.Millisecond, time.Hour},
		{"Cleanup", &o.Cleanup, 2 * time.Second, 10 * time.Millisecond, time.Minute},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if *d.v < d.least || *d.v > d.most {
			return &fencing.InvalidError{What: d.what, Got: d.v.String(), Allowed: d.least.String() + " to " + d.most.String()}
		}
	}
	if o.Retries == 0 {
		o.Retries = 3
	}
	if o.Retries < -1 || o.Retries > 100 {
		return &fencing.InvalidError{What: "Retries", Allowed: "-1 to 100"}
	}
	o.Retries = max(o.Retries, 0)
	if o.MaxReply == 0 {
		o.MaxReply = 128 << 20
	}
	if o.MaxReply < 1<<10 || o.MaxReply > 1<<30 {
		return &fencing.InvalidError{What: "MaxReply", Allowed: "1 KiB to 1 GiB"}
	}
	if o.HTTPClient != nil && o.HTTPClient.Timeout != 0 && o.HTTPClient.Timeout <= o.MaxWait {
		return &fencing.InvalidError{What: "HTTPClient.Timeout", Got: o.HTTPClient.Timeout.String(), Allowed: "none, or more than MaxWait"}
	}
	return nil
}

// Client speaks to one gateway. It is safe for concurrent use.
type Client struct {
	base string // without a slash at its end
	http http.Client
	own  *http.Transport // nil where the caller gave an HTTPClient
	o    Options
}

// New returns a client of the gateway at baseURL: http or https, a host, perhaps a path.
// Nothing is sent. The error is a [*fencing.InvalidError].
func New(baseURL string, o *Options) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, &fencing.InvalidError{
			What: "base URL", Allowed: "http or https, a host and perhaps a path, without user, query and fragment",
		}
	}
	c := &Client{base: strings.TrimRight(u.String(), "/")}
	if o != nil {
		c.o = *o
	}
	if err := c.o.complete(); err != nil {
		return nil, err
	}
	if c.o.HTTPClient != nil {
		c.http = *c.o.HTTPClient
	} else {
		c.own = newTransport()
		c.http.Transport = c.own
	}
	c.http.Jar = nil
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// newTransport is net/http's with room for many requests at once to one host.
func newTransport() *http.Transport {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		t = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second}
	}
	t = t.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 256
	return t
}

// Close closes the idle connections of the client's own transport. A given HTTPClient is
// left to whoever made it.
func (c *Client) Close() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Issuer returns the gateway's locks.
func (c *Client) Issuer() *Issuer { return &Issuer{c} }

// Store returns the gateway's records.
func (c *Client) Store() *Store { return &Store{c} }
