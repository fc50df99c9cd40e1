package gateway_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/wire"
)

// TestBadInput sends what no client should, and looks at the status, the problem, and
// that nothing was written.
func TestBadInput(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{options: gateway.Options{MaxValue: 1000, MaxBody: 4096}})
	tok := r.lock("coupon:42", `{"ttl":"1h","grant":"`+canary+`"}`)
	const (
		lock    = "/v1/resources/coupon:42/lock"
		free    = "/v1/resources/other/lock"
		evict   = lock + "/evict"
		records = "/v1/resources/coupon:42/records"
		rec     = records + "/stock"
		fence   = "/v1/resources/coupon:42/fence"
		renew   = "/v1/locks/renew"
		commits = "/v1/commits"
		token   = wire.HeaderToken
	)
	r.want(204, nil, "PUT", rec, "9", token, tok)
	r.want(204, nil, "PUT", records+"/text", "abc", token, tok)
	r.want(204, nil, "PUT", records+"/max", "9007199254740991", token, tok)
	commit := func(ops string) string {
		return `{"tokens":[{"resource":"coupon:42","token":"` + tok + `"}],"ops":[` + ops + `]}`
	}
	put := `{"kind":"put","resource":"coupon:42","key":"stock","value":"OA=="}`
	many := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }

	for i, c := range []struct {
		status         int
		slug           string
		method, target string
		body           string
		headers        []string
	}{
		// Addresses and methods.
		{404, "not-found", "GET", "/", "", nil},
		{404, "not-found", "GET", "/v1", "", nil},
		{404, "not-found", "GET", "/v2/resources/coupon:42/lock", "", nil},
		{404, "not-found", "GET", lock + "/", "", nil},
		{404, "not-found", "POST", lock + "/evict/now", `{}`, nil},
		{404, "not-found", "GET", "/v1/resources/coupon:42", "", nil},
		{404, "not-found", "GET", "/v1/resources/a/b/lock", "", nil},
		{422, "invalid", "GET", "/v1/resources//lock", "", nil},
		{404, "not-found", "GET", records + "/", "", nil},
		{405, "method-not-allowed", "PUT", lock, `{}`, nil},
		{405, "method-not-allowed", "POST", rec, "x", []string{token, tok}},
		{405, "method-not-allowed", "PATCH", rec, "x", []string{token, tok}},
		{405, "method-not-allowed", "GET", commits, "", nil},
		{405, "method-not-allowed", "GET", evict, "", nil},
		{405, "method-not-allowed", "DELETE", fence, "", []string{token, tok}},
		{405, "method-not-allowed", "DELETE", records, "", []string{token, tok}},
		{405, "method-not-allowed", "TRACE", lock, "", nil},
		{405, "method-not-allowed", "BREW", lock, "", nil},

		// Bodies of a lock request.
		{415, "unsupported-media-type", "POST", free, `{}`, []string{"Content-Type", ""}},
		{415, "unsupported-media-type", "POST", free, `{}`, []string{"Content-Type", "text/plain"}},
		{415, "unsupported-media-type", "POST", free, `{}`, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{415, "unsupported-media-type", "POST", free, `{}`, []string{"Content-Type", "application/json; charset=utf-16"}},
		{415, "unsupported-media-type", "POST", free, `{}`, []string{"Content-Type", "application/json;;"}},
		{415, "unsupported-media-type", "POST", free, `{}`, []string{"Content-Encoding", "gzip"}},
		{400, "malformed", "POST", free, "", []string{"Content-Type", "application/json"}},
		{400, "malformed", "POST", free, `{`, nil},
		{400, "malformed", "POST", free, `{"ttl":"1s"`, nil},
		{400, "malformed", "POST", free, `[{}]`, nil},
		{400, "malformed", "POST", free, `null`, nil},
		{400, "malformed", "POST", free, `{}{}`, nil},
		{400, "malformed", "POST", free, `{"ttl":"30s","ttl":"1h"}`, nil},
		{400, "malformed", "POST", free, `{"ttl":"30s","TTL":"1h"}`, nil},
		{400, "malformed", "POST", free, `{"ttl":30}`, nil},
		{400, "malformed", "POST", free, `{"ttl":null}`, nil},
		{400, "malformed", "POST", free, `{"wait":-1}`, nil},
		{400, "malformed", "POST", free, `{"label":{"a":"b"}}`, nil},
		{400, "malformed", "POST", free, `{"floor":"99"}`, nil},
		{400, "malformed", "POST", free, `{"resource":"coupon:42"}`, nil},
		{400, "malformed", "POST", free, `{"number":"99"}`, nil},
		{400, "malformed", "POST", free, "{\"label\":\"\xff\"}", nil},
		{413, "too-large", "POST", free, `{"label":"` + strings.Repeat("x", 5000) + `"}`, nil},
		{413, "too-large", "POST", free, `{}` + strings.Repeat(" ", 1<<20), nil},
		{422, "invalid", "POST", free, `{"ttl":"99ms"}`, nil},
		{422, "invalid", "POST", free, `{"ttl":"0s"}`, nil},
		{422, "invalid", "POST", free, `{"ttl":"-30s"}`, nil},
		{422, "invalid", "POST", free, `{"ttl":"1h0m0.001s"}`, nil},
		{422, "invalid", "POST", free, `{"ttl":"1.0001s"}`, nil},
		{422, "invalid", "POST", free, `{"ttl":"30"}`, nil},
		{422, "invalid", "POST", free, `{"ttl":""}`, nil},
		{422, "invalid", "POST", free, `{"wait":"61s"}`, nil},
		{422, "invalid", "POST", free, `{"wait":"-1ns"}`, nil},
		{422, "invalid", "POST", free, `{"wait":"99999999999h"}`, nil},
		{422, "invalid", "POST", free, `{"label":"a\nSet-Cookie: b"}`, nil},
		{422, "invalid", "POST", free, `{"label":"é"}`, nil},
		{422, "invalid", "POST", free, `{"label":"` + strings.Repeat("x", 201) + `"}`, nil},
		{422, "invalid", "POST", free, `{"grant":"SHORT"}`, nil},
		{422, "invalid", "POST", free, `{"grant":"` + strings.ToLower(canary) + `"}`, nil},
		{422, "invalid", "POST", free, `{"grant":"` + canary + `A"}`, nil},
		{422, "invalid", "POST", free, `{"grant":"AAAAAAAAAAAAAAAAAAAAAAAAA1"}`, nil},
		{422, "invalid", "POST", free, `{"grant":"AAAAAAAAAAAAAAAAAAAAAAAA'-"}`, nil},
		{400, "malformed", "POST", free + "?ttl=1h", `{}`, nil},

		// Idempotency keys.
		{422, "invalid", "PUT", rec, "1", []string{token, tok, wire.HeaderKey, " "}},
		{422, "invalid", "PUT", rec, "1", []string{token, tok, wire.HeaderKey, `""`}},
		{422, "invalid", "PUT", rec, "1", []string{token, tok, wire.HeaderKey, `"a`}},
		{422, "invalid", "PUT", rec, "1", []string{token, tok, wire.HeaderKey, "a b"}},
		{422, "invalid", "DELETE", rec, "", []string{token, tok, wire.HeaderKey, strings.Repeat("x", 201)}},
		{400, "malformed", "PUT", rec, "1", []string{token, tok, wire.HeaderKey, "a", wire.HeaderKey, "a"}},
		{422, "invalid", "POST", commits, commit(put), []string{wire.HeaderKey, "-"}},

		// Tokens.
		{428, "token-required", "PATCH", lock, `{}`, nil},
		{428, "token-required", "DELETE", lock, "", nil},
		{428, "token-required", "PUT", rec, "1", nil},
		{428, "token-required", "DELETE", rec, "", nil},
		{428, "token-required", "POST", commits, `{"tokens":[],"ops":[` + put + `]}`, nil},
		{428, "token-required", "POST", commits, `{"ops":[` + put + `]}`, nil},
		{428, "token-required", "POST", commits, commit(`{"kind":"put","resource":"other","key":"a","value":""}`), nil},
		{428, "token-required", "PUT", rec, "1", []string{token, "1"}},
		{428, "token-required", "PUT", rec, "1", []string{token, "9007199254740991"}},
		{400, "malformed", "PUT", rec, "1", []string{token, tok, token, tok}},
		{422, "invalid", "PUT", rec, "1", []string{token, "x"}},
		{422, "invalid", "PUT", rec, "1", []string{token, canary}},
		{422, "invalid", "PUT", rec, "1", []string{token, "01." + canary}},
		{422, "invalid", "PUT", rec, "1", []string{token, "-1." + canary}},
		{422, "invalid", "PUT", rec, "1", []string{token, "+1." + canary}},
		{422, "invalid", "PUT", rec, "1", []string{token, "0." + canary}},
		{422, "invalid", "PUT", rec, "1", []string{token, "9007199254740992." + canary}},
		{422, "invalid", "PUT", rec, "1", []string{token, "1e0." + canary}},
		{422, "invalid", "PUT", rec, "1", []string{token, "1." + canary + ", 1." + canary}},
		{422, "invalid", "PUT", rec, "1", []string{token, `"` + tok + `"`}},
		{422, "invalid", "PUT", rec, "1", []string{token, "Bearer " + tok}},
		{422, "invalid", "PUT", rec, "1", []string{token, strings.Repeat("9", 10000)}},
		{422, "invalid", "GET", rec, "", []string{token, "1."}},
		{422, "invalid", "GET", fence, "", []string{token, "'; DROP TABLE marks; --"}},
		{422, "invalid", "DELETE", lock, "", []string{token, "1"}},
		{422, "invalid", "PATCH", lock, `{}`, []string{token, "1"}},
		{422, "invalid", "PATCH", lock, `{"ttl":"2h"}`, []string{token, tok}},
		{400, "malformed", "PATCH", lock, `{"tokens":[]}`, []string{token, tok}},
		{412, "stale-token", "PUT", rec, "1", []string{token, "1.AAAAAAAAAAAAAAAAAAAAAAAAAA"}},
		{412, "stale-token", "PUT", rec, "1", []string{token, "2." + canary}},
		{412, "stale-token", "PUT", rec, "1", []string{token, "9007199254740991." + canary}},
		{412, "stale-token", "PUT", "/v1/resources/other/records/a", "1", []string{token, tok}}, // another resource's

		// Renewing several.
		{400, "malformed", "POST", renew, `{"tokens":{}}`, nil},
		{400, "malformed", "POST", renew, `{"tokens":["` + tok + `"]}`, nil},
		{400, "malformed", "POST", renew, `{"tokens":[{"resource":"coupon:42","token":1}]}`, nil},
		{422, "invalid", "POST", renew, `{}`, nil},
		{422, "invalid", "POST", renew, `{"tokens":[]}`, nil},
		{422, "invalid", "POST", renew, `{"tokens":[{}]}`, nil},
		{422, "invalid", "POST", renew, `{"tokens":[{"resource":"a/b","token":"` + tok + `"}]}`, nil},
		{422, "invalid", "POST", renew, `{"tokens":[{"resource":"coupon:42","token":"nonsense"}]}`, nil},
		{422, "invalid", "POST", renew, `{"ttl":"1d","tokens":[{"resource":"coupon:42","token":"` + tok + `"}]}`, nil},
		{422, "invalid", "POST", renew, `{"tokens":[` + many(1001, `{}`) + `]}`, nil},

		// Evicting.
		{422, "invalid", "POST", evict, `{}`, nil},
		{422, "invalid", "POST", evict, `{"number":"0"}`, nil},
		{422, "invalid", "POST", evict, `{"number":"-1"}`, nil},
		{422, "invalid", "POST", evict, `{"number":"2"}`, nil},
		{422, "invalid", "POST", evict, `{"number":"9007199254740992"}`, nil},
		{422, "invalid", "POST", evict, `{"number":"` + tok + `"}`, nil},
		{422, "invalid", "POST", evict, `{"number":"1","reason":"a\u0000b"}`, nil},
		{422, "invalid", "POST", evict, `{"number":"1","reason":"` + strings.Repeat("x", 201) + `"}`, nil},
		{400, "malformed", "POST", evict, `{"number":1}`, nil},
		{400, "malformed", "POST", evict, `{"number":"1","grant":"` + canary + `"}`, nil},
		{400, "malformed", "POST", evict, `{"` + canary + `":"1"}`, nil},

		// Lists.
		{422, "invalid", "GET", "/v1/locks?limit=0", "", nil},
		{422, "invalid", "GET", "/v1/locks?limit=1001", "", nil},
		{422, "invalid", "GET", "/v1/locks?limit=", "", nil},
		{422, "invalid", "GET", "/v1/locks?limit=1e2", "", nil},
		{422, "invalid", "GET", "/v1/locks?limit=010", "", nil},
		{422, "invalid", "GET", "/v1/locks?prefix=a%2Fb", "", nil},
		{422, "invalid", "GET", "/v1/locks?after=%25", "", nil},
		{400, "malformed", "GET", "/v1/locks?limt=10", "", nil},
		{400, "malformed", "GET", "/v1/locks?limit=1&limit=2", "", nil},
		{400, "malformed", "GET", "/v1/locks?limit=1;prefix=a", "", nil},
		{400, "malformed", "GET", "/v1/locks?prefix=%zz", "", nil},
		{422, "invalid", "GET", records + "?prefix=%27", "", nil},
		{422, "invalid", "GET", records + "?limit=-1", "", nil},
		{400, "malformed", "GET", records + "?key=stock", "", nil},
		{400, "malformed", "GET", rec + "?x=1", "", nil},
		{400, "malformed", "GET", lock + "?" + canary + "=1", "", nil},

		// Writing one record.
		{413, "too-large", "PUT", rec, strings.Repeat("x", 1001), []string{token, tok}},
		{413, "too-large", "PUT", rec, strings.Repeat("x", 1<<20), []string{token, tok}},
		{415, "unsupported-media-type", "PUT", rec, "1", []string{token, tok, "Content-Encoding", "gzip"}},
		{412, "version-mismatch", "PUT", rec, "1", []string{token, tok, "If-Match", `"7"`}},
		{412, "version-mismatch", "DELETE", rec, "", []string{token, tok, "If-Match", `"7"`}},
		{412, "version-mismatch", "PUT", rec, "1", []string{token, tok, "If-None-Match", `*`}},
		{422, "invalid", "PUT", rec, "1", []string{token, tok, "If-Match", `*`}},
		{422, "invalid", "PUT", rec, "1", []string{token, tok, "If-Match", `W/"1"`}},
		{422, "invalid", "PUT", rec, "1", []string{token, tok, "If-Match", `1`}},
		{422, "invalid", "PUT", rec, "1", []string{token, tok, "If-Match", `"1`}},
		{422, "invalid", "PUT", rec, "1", []string{token, tok, "If-Match", `"0"`}},
		{422, "invalid", "PUT", rec, "1", []string{token, tok, "If-Match", `""`}},
		{422, "invalid", "PUT", rec, "1", []string{token, tok, "If-Match", `"1", "2"`}},
		{422, "invalid", "PUT", rec, "1", []string{token, tok, "If-None-Match", `"1"`}},
		{422, "invalid", "PUT", rec, "1", []string{token, tok, "If-Match", `"1"`, "If-None-Match", `*`}},
		{400, "malformed", "PUT", rec, "1", []string{token, tok, "If-Match", `"1"`, "If-Match", `"1"`}},
		{400, "malformed", "PUT", rec + "?version=1", "1", []string{token, tok}},

		// Commits.
		{400, "malformed", "POST", commits, `{"tokens":[],"ops":[],"key":"k"}`, nil},
		{400, "malformed", "POST", commits, commit(`{"kind":1,"resource":"coupon:42","key":"stock"}`), nil},
		{400, "malformed", "POST", commits, commit(`{"kind":"add","resource":"coupon:42","key":"stock","delta":-1}`), nil},
		{400, "malformed", "POST", commits, commit(`{"kind":"put","resource":"coupon:42","key":"stock","value":[1,2]}`), nil},
		{400, "malformed", "POST", commits, commit(`{"kind":"put","resource":"coupon:42","key":"a","key":"stock","value":""}`), nil},
		{400, "malformed", "POST", commits, commit(put + `,`), nil},
		{422, "invalid", "POST", commits, commit(``), nil},
		{422, "invalid", "POST", commits, commit(`{}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"rename","resource":"coupon:42","key":"stock"}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"PUT","resource":"coupon:42","key":"stock","value":""}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"put","resource":"coupon:42","key":"stock"}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"put","resource":"coupon:42","key":"stock","value":"not base64"}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"put","resource":"coupon:42","key":"stock","value":"OA=="},` + put), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"put","resource":"coupon:42","key":"stock","value":"","delta":"1"}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"delete","resource":"coupon:42","key":"stock","version":"1"}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"add","resource":"coupon:42","key":"stock"}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"add","resource":"coupon:42","key":"stock","delta":"9007199254740992"}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"add","resource":"coupon:42","key":"stock","delta":"99999999999999999999"}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"add","resource":"coupon:42","key":"stock","delta":"1.5"}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"require","resource":"coupon:42","key":"stock"}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"require","resource":"coupon:42","key":"stock","version":"-1"}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"delete","resource":"coupon:42","key":"../stock"}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"delete","resource":"coupon:42","key":""}`), nil},
		{422, "invalid", "POST", commits, commit(`{"kind":"delete","resource":"coupon%3A42","key":"stock"}`), nil},
		{422, "invalid", "POST", commits, `{"tokens":[` + many(2, `{"resource":"coupon:42","token":"`+tok+`"}`) + `],"ops":[` + put + `]}`, nil},
		{422, "invalid", "POST", commits, `{"tokens":[{"resource":"coupon:42","token":"` + canary + `"}],"ops":[` + put + `]}`, nil},
		{413, "too-large", "POST", commits, commit(many(100, put)), nil},
		{409, "below-minimum", "POST", commits, commit(`{"kind":"put","resource":"coupon:42","key":"a","value":""},{"kind":"add","resource":"coupon:42","key":"stock","delta":"-10","min":"0"}`), nil},
		{409, "not-a-counter", "POST", commits, commit(`{"kind":"add","resource":"coupon:42","key":"text","delta":"1"}`), nil},
		{409, "counter-range", "POST", commits, commit(`{"kind":"add","resource":"coupon:42","key":"max","delta":"1"}`), nil},
		{412, "version-mismatch", "POST", commits, commit(put + `,{"kind":"require","resource":"coupon:42","key":"none","version":"1"}`), nil},

		// Raising on a strict gateway.
		{403, "raise-forbidden", "POST", fence, `{"raise":"2.` + canary + `"}`, nil},
		{403, "raise-forbidden", "POST", fence, `{"raise":"9007199254740991"}`, nil},
		{403, "raise-forbidden", "POST", fence, `nonsense`, nil},
	} {
		before := r.image()
		p, got := r.problem(c.status, c.slug, c.method, c.target, c.body, c.headers...)
		if p.Outcome != "refused" {
			t.Errorf("row %d: got outcome %q, want refused", i, p.Outcome)
		}
		if strings.Contains(got.body, canary) || strings.Contains(got.body, strings.Repeat("x", 100)) {
			t.Errorf("row %d: the reply shows what was sent: %.300s", i, got.body)
		}
		if len(got.body) > 1000 {
			t.Errorf("row %d: the reply has %d bytes", i, len(got.body))
		}
		if c.status == 405 && got.header.Get("Allow") == "" {
			t.Errorf("row %d: no Allow header", i)
		}
		if after := r.image(); !reflect.DeepEqual(before, after) {
			t.Errorf("row %d (%s %s %.80s): something was written: %v, before %v", i, c.method, c.target, c.body, after, before)
		}
	}
	if s := r.log.String(); strings.Contains(s, canary) {
		t.Errorf("the log shows the secret: %s", s)
	}
	if n := len(r.events); n != 0 {
		t.Errorf("got %d events, want none", n)
	}
}
