package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/storage"
)

// stopped is a store whose commits stop until they are let go.
type stopped struct {
	gateway.Store
	in   chan struct{} // one for each commit that has arrived
	goOn chan struct{}
}

func (s *stopped) Commit(ctx context.Context, c storage.Commit) (storage.Result, error) {
	s.in <- struct{}{}
	<-s.goOn
	return s.Store.Commit(ctx, c)
}

// stoppedDesk has a lock on a, and a store that stops.
func stoppedDesk(t *testing.T, o gateway.Options) (*desk, *stopped) {
	t.Helper()
	s := &stopped{in: make(chan struct{}, 100), goOn: make(chan struct{})}
	d := newDesk(t, setup{options: o, store: func(inner gateway.Store) gateway.Store { s.Store = inner; return s }})
	d.want(201, "", d.do("", "POST", "/v1/resources/a/lock", `{"ttl":"1h","grant":"`+canary+`"}`))
	return d, s
}

// put writes a record of a with a body of that many bytes; below 0, of one whose length is not
// declared.
func (d *desk) put(n int) reply {
	req := d.request("", "PUT", "/v1/resources/a/records/k", strings.Repeat("x", max(n, -n)), wire.HeaderToken, "1."+canary)
	if n < 0 {
		req.ContentLength = -1
	}
	return d.serve(d, req)
}

// shed wants a reply that the gateway has too much to do.
func (d *desk) shed(got reply) {
	d.Helper()
	d.want(503, "overloaded", got)
	if got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, `"outcome":"failed"`) {
		d.Errorf("got %v %s", got.header, got.body)
	}
}

// TestMaxInFlight: more than may are not worked on; those who run the gateway, and probes, get in.
func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	d, s := stoppedDesk(t, gateway.Options{MaxInFlight: 2})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { d.want(204, "", d.put(1)) })
		<-s.in
	}
	d.shed(d.put(1))
	d.shed(d.do("", "GET", "/v1/resources/a/lock", ""))
	d.shed(d.do("", "POST", "/v1/resources/b/lock", `{"wait":"1s"}`)) // not before it waits does it stand elsewhere
	d.want(200, "", d.do("", "GET", "/livez", ""))
	d.want(422, "invalid", d.do("", "POST", "/v1/resources/b/lock/evict", `{"number":"1"}`))
	close(s.goOn)
	wg.Wait()
	for range 5 {
		d.want(204, "", d.put(1))
		d.want(200, "", d.do("", "GET", "/v1/resources/a/lock", ""))
		d.want(422, "invalid", d.do("", "GET", "/v1/resources/-/lock", ""))
	}
	if strings.Contains(d.log.String(), `"level":"ERROR"`) {
		t.Errorf("what is shed fills the log of errors: %s", d.log)
	}
}

