package gateway_test

import "strings"

// badTokens are requests without a token, with one that is none, and with one that is not current.
func badTokens(s scene) []bad {
	put := func(name string, status int, slug, token string) bad {
		return bad{name, status, slug, "PUT", stock, "1", []string{tokenName, token}, ""}
	}
	return []bad{
		{"a renewal without a token", 428, "token-required", "PATCH", lockPath, `{}`, nil, ""},
		{"a release without a token", 428, "token-required", "DELETE", lockPath, "", nil, ""},
		{"a write without a token", 428, "token-required", "PUT", stock, "1", nil, ""},
		{"a deletion without a token", 428, "token-required", "DELETE", stock, "", nil, ""},
		{"a token under another name", 428, "token-required", "PUT", stock, "1", []string{"X-Fencing-Token", s.token}, ""},
		{"a token as authorization", 401, "unauthorized", "PUT", stock, "1", []string{"Authorization", "Bearer " + s.token}, ""},
		{"a token in a cookie", 428, "token-required", "PUT", stock, "1", []string{"Cookie", tokenName + "=" + s.token}, ""},
		put("the number alone", 428, "token-required", "1"),
		put("the highest number alone", 428, "token-required", "9007199254740991"),
		{"a read with the number alone", 428, "token-required", "GET", stock, "", []string{tokenName, "1"}, ""},

		{"two tokens", 400, "malformed", "PUT", stock, "1", []string{tokenName, s.token, tokenName, s.token}, ""},
		{"two tokens, the second of them good", 400, "malformed", "GET", stock, "", []string{tokenName, s.ended, tokenName, s.token}, ""},
		put("a word", 422, "invalid", "x"),
		put("a grant id alone", 422, "invalid", canarySent),
		put("a leading zero", 422, "invalid", "01."+canaryGrant),
		put("a minus sign", 422, "invalid", "-1."+canaryGrant),
		put("a plus sign", 422, "invalid", "+1."+canaryGrant),
		put("number 0", 422, "invalid", "0."+canaryGrant),
		put("number 2^53", 422, "invalid", "9007199254740992."+canaryGrant),
		put("number 2^63", 422, "invalid", "9223372036854775808."+canaryGrant),
		put("number 2^64 and one", 422, "invalid", "18446744073709551617."+canaryGrant),
		put("floating point", 422, "invalid", "1e0."+canaryGrant),
		put("hexadecimal", 422, "invalid", "0x1."+canaryGrant),
		put("underscores", 422, "invalid", "1_0."+canaryGrant),
		put("digits from elsewhere", 422, "invalid", "\u0661."+canaryGrant),
		put("two tokens in one", 422, "invalid", s.token+", "+s.token),
		put("a token in quotes", 422, "invalid", `"`+s.token+`"`),
		put("a token of a scheme", 422, "invalid", "Bearer "+s.token),
		put("a token with more behind it", 422, "invalid", s.token+".1"),
		put("a token with a character too many", 422, "invalid", s.token+"A"),
		put("a token with a character too few", 422, "invalid", s.token[:len(s.token)-1]),
		put("a token in lower case", 422, "invalid", strings.ToLower(s.token)),
		put("a look-alike in a grant id", 422, "invalid", "1.\u0410"+canaryGrant[1:]),
		put("a token with its resource", 422, "invalid", "coupon:42#"+s.token),
		put("ten thousand digits", 422, "invalid", strings.Repeat("9", 10000)),
		put("a token of SQL", 422, "invalid", "1' OR '1'='1"),
		{"a number and a dot", 422, "invalid", "GET", stock, "", []string{tokenName, "1."}, ""},
		{"an empty token", 422, "invalid", "GET", stock, "", []string{tokenName, " "}, ""},
		{"a mark asked with SQL", 422, "invalid", "GET", fencePath, "", []string{tokenName, "'; DROP TABLE marks; --"}, ""},
		{"a release of a number", 422, "invalid", "DELETE", lockPath, "", []string{tokenName, "1"}, ""},
		{"a renewal of a bare number", 422, "invalid", "PATCH", lockPath, `{}`, []string{tokenName, "1"}, ""},
		{"a renewal for too long", 422, "invalid", "PATCH", lockPath, `{"ttl":"2h"}`, []string{tokenName, s.token}, ""},
		{"a renewal with other members", 400, "malformed", "PATCH", lockPath, `{"tokens":[]}`, []string{tokenName, s.token}, ""},
		{"a renewal with a body that is no JSON", 400, "malformed", "PATCH", lockPath, `ttl=1h`, []string{tokenName, s.token}, ""},
		{"a renewal of another type", 415, "unsupported-media-type", "PATCH", lockPath, `{}`, []string{tokenName, s.token, "Content-Type", "application/merge-patch+json"}, ""},

		put("a guessed grant id", 412, "stale-token", "1.AAAAAAAAAAAAAAAAAAAAAAAAAA"),
		put("the next number with the grant id of now", 412, "stale-token", "2."+canaryGrant),
		put("the highest number with the grant id of now", 412, "stale-token", "9007199254740991."+canaryGrant),
		put("another resource's token", 412, "stale-token", s.ended),
		{"a token replayed on another resource", 412, "stale-token", "PUT", "/v1/resources/other/records/a", "1", []string{tokenName, s.token}, ""},
		{"a token replayed after its release", 412, "stale-token", "PUT", "/v1/resources/ended/records/a", "1", []string{tokenName, s.ended}, ""},
		{"a deletion after the release", 412, "stale-token", "DELETE", "/v1/resources/ended/records/a", "", []string{tokenName, s.ended}, ""},
		{"a fenced read after the release", 412, "stale-token", "GET", "/v1/resources/ended/records/a", "", []string{tokenName, s.ended}, ""},
		{"a fenced read with a guessed grant id", 412, "stale-token", "GET", records + "/text", "", []string{tokenName, "1.AAAAAAAAAAAAAAAAAAAAAAAAAA"}, ""},
		{"a renewal after the release", 412, "lease-lost", "PATCH", "/v1/resources/ended/lock", `{}`, []string{tokenName, s.ended}, ""},
		{"a renewal with a guessed grant id", 412, "lease-lost", "PATCH", lockPath, `{}`, []string{tokenName, "1.AAAAAAAAAAAAAAAAAAAAAAAAAA"}, ""},
		{"a renewal with another resource's token", 412, "lease-lost", "PATCH", "/v1/resources/other/lock", `{}`, []string{tokenName, s.token}, ""},
		{"a fenced read of nothing", 404, "record-not-found", "GET", records + "/none", "", []string{tokenName, s.token}, ""},
		{"a plain read of nothing", 404, "record-not-found", "GET", "/v1/resources/other/records/none", "", nil, ""},

		{"a raise of a strict store", 403, "raise-forbidden", "POST", fencePath, `{"raise":"2.` + canarySent + `"}`, nil, ""},
		{"a raise to the highest number", 403, "raise-forbidden", "POST", fencePath, `{"raise":"9007199254740991"}`, nil, ""},
		{"a raise of nonsense", 403, "raise-forbidden", "POST", fencePath, `nonsense`, nil, ""},
	}
}
