package gateway_test

import (
	"fmt"
	"strings"
)

// badTransport are requests that no HTTP client sends. What net/http refuses itself, before there
// is a request, gets its plain 4xx or 5xx; the rest a problem as everything else.
func badTransport(s scene) []bad {
	// send is a request as it goes over the wire: a request line, headers, a body.
	send := func(line, body string, headers ...string) string {
		text := line + "\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer " + key(keyAll) + "\r\n"
		for _, h := range headers {
			text += h + "\r\n"
		}
		return text + "\r\n" + body
	}
	const (
		lock = "POST " + freePath + " HTTP/1.1"
		put  = "PUT " + stock + " HTTP/1.1"
		read = "GET " + stock + " HTTP/1.1"
		js   = "Content-Type: application/json"
		te   = "Transfer-Encoding: chunked"
	)
	token := tokenName + ": " + s.token
	chunk := func(n int) string { return fmt.Sprintf("%x\r\n%s\r\n", n, strings.Repeat("x", n)) }
	row := func(name string, status int, slug, raw string) bad {
		return bad{name: name, status: status, slug: slug, raw: raw}
	}
	return []bad{
		row("no HTTP", 400, "", "hello\r\n\r\n"),
		row("an unknown version", 505, "", send("GET / HTTP/3.0", "")),
		row("no Host", 400, "", "GET /livez HTTP/1.1\r\n\r\n"),
		row("two Hosts", 400, "", send(read, "", "Host: b")),
		row("a Host that is none", 400, "", "GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n"),
		row("two lengths", 400, "", send(put, "1", token, "Content-Length: 1", "Content-Length: 2")),
		row("a length below zero", 400, "", send(put, "1", token, "Content-Length: -1")),
		row("a length with a plus sign", 400, "", send(put, "1", token, "Content-Length: +1")),
		row("a length in hexadecimal", 400, "", send(put, "1", token, "Content-Length: 0x1")),
		row("a length of more than 64 bits", 400, "", send(put, "1", token, "Content-Length: 99999999999999999999")),
		row("an unknown transfer encoding", 501, "", send(put, "0\r\n\r\n", token, "Transfer-Encoding: xchunked")),
		row("chunked twice", 501, "", send(put, "0\r\n\r\n", token, "Transfer-Encoding: chunked, chunked")),
		row("two transfer encodings", 501, "", send(put, "0\r\n\r\n", token, te, "Transfer-Encoding: identity")),
		row("a space before a colon", 400, "", send(put, "1", tokenName+" : "+s.token, "Content-Length: 1")),
		row("a header that goes on", 400, "", send(read, "", "X-A: b\r\n c", "X-B")),
		row("NUL in a header", 400, "", send(read, "", "X-Request-Id: a\x00b")),
		row("a header without a name", 400, "", send(read, "", ": a")),
		row("headers that are too large", 431, "", send(read, "", "X-A: "+strings.Repeat("x", 80<<10))),
		row("a space in the address", 400, "", send("GET /v1/resources/a b/lock HTTP/1.1", "")),
		row("a broken escape in the address", 400, "", send("GET /v1/resources/%zz/lock HTTP/1.1", "")),
		row("half an escape in the address", 400, "", send("GET /v1/resources/%4/lock HTTP/1.1", "")),
		row("NUL in the address", 400, "", send("GET /v1/resources/a\x00/lock HTTP/1.1", "")),
		row("an expectation that nobody knows", 417, "", send(put, "1", token, "Content-Length: 1", "Expect: 200-maybe")),

		row("raw UTF-8 in the address", 422, "invalid", send("GET /v1/resources/\u00e9/lock HTTP/1.1", "")),
		row("an address of another host", 404, "not-found", send("GET http://example.org/v1/resources/coupon:42 HTTP/1.1", "")),
		row("a write by a whole URL without a token", 428, "token-required", send("PUT http://example.org"+stock+" HTTP/1.1", "1", "Content-Length: 1")),
		row("a tunnel", 404, "not-found", send("CONNECT example.org:443 HTTP/1.1", "")),
		row("two slashes at the front", 404, "not-found", send("GET //v1/locks HTTP/1.1", "")),
		row("a path that climbs", 404, "not-found", send("GET /v1/resources/../../livez HTTP/1.1", "")),
		row("HTTP/1.0", 404, "not-found", send("GET /v1 HTTP/1.0", "")),
		row("HTTP/1.0 without a token", 428, "token-required", send("PUT "+stock+" HTTP/1.0", "1", "Content-Length: 1")),
		row("a length and chunks", 400, "malformed", send(lock, "1\r\n{\r\n0\r\n\r\n", js, "Content-Length: 2", te)),
		row("a request that is smuggled behind chunks", 400, "malformed", send(lock, "0\r\n\r\n"+send(put, "7", token, "Content-Length: 1"), js, te)),
		row("chunks that become too large", 413, "too-large", send(put, strings.Repeat(chunk(100), 20)+"0\r\n\r\n", token, te)),
		row("a chunk that is too large", 413, "too-large", send(put, chunk(5000)+"0\r\n\r\n", token, te)),
		row("a chunk of no length", 400, "malformed", send(put, "zz\r\n1\r\n0\r\n\r\n", token, te)),
		row("a chunk of more than 64 bits", 400, "malformed", send(put, "fffffffffffffffff\r\n1\r\n0\r\n\r\n", token, te)),
		row("a chunk below zero", 400, "malformed", send(put, "-1\r\n1\r\n0\r\n\r\n", token, te)),
		row("a token after the body", 428, "token-required", send(put, "1\r\n1\r\n0\r\n"+token+"\r\n\r\n", te, "Trailer: "+tokenName)),
		row("a body that is declared too large", 413, "too-large", send(put, "1", token, "Content-Length: 9999999999")),
		row("a body that does not come", 400, "malformed", send(put, "", token, "Content-Length: 10")),
		row("a body that stops half way", 400, "malformed", send(lock, `{"ttl":`, js, "Content-Length: 20")),
		row("a secret as a request id", 404, "not-found", send("GET /v1 HTTP/1.1", "", "X-Request-Id: "+canarySent)),
		row("two request ids", 404, "not-found", send("GET /v1 HTTP/1.1", "", "X-Request-Id: "+canarySent, "X-Request-Id: b")),
		row("headers of proxies", 401, "unauthorized", strings.Replace(send(read, "", "X-Forwarded-For: 127.0.0.1", "X-Real-Ip: 127.0.0.1", "Forwarded: for=127.0.0.1"), "Authorization: Bearer "+key(keyAll)+"\r\n", "", 1)),
	}
}
