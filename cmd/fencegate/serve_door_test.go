//go:build unix

package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
)

// addKey adds a key to a file, with all rights or those that are named, and returns its text.
func addKey(t *testing.T, path string, scopes apikey.Scope) string {
	t.Helper()
	_, text, err := apikey.Add(t.Context(), path, apikey.Entry{Key: apikey.Key{Scopes: scopes}})
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + text
}

// TestServeKeys lets in who has a key, for what the key is good for; a key that is added while the
// server runs counts, too.
func TestServeKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	writer := addKey(t, file, apikey.Lock|apikey.Write)
	// Keys let in from anywhere. Nothing is sent there here: the address is this machine's, too.
	r := startReplica(t, "--keys", file, "--listen", "0.0.0.0:0", "--admin-listen", "127.0.0.1:0", "--store", "memory", "--drain-delay", "0s", "--log-format", "text")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	r.url = "http://127.0.0.1:" + port
	lock := r.url + "/v1/resources/coupon:42/lock"
	r.want(401, "POST", lock, `{}`)
	r.want(401, "POST", lock, `{}`, "Authorization", writer+"A")
	token := r.lock("coupon:42", `{}`, "Authorization", writer)
	r.want(403, "GET", r.url+"/v1/resources/coupon:42/records/left", "", "Authorization", writer)
	r.want(204, "PUT", r.url+"/v1/resources/coupon:42/records/left", "10", "Authorization", writer, "Fencing-Token", token)

	admin := addKey(t, file, apikey.Admin)
	testenv.Eventually(t, patience, "the new key to be known", func() bool {
		a, err := r.call("GET", r.adminURL+"/metrics", "", "Authorization", admin)
		return err == nil && a.status == 200
	})
	r.want(404, "GET", r.url+"/metrics", "", "Authorization", admin)
	evict := "/v1/resources/coupon:42/lock/evict"
	r.want(404, "POST", r.url+evict, `{"number": "1", "reason": "test"}`, "Authorization", admin)
	r.want(403, "POST", r.adminURL+evict, `{"number": "1", "reason": "test"}`, "Authorization", writer)
	r.want(204, "POST", r.adminURL+evict, `{"number": "1", "reason": "test"}`, "Authorization", admin)
	r.want(412, "PUT", r.url+"/v1/resources/coupon:42/records/left", "9", "Authorization", writer, "Fencing-Token", token)
	r.want(200, "GET", r.url+"/readyz", "")
	r.want(403, "GET", r.url+"/readyz?verbose", "")
	if a := r.want(403, "GET", r.url+"/readyz?verbose", "", "Authorization", admin); !strings.Contains(a.body, "--admin-listen") {
		t.Errorf("an admin at the wrong address is told %s", a.body)
	}
	r.want(200, "GET", r.adminURL+"/readyz?verbose", "", "Authorization", admin)
	r.stop()
	if log := r.log.String(); strings.Contains(log, "Try it") {
		t.Error("who needs a key is told to try without one")
	}
}

// TestServeInsecure serves everybody, because it was told to.
func TestServeInsecure(t *testing.T) {
	t.Parallel()
	r := startReplica(t, "--insecure", "--listen", "[::]:0", "--store", "memory", "--drain-delay", "0s")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	r.want(201, "POST", "http://127.0.0.1:"+port+"/v1/resources/coupon:42/lock", `{}`)
	r.stop()
}

// TestServeOwnNames lets in whoever is on this machine, but no page of a browser there that came
// under a name of its own.
func TestServeOwnNames(t *testing.T) {
	t.Parallel()
	r := startReplica(t, "--store", "memory", "--admin-listen", "127.0.0.1:0", "--drain-delay", "0s")
	for host, want := range map[string]int{
		"127.0.0.1": 200, "localhost": 200, "LOCALHOST:8080": 200, "[::1]:8080": 200, "[::1]": 200, "127.0.0.2:1": 200,
		"evil.example": 403, "127.0.0.1.evil.example:8080": 403, "10.0.0.1": 403, "localhost.evil.example": 403, "::1.evil.example": 403,
	} {
		for _, url := range []string{r.url + "/v1/locks", r.adminURL + "/metrics"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			resp, err := r.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != want || want == 403 && !strings.Contains(string(body), `"outcome":"refused"`) {
				t.Errorf("Host %s: %d %s, want %d", host, resp.StatusCode, body, want)
			}
		}
	}
	r.stop()
}

