package fencehttp

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/fencegate/fencegate/fencing"
)

// The headers.
const (
	HeaderToken    = "Fencing-Token"    // the text forms of tokens; secrets
	HeaderResource = "Fencing-Resource" // their resources, in the same order
	HeaderMark     = "Fencing-Mark"     // on responses: the number of the store's mark
)

// MaxTokens is how many tokens a request can carry.
const MaxTokens = 16

// Transport is an [http.RoundTripper] that sends the tokens of the request's context (see
// [fencing.NewContext]) along. A Fencing-Token header that a request has already goes in their
// place, to the same hosts only: for the others both headers are taken out, whoever has set them. It
// is safe for concurrent use.
type Transport struct {
	// Base sends the requests. Default: http.DefaultTransport.
	Base http.RoundTripper
	// Allow says who may see tokens: they are secrets. On a redirect they go on only within
	// scheme, host and port of the first request. Default: nobody.
	Allow func(*url.URL) bool
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements [http.RoundTripper]. A token that does not fit its grammar, and more than
// MaxTokens, are a [*fencing.InvalidError]; nothing is sent then.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	tokens := fencing.ContextTokens(r.Context())
	named := carries(r.Header, HeaderToken)
	if len(tokens) == 0 && !named && !carries(r.Header, HeaderResource) {
		return base.RoundTrip(r)
	}
	if t.Allow == nil || !t.Allow(r.URL) || strayed(r) {
		return base.RoundTrip(without(r))
	}
	if len(tokens) == 0 || named {
		return base.RoundTrip(r)
	}
	texts, resources, err := lists(tokens)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	r = r.Clone(r.Context()) // the caller's stays as it is: a redirect copies its headers
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set(HeaderToken, texts)
	r.Header.Set(HeaderResource, resources)
	return base.RoundTrip(r)
}

// carries reports whether there is a header of this name, in whatever case a map may have it.
func carries(h http.Header, name string) bool {
	for k := range h {
		if strings.EqualFold(k, name) {
			return true
		}
	}
	return false
}

// without returns the request without tokens; the caller's stays as it is.
func without(r *http.Request) *http.Request {
	if !carries(r.Header, HeaderToken) && !carries(r.Header, HeaderResource) {
		return r
	}
	r = r.Clone(r.Context())
	maps.DeleteFunc(r.Header, func(k string, _ []string) bool {
		return strings.EqualFold(k, HeaderToken) || strings.EqualFold(k, HeaderResource)
	})
	return r
}

func lists(tokens []fencing.Token) (texts, resources string, err error) {
	if len(tokens) > MaxTokens {
		return "", "", &fencing.InvalidError{What: "tokens", Allowed: fmt.Sprintf("at most %d in a request", MaxTokens)}
	}
	t, r := make([]string, len(tokens)), make([]string, len(tokens))
	for i, token := range tokens {
		if err := token.Validate(); err != nil {
			return "", "", err
		}
		t[i], r[i] = token.Text(), token.Resource
	}
	return strings.Join(t, ", "), strings.Join(r, ", "), nil
}

// strayed reports whether redirects have led a request away from where it was sent first.
func strayed(r *http.Request) bool {
	for p := r; p.Response != nil; p = p.Response.Request {
		last := p.Response.Request
		if last == nil || last.URL.Scheme != r.URL.Scheme || last.URL.Host != r.URL.Host {
			return true
		}
	}
	return false
}
