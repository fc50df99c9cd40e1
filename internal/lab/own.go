package lab

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/gateway/wire"
)

var errNotOwn = wire.NewError(wire.SlugForbidden, "a session has the resources coupon and stock, under its own prefix, and no others")

// owns reports whether a request is about nothing but the session's coupon and stock. The session's key
// covers every name that begins with its prefix, but what is under other names nobody would tidy up.
func (s *session) owns(r *http.Request) bool {
	return !slices.ContainsFunc(touched(r), func(name string) bool {
		_, own := s.short(name)
		return !own
	})
}

// touched returns the resources that a request to the gateway names. What cannot be read names none: it
// is the gateway's to refuse.
func touched(r *http.Request) []string {
	path := r.URL.EscapedPath()
	if r.Method == http.MethodPost && path == commitsPath {
		if m, ok := peek(r); ok {
			return named(m)
		}
		return nil
	}
	rest, ok := strings.CutPrefix(path, "/v1/resources/")
	escaped, _, _ := strings.Cut(rest, "/")
	name, err := url.PathUnescape(escaped)
	if !ok || err != nil {
		return nil
	}
	return []string{name}
}

const commitsPath = "/v1/commits"

// peek decodes a commit, and leaves its body to be read again.
func peek(r *http.Request) (m wire.Commit, ok bool) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	ok = err == nil && len(body) <= maxBody && wire.Decode(body, &m) == nil
	return m, ok
}

// named returns the resources of a commit, each once.
func named(m wire.Commit) []string {
	var names []string
	for _, op := range m.Ops {
		names = append(names, op.Resource)
	}
	for _, t := range m.Tokens {
		names = append(names, t.Resource)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