// TestMaxBodies: bodies in memory are bounded, whether they declare their length or not, and the
// budget is whole again afterwards, however a request ends.
func TestMaxBodies(t *testing.T) {
	t.Parallel()
	const kib = 1 << 10
	d, s := stoppedDesk(t, gateway.Options{MaxBodies: 1 << 20, MaxBody: 512 * kib, MaxValue: 1 << 20})
	var wg sync.WaitGroup
	for _, n := range []int{400 * kib, -300 * kib} {
		wg.Go(func() { d.want(204, "", d.put(n)) })
		<-s.in
	}
	if got := d.BodyBytes(); got != 700*kib {
		t.Errorf("got %d bytes in memory, want %d", got, 700*kib)
	}
	d.shed(d.put(325 * kib))
	d.shed(d.put(-325 * kib))
	d.shed(d.do("", "POST", "/v1/commits", `{}`+strings.Repeat(" ", 325*kib)))
	d.shed(d.do("", "POST", "/v1/locks/renew", `{}`+strings.Repeat(" ", 325*kib)))
	for _, path := range []string{"lock", "lock/evict"} { // they have little to say
		d.want(413, "too-large", d.do("", "POST", "/v1/resources/b/"+path, `{}`+strings.Repeat(" ", 64*kib-1)))
	}
	d.want(413, "too-large", d.do("", "PATCH", "/v1/resources/a/lock", `{}`+strings.Repeat(" ", 64*kib-1), wire.HeaderToken, "1."+canary))
	d.want(200, "", d.do("", "PATCH", "/v1/resources/a/lock", `{}`+strings.Repeat(" ", 64*kib-2), wire.HeaderToken, "1."+canary))
	d.want(413, "too-large", d.put(1<<20+1))
	wg.Go(func() { d.want(204, "", d.put(323*kib)) })
	<-s.in
	close(s.goOn)
	wg.Wait()

	d.want(204, "", d.put(1<<20))
	d.want(204, "", d.put(-1<<20))
	d.want(413, "too-large", d.put(-1<<20-1))
	d.want(400, "malformed", d.do("", "POST", "/v1/resources/b/lock", `{`))
	d.want(422, "invalid", d.do("", "POST", "/v1/resources/b/lock/evict", `{}`))
	d.want(415, "unsupported-media-type", d.do("", "PUT", "/v1/resources/a/records/k", "x", "Content-Encoding", "gzip", wire.HeaderToken, "1."+canary))
	cut := d.request("", "PUT", "/v1/resources/a/records/k", "", wire.HeaderToken, "1."+canary)
	cut.Body, cut.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader("abc"), broken{})), 100
	d.want(400, "malformed", d.serve(d, cut))
	bad := newDesk(t, setup{store: untouched.store})
	bad.want(500, "internal", bad.put(100))
	for _, d := range []*desk{d, bad} {
		if got := d.BodyBytes(); got != 0 {
			t.Errorf("got %d bytes in memory, want none", got)
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestMaxWaiting: those that wait for locks have bounds of their own, together and for each key,
// and are not in the way of those that do not wait.
func TestMaxWaiting(t *testing.T) {
	t.Parallel()
	keys := ring{"x": {ID: "x", Scopes: apikey.All}, "y": {ID: "y", Scopes: apikey.All}, "z": {ID: "z", Scopes: apikey.All}}
	d := newDesk(t, setup{options: gateway.Options{Keys: keys, MaxInFlight: 1, MaxWaiting: 3, MaxWaitingPerKey: 2}})
	d.want(201, "", d.do("x", "POST", "/v1/resources/a/lock", `{"ttl":"1h","grant":"`+canary+`"}`))
	ctx, hangUp := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wait := func(key string, n int) {
		wg.Go(func() { d.serve(d, d.request(key, "POST", "/v1/resources/a/lock", `{"wait":"60s"}`).WithContext(ctx)) })
		until(t, "it waits", func() bool { return d.Load().Waiting == n && d.Load().InFlight == 0 })
	}
	wait("x", 1)
	wait("x", 2)
	d.shed(d.do("x", "POST", "/v1/resources/a/lock", `{"wait":"1ms"}`))
	d.shed(d.do("x", "POST", "/v1/resources/free/lock", `{"wait":"1ms"}`))
	wait("y", 3)
	d.shed(d.do("z", "POST", "/v1/resources/a/lock", `{"wait":"1ms"}`))
	d.want(423, "held", d.do("z", "POST", "/v1/resources/a/lock", `{}`))
	d.want(200, "", d.do("z", "PATCH", "/v1/resources/a/lock", `{}`, wire.HeaderToken, "1."+canary))
	hangUp()
	wg.Wait()
	for range 4 {
		d.want(423, "held", d.do("x", "POST", "/v1/resources/a/lock", `{"wait":"1ms"}`))
	}
	if got := d.Load(); got != (gateway.Load{}) {
		t.Errorf("got %+v, want an idle gateway", got)
	}
}

// TestMaxWaitingPerAddress: without keys it is the client's address that counts.
func TestMaxWaitingPerAddress(t *testing.T) {
	t.Parallel()
	d := newDesk(t, setup{options: gateway.Options{MaxWaitingPerKey: 1}})
	d.want(201, "", d.do("", "POST", "/v1/resources/a/lock", `{"ttl":"1h"}`))
	ctx, hangUp := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	from := func(address, wait string) *http.Request {
		req := d.request("", "POST", "/v1/resources/a/lock", `{"wait":"`+wait+`"}`)
		req.RemoteAddr = address
		return req
	}
	wg.Go(func() { d.serve(d, from("[2001:db8::1]:1", "60s").WithContext(ctx)) })
	until(t, "it waits", func() bool { return d.Load().Waiting == 1 })
	d.shed(d.serve(d, from("[2001:db8::2:2]:2", "1ms")))
	d.want(423, "held", d.serve(d, from("[2001:db8:0:1::1]:1", "1ms")))
	d.want(423, "held", d.serve(d, from("192.0.2.1:1", "1ms")))
	hangUp()
	wg.Wait()
}

func TestMaxStreams(t *testing.T) {
	t.Parallel()
	feed, err := gateway.NewFeed(0)
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, setup{options: gateway.Options{Feed: feed, MaxStreams: 2, MaxInFlight: 1}})
	ctx, hangUp := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Go(func() { d.want(200, "", d.serve(d, d.request("", "GET", "/v1/events", "").WithContext(ctx))) })
		until(t, "it streams", func() bool { return d.Load().Streams == n+1 })
	}
	d.shed(d.do("", "GET", "/v1/events", ""))
	d.want(200, "", d.do("", "GET", "/v1/resources/a/lock", ""))
	hangUp()
	wg.Wait()
	for range 3 {
		d.want(200, "", d.serve(d, gone(d.request("", "GET", "/v1/events", ""))))
	}
}

