// Package openapitest holds a gateway, in its tests, to the document that it serves: whatever it
// answers must be in the document, and what it accepts must be allowed there.
package openapitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// Document is an OpenAPI document that messages can be compared with. It is safe for concurrent
// use.
type Document struct {
	*openapi3.T
	paths []path
}

// path is a path of the document, in segments.
type path struct {
	segments []string
	item     *openapi3.PathItem
	name     string
}

// Parse reads a document. The error says where it is not valid OpenAPI 3.1, or where an example
// does not fit its schema.
func Parse(data []byte) (*Document, error) { return parse(data) }

func parse(data []byte, o ...openapi3.ValidationOption) (*Document, error) {
	doc, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		return nil, err
	}
	if err := usesOnly(doc); err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background(), o...); err != nil {
		return nil, err
	}
	// For a document of version 3.1 the library compiles the schema anew for every single value. Its
	// own validator is a hundred times as fast; usesOnly makes sure that it knows all that is used.
	doc.OpenAPI = "3.0.3"
	d := &Document{T: doc}
	for name, item := range doc.Paths.Map() {
		d.paths = append(d.paths, path{strings.Split(name, "/"), item, name})
		for _, op := range item.Operations() {
			for _, r := range op.Responses.Map() {
				for _, m := range r.Value.Content {
					closeObjects(m.Schema)
				}
			}
		}
	}
	// What is written out goes before what is a parameter: /v1/locks/renew.
	slices.SortFunc(d.paths, func(a, b path) int { return strings.Compare(a.name, b.name) })
	return d, nil
}

// usesOnly refuses what JSON Schema has and the validator of OpenAPI 3.0 ignores.
func usesOnly(doc *openapi3.T) error {
	return doc.WalkSchemas(func(at string, ref *openapi3.SchemaRef) error {
		s := ref.Value
		if s == nil {
			return nil
		}
		if s.Const != nil || s.If != nil || s.PropertyNames != nil || len(s.PatternProperties)+len(s.PrefixItems)+len(s.DependentRequired)+len(s.Defs) > 0 ||
			s.Contains != nil || s.UnevaluatedProperties.Has != nil || s.Type != nil && len(s.Type.Slice()) > 1 {
			return fmt.Errorf("%s: the schema uses what the validator does not know", at)
		}
		return nil
	})
}

// closeObjects makes members that are not documented an error in the gateway's replies. To the
// clients the document says that there may be more of them some day.
func closeObjects(ref *openapi3.SchemaRef) {
	if ref == nil || ref.Value == nil {
		return
	}
	s := ref.Value
	if s.Type.Is("object") {
		no := false
		s.AdditionalProperties.Has = &no
	}
	for _, p := range s.Properties {
		closeObjects(p)
	}
	closeObjects(s.Items)
}

// kept are the documents that were read, by path: there is one, and many rigs.
var kept struct {
	sync.Mutex // guards m

	m map[string]*Document
}

// Check returns a handler around a gateway's. What goes through it is compared with the document
// in a file; what does not fit is an error of tb.
func Check(tb testing.TB, file string, gateway http.Handler) http.Handler {
	tb.Helper()
	kept.Lock()
	defer kept.Unlock()
	d := kept.m[file]
	if d == nil {
		data, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		if d, err = parse(data, openapi3.DisableExamplesValidation()); err != nil { // they take a second
			tb.Fatalf("%s: %v", file, err)
		}
		kept.m = map[string]*Document{file: d}
	}
	return d.Handler(gateway, func(err error) { tb.Error(err) })
}

// Handler returns a handler around next that reports every exchange that does not fit the document.
func (d *Document) Handler(next http.Handler, report func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := &reader{ReadCloser: r.Body}
		out := &writer{ResponseWriter: w}
		sent := r.Clone(r.Context())
		r.Body = in
		next.ServeHTTP(out, r)
		if out.status == 0 {
			out.status, out.sent = http.StatusOK, w.Header().Clone()
		}
		if err := d.Exchange(sent, in.got, out.status, out.sent, out.body); err != nil {
			report(fmt.Errorf("%s %s, answered %d %.300s: %w", r.Method, r.URL.RequestURI(), out.status, out.body, err))
		}
	})
}

