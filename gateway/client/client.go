package client

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Options tunes a [Client]. The zero value is the default.
type Options struct {
	// APIKey is sent with every request, as Authorization: Bearer: 1 to 512 visible ASCII
	// characters. It is a secret, and goes over https or to this machine only, unless
	// InsecureKey is set. Default: none.
	APIKey string
	// InsecureKey lets APIKey go over plain http to other machines, where whoever is in between
	// can read it. Tokens always go as the base URL says.
	InsecureKey bool
	// Others are the base URLs of further replicas of the same gateway, over the same lock store
	// and the same store. The first URL that works is used; one that does not is passed over for
	// a few seconds. Clients that are given the URLs in different orders share the load.
	// Default: none.
	Others []string
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
	// its reply was lost, -1 (never) to 100; once more for each of Others. Default: 3.
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
	if o.Retries = max(o.Retries, 0); o.Retries > 0 {
		o.Retries += len(o.Others)
	}
	if o.MaxReply == 0 {
		o.MaxReply = 128 << 20
	}
	if o.MaxReply < 1<<10 || o.MaxReply > 1<<30 {
		return &fencing.InvalidError{What: "MaxReply", Allowed: "1 KiB to 1 GiB"}
	}
	if o.HTTPClient != nil && o.HTTPClient.Timeout != 0 && o.HTTPClient.Timeout <= o.MaxWait {
		return &fencing.InvalidError{What: "HTTPClient.Timeout", Got: o.HTTPClient.Timeout.String(), Allowed: "none, or more than MaxWait"}
	}
	return o.validateKey()
}

// validateKey checks what may be in a header; the key itself stays out of the error.
func (o *Options) validateKey() error {
	ok := len(o.APIKey) <= 512
	for i := 0; ok && i < len(o.APIKey); i++ {
		ok = '!' <= o.APIKey[i] && o.APIKey[i] <= '~'
	}
	if !ok {
		return &fencing.InvalidError{What: "APIKey", Allowed: "1 to 512 visible ASCII characters"}
	}
	return nil
}

// Client speaks to one gateway, or to the replicas of one. It is safe for concurrent use.
type Client struct {
	fleet *fleet
	auth  *string // the value of the Authorization header; a pointer, so that printing a Client does not show it
	http  http.Client
	own   *http.Transport // nil where the caller gave an HTTPClient
	o     Options         // without the APIKey
}

// New returns a client of the gateway at baseURL: http or https, a host, perhaps a path.
// Nothing is sent. The error is a [*fencing.InvalidError].
func New(baseURL string, o *Options) (*Client, error) {
	c := &Client{}
	if o != nil {
		c.o = *o
	}
	if err := c.o.complete(); err != nil {
		return nil, err
	}
	var bases []string
	for _, raw := range append([]string{baseURL}, c.o.Others...) {
		base, err := parseBase(raw, c.o.APIKey == "" || c.o.InsecureKey)
		if err != nil {
			return nil, err
		}
		bases = append(bases, base)
	}
	c.fleet = newFleet(bases)
	if c.o.APIKey != "" {
		auth := "Bearer " + c.o.APIKey
		c.auth, c.o.APIKey = &auth, ""
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

// parseBase checks a base URL and takes the slash off its end. Where plain is false, a plain http
// URL must be this machine's.
func parseBase(raw string, plain bool) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", &fencing.InvalidError{
			What: "base URL", Allowed: "http or https, a host and perhaps a path, without user, query and fragment",
		}
	}
	if u.Scheme == "http" && !plain && !loopback(u.Hostname()) {
		return "", &fencing.InvalidError{
			What: "base URL", Got: strconv.QuoteToASCII(raw), Allowed: "https, or this machine: an API key is not sent in the clear unless InsecureKey is set",
		}
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func loopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// newTransport is net/http's with room for many requests at once to one host.
func newTransport() *http.Transport {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		t = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second}
	}
	t = t.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 256
	// A machine that has gone does not refuse: it does not answer.
	t.DialContext = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
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
