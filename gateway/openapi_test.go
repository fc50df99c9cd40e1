package gateway_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/openapitest"
	"github.com/fencegate/fencegate/gateway/wire"
)

func document(t *testing.T) *openapitest.Document {
	t.Helper()
	data, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapitest.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestDocumentIsServed: the document that is served is the one that the tests look at.
func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, setup{})
	if got := r.want(200, nil, "GET", "/openapi.yaml", ""); got.body != string(data) || got.header.Get("Content-Type") != "application/yaml" {
		t.Errorf("got %v and %d bytes, want the %d bytes of openapi.yaml", got.header, len(got.body), len(data))
	}
}

// TestDocumentHasTheRoutes: the document's operations are the gateway's routes, with their scopes.
func TestDocumentHasTheRoutes(t *testing.T) {
	t.Parallel()
	want := map[string]string{}
	for _, r := range gateway.Routes() {
		want[r[0]+" "+regexp.MustCompile(`:(\w+)`).ReplaceAllString(r[1], "{$1}")] = r[2]
	}
	got := map[string]string{}
	for path, item := range document(t).Paths.Map() {
		for method, op := range item.Operations() {
			scopes := ""
			if len(*op.Security) > 0 {
				scopes = strings.Join((*op.Security)[0]["bearer"], ",")
			}
			got[method+" "+path] = scopes
			if op.OperationID == "" || op.Summary == "" || len(op.Tags) != 1 {
				t.Errorf("%s %s lacks an id, a summary or a tag", method, path)
			}
		}
	}
	if !maps.Equal(got, want) {
		for _, route := range slices.Sorted(maps.Keys(want)) {
			if scope, ok := got[route]; !ok || scope != want[route] {
				t.Errorf("%s: the document has the scope %q, %t, the gateway %q", route, scope, ok, want[route])
			}
			delete(got, route)
		}
		for route := range got {
			t.Errorf("%s is in the document alone", route)
		}
	}
}

// TestDocumentHasTheProblems: every type of problem is documented, under its status, with an
// example that is one.
func TestDocumentHasTheProblems(t *testing.T) {
	t.Parallel()
	doc := document(t)
	where := map[string][]string{"method-not-allowed": {"405 everywhere"}} // no operation has it
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status, r := range op.Responses.Map() {
				if c := r.Value.Content["application/problem+json"]; c != nil {
					for slug := range c.Examples {
						where[slug] = append(where[slug], status+" "+method+" "+path)
					}
				}
			}
		}
	}
	for _, p := range wire.Pages() {
		if len(where[p.Slug]) == 0 {
			t.Errorf("no operation has the problem %s", p.Slug)
		}
		for _, at := range where[p.Slug] {
			if !strings.HasPrefix(at, strconv.Itoa(p.Status)+" ") {
				t.Errorf("%s has the problem %s, whose status is %d", at, p.Slug, p.Status)
			}
		}
		delete(where, p.Slug)
		example := doc.Components.Examples[p.Slug]
		if example == nil {
			t.Errorf("the problem %s has no example", p.Slug)
			continue
		}
		data, err := json.Marshal(example.Value.Value)
		var got wire.Problem
		if err != nil || wire.Decode(data, &got) != nil {
			t.Errorf("the example of %s is no problem: %s", p.Slug, data)
			continue
		}
		if want := wire.NewError(p.Slug, "").Problem; got.Type != want.Type || got.Title != want.Title || got.Status != want.Status || got.Outcome != want.Outcome {
			t.Errorf("the example of %s: got %+v, want %+v", p.Slug, got, want)
		}
	}
	for slug := range where {
		t.Errorf("the problem %s is in the document alone", slug)
	}
}
