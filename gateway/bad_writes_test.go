package gateway_test

import (
	"strings"

	"github.com/fencegate/fencegate/gateway/wire"
)

// badWrites are writes of records and commits, with a token that is good.
func badWrites(s scene) []bad {
	const key = wire.HeaderKey
	put := func(name string, status int, slug string, header ...string) bad {
		return bad{name, status, slug, "PUT", stock, "1", append([]string{tokenName, s.token}, header...), ""}
	}
	commit := func(name string, status int, slug, ops string, header ...string) bad {
		return bad{name, status, slug, "POST", commits, `{"tokens":[{"resource":"coupon:42","token":"` + s.token + `"}],"ops":[` + ops + `]}`, header, ""}
	}
	raw := func(name string, status int, slug, body string, header ...string) bad {
		return bad{name, status, slug, "POST", commits, body, header, ""}
	}
	// op is an operation on the record stock.
	op := func(members string) string { return `{"resource":"coupon:42","key":"stock",` + members + `}` }
	const ok = `{"kind":"put","resource":"coupon:42","key":"stock","value":"OA=="}`
	many := func(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	return []bad{
		{"a value that is one byte too large", 413, "too-large", "PUT", stock, strings.Repeat("x", 1001), []string{tokenName, s.token}, ""},
		{"a value that is far too large", 413, "too-large", "PUT", stock, strings.Repeat("x", 1<<20), []string{tokenName, s.token}, ""},
		put("a value in gzip", 415, "unsupported-media-type", "Content-Encoding", "gzip"),
		put("a value in two encodings", 415, "unsupported-media-type", "Content-Encoding", "gzip", "Content-Encoding", "br"),

		put("another version", 412, "version-mismatch", "If-Match", `"7"`),
		put("only if there is none", 412, "version-mismatch", "If-None-Match", `*`),
		{"a deletion of another version", 412, "version-mismatch", "DELETE", stock, "", []string{tokenName, s.token, "If-Match", `"7"`}, ""},
		put("any version", 422, "invalid", "If-Match", `*`),
		put("a weak version", 422, "invalid", "If-Match", `W/"1"`),
		put("a version without quotes", 422, "invalid", "If-Match", `1`),
		put("a version with half its quotes", 422, "invalid", "If-Match", `"1`),
		put("version 0", 422, "invalid", "If-Match", `"0"`),
		put("version 01", 422, "invalid", "If-Match", `"01"`),
		put("version 2^53", 422, "invalid", "If-Match", `"9007199254740992"`),
		put("an empty version", 422, "invalid", "If-Match", `""`),
		put("two versions", 422, "invalid", "If-Match", `"1", "2"`),
		put("only if it is not that", 422, "invalid", "If-None-Match", `"1"`),
		put("if and if not", 422, "invalid", "If-Match", `"1"`, "If-None-Match", `*`),
		put("If-Match twice", 400, "malformed", "If-Match", `"1"`, "If-Match", `"1"`),
		put("If-None-Match twice", 400, "malformed", "If-None-Match", `*`, "If-None-Match", `*`),

		put("an empty idempotency key", 422, "invalid", key, " "),
		put("an idempotency key of quotes", 422, "invalid", key, `""`),
		put("an idempotency key with half its quotes", 422, "invalid", key, `"a`),
		put("an idempotency key with a space", 422, "invalid", key, "a b"),
		put("an idempotency key that climbs", 422, "invalid", key, "../a"),
		put("an idempotency key with a line of SQL", 422, "invalid", key, "a'; --"),
		put("two idempotency keys", 400, "malformed", key, "a", key, "b"),
		put("an idempotency key twice", 400, "malformed", key, "a", key, "a"),
		{"an idempotency key that is too long", 422, "invalid", "DELETE", stock, "", []string{tokenName, s.token, key, strings.Repeat("x", 201)}, ""},
		put("an idempotency key of another commit", 422, "idempotency-key-reused", key, "order-7"),
		commit("an idempotency key with another payload", 422, "idempotency-key-reused",
			`{"kind":"put","resource":"coupon:42","key":"done","value":"Mg=="}`, key, "order-7"),
		commit("an idempotency key that begins with a hyphen", 422, "invalid", ok, key, "-"),

		raw("a commit with a member too many", 400, "malformed", `{"tokens":[],"ops":[],"key":"k"}`),
		raw("a commit that is an array", 400, "malformed", `[`+ok+`]`),
		commit("a kind that is a number", 400, "malformed", op(`"kind":1`)),
		commit("a delta that is a number", 400, "malformed", op(`"kind":"add","delta":-1`)),
		commit("a value that is an array", 400, "malformed", op(`"kind":"put","value":[1,2]`)),
		commit("a value that is null", 400, "malformed", op(`"kind":"put","value":null`)),
		commit("an operation with a member twice", 400, "malformed", op(`"kind":"put","key":"other","value":""`)),
		commit("a comma too many", 400, "malformed", ok+`,`),
		commit("a commit that is nested too deeply", 400, "malformed", op(`"kind":"put","value":[[[[[[[[]]]]]]]]`)),
		commit("a commit that is too large", 413, "too-large", many(100, ok)),
		commit("no operations", 422, "invalid", ``),
		commit("an empty operation", 422, "invalid", `{}`),
		commit("an unknown kind", 422, "invalid", op(`"kind":"rename"`)),
		commit("a kind in upper case", 422, "invalid", op(`"kind":"PUT","value":""`)),
		commit("a put without a value", 422, "invalid", op(`"kind":"put"`)),
		commit("a value that is no base64", 422, "invalid", op(`"kind":"put","value":"not base64"`)),
		commit("base64 without padding", 422, "invalid", op(`"kind":"put","value":"YQ"`)),
		commit("base64 with bits left over", 422, "invalid", op(`"kind":"put","value":"YR=="`)),
		commit("base64 of the other alphabet", 422, "invalid", op(`"kind":"put","value":"-_=="`)),
		commit("base64 with a line break", 422, "invalid", op(`"kind":"put","value":"YQ=\n="`)),
		commit("one record twice", 422, "invalid", ok+`,`+ok),
		commit("a put with a delta", 422, "invalid", op(`"kind":"put","value":"","delta":"1"`)),
		commit("a deletion with a version", 422, "invalid", op(`"kind":"delete","version":"1"`)),
		commit("an add of nothing", 422, "invalid", op(`"kind":"add"`)),
		commit("an add of 2^53", 422, "invalid", op(`"kind":"add","delta":"9007199254740992"`)),
		commit("an add of more than 64 bits", 422, "invalid", op(`"kind":"add","delta":"99999999999999999999"`)),
		commit("an add of a fraction", 422, "invalid", op(`"kind":"add","delta":"1.5"`)),
		commit("an add of minus zero", 422, "invalid", op(`"kind":"add","delta":"-0"`)),
		commit("a minimum beyond all bounds", 422, "invalid", op(`"kind":"add","delta":"1","min":"-9007199254740992"`)),
		commit("a require of nothing", 422, "invalid", op(`"kind":"require"`)),
		commit("a version below zero", 422, "invalid", op(`"kind":"require","version":"-1"`)),
		commit("an operation on a key that climbs", 422, "invalid", `{"kind":"delete","resource":"coupon:42","key":"../stock"}`),
		commit("an operation on an empty key", 422, "invalid", `{"kind":"delete","resource":"coupon:42","key":""}`),
		commit("a resource that is escaped", 422, "invalid", `{"kind":"delete","resource":"coupon%3A42","key":"stock"}`),
		commit("NUL in a key", 422, "invalid", `{"kind":"delete","resource":"coupon:42","key":"a\u0000"}`),
		commit("a look-alike in a key", 422, "invalid", `{"kind":"delete","resource":"coupon:42","key":"st\u043eck"}`),
		raw("two tokens for one resource", 422, "invalid", `{"tokens":[`+many(2, `{"resource":"coupon:42","token":"`+s.token+`"}`)+`],"ops":[`+ok+`]}`),
		raw("a commit with a grant id alone", 422, "invalid", `{"tokens":[{"resource":"coupon:42","token":"`+canarySent+`"}],"ops":[`+ok+`]}`),
		raw("a commit with tokens and lock", 422, "invalid", `{"lock":{},"tokens":[{"resource":"coupon:42","token":"`+s.token+`"}],"ops":[`+ok+`]}`),
		raw("a commit with no tokens", 428, "token-required", `{"tokens":[],"ops":[`+ok+`]}`),
		raw("a commit without tokens", 428, "token-required", `{"ops":[`+ok+`]}`),
		commit("a commit on a resource without a token", 428, "token-required", `{"kind":"put","resource":"other","key":"a","value":""}`),
		commit("a commit of which one operation has no token", 428, "token-required", ok+`,{"kind":"put","resource":"other","key":"a","value":""}`),
		raw("a commit with a bare number", 428, "token-required", `{"tokens":[{"resource":"coupon:42","token":"1"}],"ops":[`+ok+`]}`),
		raw("a commit with another resource's token", 412, "stale-token", `{"tokens":[{"resource":"coupon:42","token":"`+s.ended+`"}],"ops":[`+ok+`]}`),
		raw("a commit of which one token is stale", 412, "stale-token", `{"tokens":[{"resource":"coupon:42","token":"`+s.token+`"},{"resource":"ended","token":"`+s.ended+
			`"}],"ops":[`+ok+`,{"kind":"put","resource":"ended","key":"a","value":""}]}`),

		commit("sold out", 409, "below-minimum", `{"kind":"put","resource":"coupon:42","key":"a","value":""},`+op(`"kind":"add","delta":"-10","min":"0"`)),
		commit("an add to a text", 409, "not-a-counter", `{"kind":"add","resource":"coupon:42","key":"text","delta":"1"}`),
		commit("an add that overflows", 409, "counter-range", `{"kind":"add","resource":"coupon:42","key":"max","delta":"1"}`),
		commit("a commit on a version of before", 412, "version-mismatch", ok+`,{"kind":"require","resource":"coupon:42","key":"none","version":"1"}`),

		raw("a lock that is true", 400, "malformed", `{"lock":true,"ops":[`+ok+`]}`),
		raw("a lock with a TTL", 400, "malformed", `{"lock":{"ttl":"1h"},"ops":[`+ok+`]}`),
		raw("a lock with a token", 400, "malformed", `{"lock":{"token":"`+s.token+`"},"ops":[`+ok+`]}`),
		raw("one call that waits too long", 422, "invalid", `{"lock":{"wait":"61s"},"ops":[`+ok+`]}`),
		raw("one call that waits below zero", 422, "invalid", `{"lock":{"wait":"-1s"},"ops":[`+ok+`]}`),
		raw("one call with a line break for a label", 422, "invalid", `{"lock":{"label":"a\nb"},"ops":[`+ok+`]}`),
		raw("one call for nothing", 422, "invalid", `{"lock":{},"ops":[]}`),
		raw("one call with a bad name", 422, "invalid", `{"lock":{},"ops":[{"kind":"delete","resource":"a/b","key":"a"}]}`),
		raw("one call under a lock that is held", 423, "held", `{"lock":{},"ops":[`+ok+`]}`),
		raw("one call with a key of another commit", 422, "idempotency-key-reused", `{"lock":{},"ops":[`+ok+`]}`, key, "order-7"),
	}
}