// TestRate: a key may make so many requests a second, in bursts of twice as many, and is told.
func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := ring{"x": {ID: "x", Scopes: apikey.Read}, "y": {ID: "y", Scopes: apikey.Read}, "slow": {ID: "slow", Scopes: apikey.Read, Rate: 0.1}}
		d := newDesk(t, setup{options: gateway.Options{Keys: keys, Rate: 2}})
		ask := func(key string) reply { return d.do(key, "GET", "/v1/resources/a/lock", "") }
		for left := 3; left >= 0; left-- {
			got := ask("x")
			d.want(200, "", got)
			want := fmt.Sprintf(`"requests";r=%d;t=%d`, left, (4-left+1)/2)
			if got.header.Get("RateLimit-Policy") != `"requests";q=4;w=2` || got.header.Get("RateLimit") != want {
				t.Errorf("got %v, want RateLimit %s", got.header, want)
			}
		}
		got := ask("x")
		d.want(429, "rate-limited", got)
		if got.header.Get("Retry-After") != "1" || got.header.Get("RateLimit") != `"requests";r=0;t=2` || !strings.Contains(got.body, `"outcome":"failed"`) {
			t.Errorf("got %v %s", got.header, got.body)
		}
		d.want(429, "rate-limited", d.do("x", "POST", "/v1/resources/a/lock", "nonsense")) // before its scope, and before its body
		d.want(200, "", ask("y"))
		time.Sleep(time.Second)
		d.want(200, "", ask("x"))
		d.want(200, "", ask("x"))
		d.want(429, "rate-limited", ask("x"))
		d.want(200, "", d.do("", "GET", "/livez", ""))

		d.want(200, "", ask("slow"))
		got = ask("slow")
		d.want(429, "rate-limited", got)
		if got.header.Get("Retry-After") != "10" || got.header.Get("RateLimit-Policy") != `"requests";q=1;w=10` {
			t.Errorf("got %v", got.header)
		}
		time.Sleep(9 * time.Second)
		if got = ask("slow"); got.status != 429 || got.header.Get("Retry-After") != "1" {
			t.Errorf("got %d %v", got.status, got.header)
		}
		keys["slow"] = apikey.Key{ID: "slow", Scopes: apikey.Read, Rate: 100} // the file was changed
		ask("slow")
		time.Sleep(time.Second)
		for range 100 {
			d.want(200, "", ask("slow"))
		}
	})
}

// TestRateOfStrangers: wrong keys are limited by address, and not in the way of good ones.
func TestRateOfStrangers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, setup{options: gateway.Options{Keys: ring{"good": {ID: "good", Scopes: apikey.Read}}}})
		from := func(key, address string) reply {
			req := d.request(key, "GET", "/v1/resources/a/lock", "")
			req.RemoteAddr = address
			return d.serve(d, req)
		}
		for i := range 200 {
			d.want(401, "unauthorized", from("guess"+strconv.Itoa(i), "192.0.2.1:"+strconv.Itoa(i)))
		}
		got := from("guess", "192.0.2.1:1")
		d.want(429, "rate-limited", got)
		if got.header.Get("Retry-After") != "1" || got.header.Get("RateLimit-Policy") != `"requests";q=200;w=2` {
			t.Errorf("got %v", got.header)
		}
		d.want(429, "rate-limited", from("", "192.0.2.1:1"))
		d.want(401, "unauthorized", from("guess", "192.0.2.2:1"))
		got = from("good", "192.0.2.1:1")
		d.want(200, "", got)
		if got.header.Get("RateLimit") != "" {
			t.Errorf("a key without a limit: got %v", got.header)
		}
	})
}

