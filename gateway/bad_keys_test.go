package gateway_test

import "strings"

// badKeys are API keys that are none, or do not cover what is asked for.
func badKeys(s scene) []bad {
	who := func(auth string, more ...string) []string { return append([]string{"Authorization", auth}, more...) }
	with := func(id string, more ...string) []string { return who("Bearer "+key(id), more...) }
	const shop = "/v1/resources/shop:1"
	get := func(name string, status int, slug string, header []string) bad {
		return bad{name, status, slug, "GET", records + "/text", "", header, ""}
	}
	tokens := func(name string) string { return `[{"resource":"` + name + `","token":"` + s.token + `"}]` }
	const op = `[{"kind":"put","resource":"coupon:42","key":"stock","value":"OA=="}]`
	return []bad{
		get("no key", 401, "unauthorized", who("none")),
		get("another scheme", 401, "unauthorized", who("Basic "+key(keyAll))),
		get("a scheme alone", 401, "unauthorized", who("Bearer")),
		get("an empty key", 401, "unauthorized", who("Bearer ")),
		get("a key without a scheme", 401, "unauthorized", who(key(keyAll))),
		get("a wrong secret", 401, "unauthorized", who("Bearer fg_"+keyAll+"_"+canarySent)),
		get("a secret that is too short", 401, "unauthorized", who("Bearer "+key(keyAll)[:len(key(keyAll))-1])),
		get("a secret with more behind it", 401, "unauthorized", who("Bearer "+key(keyAll)+"A")),
		get("a secret in upper case", 401, "unauthorized", who("Bearer "+strings.ToUpper(key(keyAll)))),
		get("a secret of the highest length", 401, "unauthorized", who("Bearer fg_"+keyAll+"_"+strings.Repeat("x", 10000))),
		get("an unknown id", 401, "unauthorized", who("Bearer fg_zzzzzzzzzz_"+canaryKey)),
		get("an id alone", 401, "unauthorized", who("Bearer fg_"+keyAll)),
		get("a hash for a secret", 401, "unauthorized", who("Bearer fg_"+keyAll+"_"+strings.Repeat("0", 64))),
		get("another prefix", 401, "unauthorized", who("Bearer gf_"+keyAll+"_"+canaryKey)),
		get("two spaces", 401, "unauthorized", who("Bearer  "+key(keyAll))),
		get("a key of SQL", 401, "unauthorized", who("Bearer ' OR 1=1 --")),
		get("a key that has expired", 401, "unauthorized", with(keyExpired)),
		get("a key under another name", 401, "unauthorized", who("none", "X-Api-Key", key(keyAll))),
		get("a key in a cookie", 401, "unauthorized", who("none", "Cookie", "key="+key(keyAll))),
		get("two keys", 400, "malformed", with(keyAll, "Authorization", "Bearer "+key(keyRead))),
		get("a key twice", 400, "malformed", with(keyAll, "Authorization", "Bearer "+key(keyAll))),
		get("a key that has used up its rate", 429, "rate-limited", with(keySlow)),
		{"a lock without a key", 401, "unauthorized", "POST", freePath, `{}`, who("none"), ""},
		{"a commit without a key", 401, "unauthorized", "POST", commits, `{"tokens":` + tokens("coupon:42") + `,"ops":` + op + `}`, who("none"), ""},
		{"bad JSON without a key", 401, "unauthorized", "POST", freePath, `{`, who("none"), ""},
		{"a bad name without a key", 401, "unauthorized", "GET", "/v1/resources/a%2Fb/lock", "", who("none"), ""},
		{"events without a key", 401, "unauthorized", "GET", "/v1/events", "", who("none"), ""},
		{"metrics without a key", 401, "unauthorized", "GET", "/metrics", "", who("none"), ""},
		{"an eviction without a key", 401, "unauthorized", "POST", lockPath + "/evict", `{"number":"1"}`, who("none"), ""},

		{"a write with a key that reads", 403, "forbidden", "PUT", stock, "1", with(keyRead, tokenName, s.token), ""},
		{"a deletion with a key that locks", 403, "forbidden", "DELETE", stock, "", with(keyLock, tokenName, s.token), ""},
		{"a lock with a key that reads", 403, "forbidden", "POST", freePath, `{}`, with(keyRead), ""},
		{"a lock with a key that writes", 403, "forbidden", "POST", freePath, `{}`, with(keyWrite), ""},
		{"a release with a key that writes", 403, "forbidden", "DELETE", lockPath, "", with(keyWrite, tokenName, s.token), ""},
		{"a renewal with a key that reads", 403, "forbidden", "POST", renewPath, `{"tokens":` + tokens("coupon:42") + `}`, with(keyRead), ""},
		get("a read with a key that writes", 403, "forbidden", with(keyWrite)),
		{"a list with a key that locks", 403, "forbidden", "GET", "/v1/locks", "", with(keyLock), ""},
		{"events with a key that locks", 403, "forbidden", "GET", "/v1/events", "", with(keyLock), ""},
		{"an eviction with a key that locks", 403, "forbidden", "POST", lockPath + "/evict", `{"number":"1"}`, with(keyLock), ""},
		{"metrics with a key that reads", 403, "forbidden", "GET", "/metrics", "", with(keyRead), ""},
		{"details with a key that reads", 403, "forbidden", "GET", "/readyz?verbose", "", with(keyRead), ""},
		{"details without a key", 403, "forbidden", "GET", "/readyz?verbose", "", who("none"), ""},
		{"a raise with a key that reads", 403, "forbidden", "POST", fencePath, `{"raise":"99"}`, with(keyRead), ""},
		{"one call with a key that writes", 403, "forbidden", "POST", commits, `{"lock":{},"ops":[{"kind":"put","resource":"other","key":"a","value":""}]}`, with(keyWrite), ""},
		{"one call with a key that locks", 403, "forbidden", "POST", commits, `{"lock":{},"ops":[{"kind":"put","resource":"other","key":"a","value":""}]}`, with(keyLock), ""},

		get("a read of another's resource", 403, "forbidden", with(keyShop)),
		{"the lock of another's resource", 403, "forbidden", "POST", freePath, `{}`, with(keyShop), ""},
		{"the mark of another's resource", 403, "forbidden", "GET", fencePath, "", with(keyShop), ""},
		{"an eviction of another's", 403, "forbidden", "POST", lockPath + "/evict", `{"number":"1"}`, with(keyShop), ""},
		{"a write to another's resource with its token", 403, "forbidden", "PUT", stock, "1", with(keyShop, tokenName, s.token), ""},
		{"a commit on another's resource with its token", 403, "forbidden", "POST", commits, `{"tokens":` + tokens("coupon:42") + `,"ops":` + op + `}`, with(keyShop), ""},
		{"a commit of which one resource is another's", 403, "forbidden", "POST", commits, `{"tokens":[{"resource":"shop:1","token":"1.AAAAAAAAAAAAAAAAAAAAAAAAAA"},{"resource":"coupon:42","token":"` + s.token +
			`"}],"ops":[{"kind":"put","resource":"shop:1","key":"a","value":""}]}`, with(keyShop), ""},
		{"one call on another's resource", 403, "forbidden", "POST", commits, `{"lock":{},"ops":[{"kind":"put","resource":"other","key":"a","value":""}]}`, with(keyShop), ""},
		{"an answer of another's commit", 403, "forbidden", "POST", commits, `{"lock":{},"ops":[{"kind":"put","resource":"coupon:42","key":"done","value":"MQ=="}]}`, with(keyShop, "Idempotency-Key", "order-7"), ""},
		{"renewals of which one is another's", 403, "forbidden", "POST", renewPath, `{"tokens":` + tokens("coupon:42") + `}`, with(keyShop), ""},
		{"a list of everybody's locks", 403, "forbidden", "GET", "/v1/locks", "", with(keyShop), ""},
		{"a list of another's locks", 403, "forbidden", "GET", "/v1/locks?prefix=coupon:", "", with(keyShop), ""},
		{"a prefix that is escaped to cover another's", 422, "invalid", "GET", "/v1/resources/shop:1%2F..%2Fcoupon:42/records", "", with(keyShop), ""},
		{"another's token on one's own resource", 412, "stale-token", "PUT", shop + "/records/a", "1", with(keyShop, tokenName, s.token), ""},
	}
}