// Exchange compares a request and its reply with the document.
func (d *Document) Exchange(r *http.Request, body []byte, status int, header http.Header, reply []byte) error {
	route, params, known := d.find(r)
	if route == nil {
		route = d.nothing(known)
	}
	// A copy, as the library wants it: GET for HEAD, the body as it was read.
	q := r.Clone(r.Context())
	q.Body, q.ContentLength = http.NoBody, 0
	if len(body) > 0 {
		q.Body, q.ContentLength = readCloser(body), int64(len(body))
	}
	head := q.Method == http.MethodHead
	if head {
		q.Method = http.MethodGet
	}
	options := &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true,
		ExcludeResponseBody: head || header.Get("Content-Type") == "text/event-stream",
	}
	in := &openapi3filter.RequestValidationInput{Request: q, PathParams: params, Route: route, Options: options}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: status, Header: header, Body: readCloser(reply), Options: options}
	var errs []error
	if status < 300 {
		errs = append(errs, once(q, route.Operation), openapi3filter.ValidateRequest(r.Context(), in))
	}
	errs = append(errs, openapi3filter.ValidateResponse(r.Context(), out), documented(route.Operation, status, header, reply, head))
	return errors.Join(errs...)
}

// find returns the operation of a request and its path's parameters, unescaped. known says whether
// there is such a path, with another method.
func (d *Document) find(r *http.Request) (route *routers.Route, params map[string]string, known bool) {
	got := strings.Split(r.URL.EscapedPath(), "/")
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, p := range d.paths {
		params, ok := p.match(got)
		if !ok {
			continue
		}
		known = true
		if op := p.item.GetOperation(method); op != nil {
			return &routers.Route{Spec: d.T, Path: p.name, PathItem: p.item, Method: method, Operation: op}, params, true
		}
	}
	return nil, nil, known
}

// nothing is the operation of an address that has none.
func (d *Document) nothing(known bool) *routers.Route {
	of := d.Components.Responses
	responses := openapi3.NewResponses(openapi3.WithStatus(http.StatusRequestURITooLong, of["URITooLong"]))
	responses.Delete("default")
	if known {
		responses.Set("405", of["MethodNotAllowed"])
	} else {
		responses.Set("404", of["NotFound"])
	}
	return &routers.Route{Spec: d.T, Operation: &openapi3.Operation{Responses: responses}, PathItem: &openapi3.PathItem{}}
}

func (p path) match(got []string) (params map[string]string, ok bool) {
	if len(got) != len(p.segments) {
		return nil, false
	}
	params = map[string]string{}
	for i, want := range p.segments {
		if name, isParam := strings.CutPrefix(want, "{"); isParam {
			// What cannot be unescaped stays as it is: it fits no grammar.
			if got[i] == "" && i == len(got)-1 {
				return nil, false
			}
			text, err := url.PathUnescape(got[i])
			if err != nil {
				text = got[i]
			}
			params[strings.TrimSuffix(name, "}")] = text
		} else if got[i] != want {
			return nil, false
		}
	}
	return params, true
}

// once says what an accepted request has that the document does not allow, and that the library
// does not look for: unknown query parameters, and parameters that come twice.
func once(r *http.Request, op *openapi3.Operation) error {
	for name, values := range r.URL.Query() {
		if op.Parameters.GetByInAndName(openapi3.ParameterInQuery, name) == nil {
			return fmt.Errorf("the query parameter %s is not documented, and was accepted", name)
		}
		if len(values) > 1 {
			return fmt.Errorf("the query parameter %s came twice, and was accepted", name)
		}
	}
	for _, p := range op.Parameters {
		if p.Value.In == openapi3.ParameterInHeader && len(r.Header.Values(p.Value.Name)) > 1 {
			return fmt.Errorf("the header %s came twice, and was accepted", p.Value.Name)
		}
	}
	return nil
}

// ours are the headers that a reply has only where the document says so.
var ours = []string{
	"Fencing-Mark", "ETag", "Retry-After", "Idempotency-Replayed", "RateLimit", "RateLimit-Policy", "X-Request-Id", "Allow", "WWW-Authenticate", "Location",
}

// documented looks for what the library does not: headers that the reply should not have, and a
// type of problem that is not among the reply's examples.
func documented(op *openapi3.Operation, status int, header http.Header, reply []byte, head bool) error {
	ref := op.Responses.Status(status)
	if ref == nil {
		return nil // reported already
	}
	res := ref.Value
	for _, name := range ours {
		if header.Get(name) != "" && res.Headers[name] == nil {
			return fmt.Errorf("the reply's header %s is not documented", name)
		}
	}
	if status < 400 && status >= 300 {
		return nil
	}
	problem := res.Content["application/problem+json"]
	if status < 400 || problem == nil || head {
		return nil
	}
	var p struct {
		Type   string `json:"type"`
		Status int    `json:"status"`
	}
	if err := json.Unmarshal(reply, &p); err != nil {
		return err
	}
	slug := strings.TrimPrefix(p.Type, "/problems/")
	if problem.Examples[slug] == nil {
		return fmt.Errorf("the problem %s is not documented here", slug)
	}
	if p.Status != status {
		return fmt.Errorf("the problem has the status %d", p.Status)
	}
	return nil
}
