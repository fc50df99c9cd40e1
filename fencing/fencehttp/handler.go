package fencehttp

import (
	"errors"
	"net/http"
	"strings"

	"github.com/fencegate/fencegate/fencing"
)

// Options tunes a [Handler]. The zero value is the default.
type Options struct {
	// Resource says which resource a request is about, as its path may; empty where it is about
	// none. A token without a Fencing-Resource header is read for this one. Default: the header
	// is required.
	Resource func(*http.Request) string
	// Required refuses requests that have no token for their Resource, or none at all where
	// there is no Resource. Default: the handler decides.
	Required bool
}

// Handler reads the tokens of requests into their contexts, where [fencing.FromContext] finds
// them. What is not readable is answered 400, what fits no grammar 422, and a token that is
// missing although it is Required 428, each with a problem as gateways write them.
//
// Whether a token is current is not checked here: whoever handles the request shows it to a
// store, and answers its refusal, perhaps with [WriteStale].
func Handler(next http.Handler, o *Options) http.Handler {
	if o == nil {
		o = &Options{}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource := ""
		if o.Resource != nil {
			resource = o.Resource(r)
		}
		tokens, err := read(r.Header, resource)
		if err != nil {
			writeProblem(w, unreadable(err))
			return
		}
		ctx := r.Context()
		if len(tokens) > 0 {
			ctx = fencing.NewContext(ctx, tokens...)
			r = r.WithContext(ctx)
		}
		_, has := fencing.FromContext(ctx, resource)
		if o.Required && !has && (resource != "" || len(tokens) == 0) {
			writeProblem(w, required(resource))
			return
		}
		next.ServeHTTP(w, r)
	})
}

var (
	errTwice    = errors.New("the header " + HeaderToken + " or " + HeaderResource + " comes twice")
	errResource = errors.New("the token has no resource: send " + HeaderResource + " with it")
	errCount    = errors.New(HeaderToken + " and " + HeaderResource + " are not of the same length, 1 to 16")
	errRepeated = errors.New(HeaderResource + " names a resource twice")
)

// read reads the tokens of a request about a resource; empty if that is not known.
func read(h http.Header, resource string) ([]fencing.Token, error) {
	texts, names := h.Values(HeaderToken), h.Values(HeaderResource)
	switch {
	case len(texts) > 1 || len(names) > 1:
		return nil, errTwice
	case len(texts) == 0 && len(names) == 0:
		return nil, nil
	case len(texts) == 0:
		return nil, errCount
	case len(names) == 0 && resource == "":
		return nil, errResource
	case len(names) == 0:
		t, err := fencing.ParseToken(resource, texts[0])
		return []fencing.Token{t}, err
	}
	texts, names = split(texts[0]), split(names[0])
	if len(texts) != len(names) || len(texts) > MaxTokens {
		return nil, errCount
	}
	seen := make(map[string]bool, len(names))
	tokens := make([]fencing.Token, len(names))
	for i, name := range names {
		if seen[name] {
			return nil, errRepeated
		}
		seen[name] = true
		t, err := fencing.ParseToken(name, texts[i])
		if err != nil {
			return nil, err
		}
		tokens[i] = t
	}
	return tokens, nil
}

func split(list string) []string {
	parts := strings.Split(list, ",")
	for i, p := range parts {
		parts[i] = strings.Trim(p, " \t")
	}
	return parts
}
