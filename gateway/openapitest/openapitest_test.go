package openapitest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway/openapitest"
)

func read(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestSees: what a gateway must not do is seen, and nothing else.
func TestSees(t *testing.T) {
	t.Parallel()
	doc, err := openapitest.Parse([]byte(read(t)))
	if err != nil {
		t.Fatal(err)
	}
	const (
		lock    = "/v1/resources/coupon:42/lock"
		record  = "/v1/resources/coupon:42/records/stock"
		granted = `{"token":"34.MFRGGZDFMZTWQ2LKNNWG23TPOB","number":"34","expires_in":"1s","waited":"0s"}`
		invalid = `{"type":"/problems/invalid","title":"a","status":422,"outcome":"refused"}`
		token   = "Fencing-Token: 34.MFRGGZDFMZTWQ2LKNNWG23TPOB"
	)
	for _, c := range []struct {
		name, method, path, body, header string
		status                           int
		reply, replyHeader               string
		fits                             bool
	}{
		{"a grant", "POST", lock, `{"ttl":"1s"}`, "", 201, granted, "Fencing-Mark: 34", true},
		{"an unknown member", "POST", lock, `{"tll":"1s"}`, "", 201, granted, "", false},
		{"a number in JSON", "POST", lock, `{}`, "", 201, strings.Replace(granted, `"34"`, `34`, 1), "", false},
		{"a member that is not documented", "POST", lock, `{}`, "", 201, strings.Replace(granted, `{`, `{"secret":"1",`, 1), "", false},
		{"a member that is missing", "POST", lock, `{}`, "", 201, `{"number":"34"}`, "", false},
		{"another status", "POST", lock, `{}`, "", 202, granted, "", false},
		{"a mark that is none", "POST", lock, `{}`, "", 201, granted, "Fencing-Mark: 034", false},
		{"a header that is not documented", "POST", lock, `{}`, "", 201, granted, "ETag: \"1\"", false},
		{"a bad name that is accepted", "POST", "/v1/resources/a%20b/lock", `{}`, "", 201, granted, "", false},
		{"a bad name that is refused", "POST", "/v1/resources/a%20b/lock", `{}`, "", 422, invalid, "", true},
		{"a name escaped once", "POST", "/v1/resources/coupon%3A42/lock", `{}`, "", 201, granted, "", true},
		{"a problem that is not documented", "POST", lock, `{}`, "", 422, strings.ReplaceAll(invalid, "invalid", "idempotency-key-reused"), "", false},
		{"a problem of another status", "POST", lock, `{}`, "", 422, strings.Replace(invalid, "422", "400", 1), "", false},
		{"a problem without an outcome", "POST", lock, `{}`, "", 422, strings.Replace(invalid, `,"outcome":"refused"`, "", 1), "", false},
		{"a write", "PUT", record, "8", token, 204, "", "Fencing-Mark: 34", true},
		{"a write without a token", "PUT", record, "8", "", 204, "", "", false},
		{"a write with a bad token", "PUT", record, "8", "Fencing-Token: 34.x", 204, "", "", false},
		{"an unknown query parameter", "PUT", record + "?x=1", "8", token, 204, "", "", false},
		{"a parameter twice", "GET", "/v1/locks?limit=1&limit=2", "", "", 200, `{"locks":[]}`, "", false},
		{"held without Retry-After", "POST", lock, `{}`, "", 423, strings.ReplaceAll(strings.ReplaceAll(invalid, "invalid", "held"), "422", "423"), "", false},
		{"an unknown path", "GET", "/v2", "", "", 404, strings.ReplaceAll(strings.ReplaceAll(invalid, "invalid", "not-found"), "422", "404"), "", true},
		{"an unknown path that is answered", "GET", "/v2", "", "", 200, `{}`, "", false},
		{"an unknown method", "BREW", lock, "", "", 405, strings.ReplaceAll(strings.ReplaceAll(invalid, "invalid", "method-not-allowed"), "422", "405"), "Allow: GET", true},
		{"an unknown method without Allow", "BREW", lock, "", "", 405, strings.ReplaceAll(strings.ReplaceAll(invalid, "invalid", "method-not-allowed"), "422", "405"), "", false},
	} {
		var errs []string
		h := doc.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if name, value, ok := strings.Cut(c.replyHeader, ": "); ok {
				w.Header().Set(name, value)
			}
			w.Header().Set("Content-Type", "application/json")
			if c.status >= 400 {
				w.Header().Set("Content-Type", "application/problem+json")
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.reply)
		}), func(err error) { errs = append(errs, err.Error()) })
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		if name, value, ok := strings.Cut(c.header, ": "); ok {
			r.Header.Set(name, value)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		if (len(errs) == 0) != c.fits {
			t.Errorf("%s: got %q, fits: %t", c.name, errs, c.fits)
		}
	}
}

// TestParseRefuses: a document that is not in order is none.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	text := read(t)
	for _, c := range []struct{ what, old, new string }{
		{"a reference to nothing", `#/components/schemas/LockReply"`, `#/components/schemas/LockRepli"`},
		{"an example that does not fit", `{ value: { released: true } }`, `{ value: { released: 1 } }`},
		{"a parameter that no path has", `/v1/resources/{resource}/fence:`, `/v1/resources/{ressource}/fence:`},
		{"a keyword that is not looked at", `enum: [put] }`, `const: put }`},
	} {
		if !strings.Contains(text, c.old) {
			t.Fatalf("%s: the document has no %s", c.what, c.old)
		}
		if _, err := openapitest.Parse([]byte(strings.Replace(text, c.old, c.new, 1))); err == nil {
			t.Errorf("%s was accepted", c.what)
		}
	}
}