// TestRateByAddress: without keys, and of IPv6 the first 64 bits.
func TestRateByAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, setup{options: gateway.Options{Rate: 0.5}})
		for address, want := range map[string][]string{
			"192.0.2.1:1": {"192.0.2.1:2", "[::ffff:192.0.2.1]:3"}, "[2001:db8::1]:1": {"[2001:db8::2:3:4:5]:1"}, "[2001:db8:0:1::1]:1": nil, "192.0.2.2:1": nil,
		} {
			for i, a := range append([]string{address}, want...) {
				req := d.request("", "GET", "/v1/resources/a/lock", "", "X-Forwarded-For", "203.0.113."+strconv.Itoa(i), "X-Real-Ip", "203.0.113.9")
				req.RemoteAddr = a
				if got := d.serve(d, req); (got.status == 200) != (i == 0) {
					t.Errorf("%s after %s: got %d", a, address, got.status)
				}
			}
		}
	})
}

// TestRatesAreBounded: however many come, memory is bounded; those who have used their quota up are
// not forgotten, and who finds no room shares a limit with the others that do not.
func TestRatesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, setup{})
		take := func(who string) (ok bool, limiters int) { return d.Take(who, 1, 2) }
		for i := range gateway.MaxRated {
			take(strconv.Itoa(i))
		}
		passed := 0
		for i := range 100 {
			ok, n := take("new" + strconv.Itoa(i))
			if ok {
				passed++
			}
			if n > gateway.MaxRated+1 {
				t.Fatalf("got %d limiters", n)
			}
		}
		if passed != 2 {
			t.Errorf("got %d of 100 newcomers through, want the burst of one", passed)
		}
		if take("7"); true {
			if ok, _ := take("7"); ok {
				t.Error("one of the known has a fresh quota")
			}
		}
		time.Sleep(time.Second) // all but 7 and the newcomers have their quota again
		if ok, n := take("new"); !ok || n > 10 {
			t.Errorf("got %v and %d limiters, want room made", ok, n)
		}
		if take("7"); true {
			if ok, _ := take("7"); ok {
				t.Error("7 was forgotten")
			}
		}
	})
}

func TestLimitsAreValidated(t *testing.T) {
	t.Parallel()
	d := newDesk(t, setup{})
	for i, o := range []gateway.Options{
		{Rate: -1},
		{Rate: 0.0001},
		{Rate: 1e7},
		{MaxInFlight: -1},
		{MaxInFlight: 1_000_001},
		{MaxWaiting: -1},
		{MaxWaiting: 1_000_001},
		{MaxWaitingPerKey: -1},
		{MaxBodies: -1},
		{MaxBodies: 1},
		{MaxBodies: 65 << 30},
		{MaxBodies: 2 << 20}, // less than MaxBody's default
		{MaxBodies: 2 << 20, MaxBody: 1 << 20, MaxValue: 3 << 20},
		{MaxStreams: -1},
		{MaxStreams: 100_001},
		{Origins: []string{""}},
		{Origins: []string{"*"}},
		{Origins: []string{"null"}},
		{Origins: []string{"example.org"}},
		{Origins: []string{"https://example.org/"}},
		{Origins: []string{"https://example.org:443"}},
		{Origins: []string{"http://example.org:80"}},
		{Origins: []string{"https://example.org:"}},
		{Origins: []string{"https://Example.org"}},
		{Origins: []string{"https://*.example.org"}},
		{Origins: []string{"https://u:p@example.org"}},
		{Origins: []string{"https://example.org?x"}},
		{Origins: []string{"ftp://example.org"}},
		{Origins: []string{"https://example.org", "https://"}},
	} {
		o.Issuer, o.Store = d.issuer, d.store
		if _, err := gateway.New(o); fencing.OutcomeOf(err) != fencing.Refused {
			t.Errorf("%d: got %v, want an *InvalidError", i, err)
		}
	}
	for i, o := range []gateway.Options{
		{Rate: 0.001, MaxInFlight: 1, MaxWaiting: 1, MaxWaitingPerKey: 1_000_000, MaxStreams: 1, MaxBodies: 1 << 20, MaxBody: 1 << 20},
		{MaxBodies: 64 << 30, Origins: []string{"https://example.org", "http://localhost:3000", "https://[2001:db8::1]:8443", "http://127.0.0.1"}},
		{MaxBody: 256 << 20},
	} {
		o.Issuer, o.Store = d.issuer, d.store
		if _, err := gateway.New(o); err != nil {
			t.Errorf("%d: got %v", i, err)
		}
	}
}