// TestServeSlowClients sees connections end whose clients do not get on, and none of those whose
// clients only wait.
func TestServeSlowClients(t *testing.T) {
	t.Parallel()
	r := startReplica(t, "--store", "memory", "--read-timeout", "2s", "--idle-timeout", "1s", "--drain-delay", "0s")
	r.http.Transport = &http.Transport{DisableKeepAlives: true} // else a request may come just when its connection has been idle for long enough
	addr := strings.TrimPrefix(r.url, "http://")
	put := "PUT /v1/resources/a/records/b HTTP/1.1\r\nHost: localhost\r\nFencing-Token: 1." + strings.Repeat("A", 26) + "\r\n"
	for name, part := range map[string]string{
		"says nothing":       "",
		"half a line":        "GET /li",
		"half a header":      put + "Content-Le",
		"half a body":        put + "Content-Length: 100\r\n\r\nabc",
		"half a chunk":       put + "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
		"no further request": "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, part); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(patience))
			reply, err := io.ReadAll(c)
			if err != nil { // a reset is an end as well, but not a deadline
				if ne, ok := err.(net.Error); ok && ne.Timeout() { //nolint:errorlint // ReadAll wraps nothing
					t.Errorf("the connection lives on after %q", reply)
				}
			}
		})
	}
	t.Run("waits for a lock", func(t *testing.T) {
		t.Parallel()
		r := r.in(t)
		r.lock("one", `{"ttl": "3s"}`)
		r.lock("one", `{"ttl": "1m", "wait": "50s"}`)
	})
	t.Run("waits in one call", func(t *testing.T) {
		t.Parallel()
		r := r.in(t)
		r.lock("two", `{"ttl": "3s"}`)
		r.want(200, "POST", r.url+"/v1/commits", `{"lock": {"wait": "50s"}, "ops": [{"kind": "put", "resource": "two", "key": "left", "value": "MTA="}]}`)
	})
	t.Run("watches", func(t *testing.T) {
		t.Parallel()
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
		_ = c.SetReadDeadline(time.Now().Add(patience))
		in := bufio.NewReader(c)
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
		r := r.in(t)
		r.lock("three", `{"ttl": "3s"}`)
		r.lock("three", `{"ttl": "1m", "label": "later", "wait": "50s"}`)
		for line := ""; !strings.Contains(line, "later"); {
			if line, err = in.ReadString('\n'); err != nil {
				t.Fatalf("the stream ended: %v", err)
			}
		}
	})
}

// TestServeConnections accepts no more connections than it may, and the next one when one ends.
func TestServeConnections(t *testing.T) {
	t.Parallel()
	r := startReplica(t, "--store", "memory", "--max-connections", "2", "--drain-delay", "0s")
	addr := strings.TrimPrefix(r.url, "http://")
	ask := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
		return c, bufio.NewReader(c)
	}
	answered := func(in *bufio.Reader) bool {
		line, err := in.ReadString('\n')
		return err == nil && strings.Contains(line, "200")
	}
	first, in1 := ask()
	_, in2 := ask()
	if !answered(in1) || !answered(in2) {
		t.Fatal("two connections are not served")
	}
	third, in3 := ask()
	_ = third.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if answered(in3) {
		t.Error("a third connection is served")
	}
	first.Close()
	_ = third.SetReadDeadline(time.Now().Add(patience))
	if !answered(bufio.NewReader(third)) {
		t.Error("the third connection is not served after the first has ended")
	}
}

// TestServeShowsNoSecrets works with passwords and tokens, through faults, and finds none of them
// in the log, in what is shown, or in errors.
func TestServeShowsNoSecrets(t *testing.T) {
	t.Parallel()
	const password = "CANARY-hush-hush"
	redis := testenv.StartRedis(t, nil)
	pg := strings.Replace(pgtxtest.NewDatabase(t), "@", ":"+password+"@", 1)
	if !strings.Contains(pg, password) {
		t.Fatalf("the URL %s has no user", pg)
	}
	keys := filepath.Join(t.TempDir(), "keys.json")
	key := addKey(t, keys, apikey.All)
	redisURL := strings.Replace(redis.URL(), "redis://", "redis://default:"+password+"@", 1)
	r := startReplica(t, "--lock", "redis", "--redis-url", redisURL, "--store", "postgres", "--postgres-url", pg,
		"--keys", keys, "--log-level", "debug", "--drain-delay", "0s")
	seen := ""
	see := func(a answer, err error) {
		if err != nil {
			t.Error(err)
		}
		seen += a.body + "\n"
		for name, v := range a.header {
			seen += name + ": " + strings.Join(v, ", ") + "\n"
		}
	}
	grant := "CANARY" + strings.Repeat("A", 20)
	const auth = "Authorization"
	lock, record := r.url+"/v1/resources/coupon:42/lock", r.url+"/v1/resources/coupon:42/records/left"
	token := "1." + grant
	if got := r.lock("coupon:42", `{"ttl": "1m", "grant": "`+grant+`"}`, auth, key); got != token {
		t.Fatalf("granted %s, want %s", got, token)
	}
	see(r.call("PUT", record, "10", auth, key, "Fencing-Token", token))
	see(r.call("PUT", record, "10", auth, key, "Fencing-Token", token+"A"))
	see(r.call("PUT", record, "10", auth, key, "Fencing-Token", "2."+grant))
	_, _ = r.call("GET", r.url+"/v1/resources/"+token+"/lock", "", auth, key) // a resource that looks like it: the reply names what was asked for
	see(r.call("GET", r.url+"/v1/"+token+"?token="+token, "", auth, key))
	see(r.call("GET", r.url+"/v1/locks", "", auth, key))
	see(r.call("GET", r.url+"/readyz?verbose", "", auth, key))
	redis.Kill()
	see(r.call("DELETE", lock, "", auth, key, "Fencing-Token", token))
	see(r.call("GET", r.url+"/readyz", "", auth, key))
	testenv.Eventually(t, patience, "/readyz to notice that Redis is gone", func() bool {
		see(r.call("GET", r.url+"/readyz?verbose", "", auth, key))
		return strings.Contains(seen, "[-] lock redis failed")
	})
	see(r.call("GET", r.url+"/metrics", "", auth, key))
	r.stop()
	_, secret, _ := strings.Cut(key, "fg_")
	for what, canary := range map[string]string{"a password": password, "a grant id": grant, "a key": secret} {
		for where, text := range map[string]string{"the log": r.log.String(), "what is shown": seen} {
			if strings.Contains(text, canary) {
				t.Errorf("%s is in %s:\n%s", what, where, text)
			}
		}
	}
}
