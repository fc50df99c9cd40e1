package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
)

// TestDrain: who waits is sent away and leaves nothing behind; everything else goes on.
func TestDrain(t *testing.T) {
	t.Parallel()
	feed, err := gateway.NewFeed(0)
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, setup{options: gateway.Options{Feed: feed}})
	const lock = "/v1/resources/a/lock"
	d.want(201, "", d.do("", "POST", lock, `{"ttl":"1h","grant":"`+canary+`"}`))
	const waiters = 20
	var wg sync.WaitGroup
	for range waiters {
		wg.Go(func() {
			got := d.do("", "POST", lock, `{"wait":"60s"}`)
			d.want(503, "draining", got)
			if got.header.Get("Retry-After") != "1" || got.header.Get("Connection") != "close" {
				t.Errorf("got %v", got.header)
			}
		})
	}
	wg.Go(func() {
		d.want(503, "draining", d.do("", "POST", "/v1/commits", `{"lock":{"wait":"60s"},"ops":[`+aPut+`]}`))
	})
	wg.Go(func() { d.want(200, "", d.do("", "GET", "/v1/events", "")) })
	until(t, "they wait", func() bool { return d.Load().Waiting == waiters+1 && d.Load().Streams == 1 })
	if got := d.do("", "GET", "/readyz", ""); got.status != 200 || got.header.Get("Connection") != "" {
		t.Errorf("before: got %d %v", got.status, got.header)
	}
	d.Drain()
	wg.Wait()
	d.Drain()
	if st, err := d.issuer.Status(t.Context(), "a"); err != nil || st.Waiters != 0 || st.Number != 1 {
		t.Errorf("got %+v, %v, want nobody waiting", st, err)
	}

	d.want(503, "draining", d.do("", "POST", lock, `{"wait":"1ms"}`))
	d.want(503, "draining", d.do("", "POST", "/v1/resources/free/lock", `{"wait":"1ms"}`))
	d.want(503, "draining", d.do("", "GET", "/v1/events", ""))
	d.want(503, "", d.do("", "GET", "/readyz", ""))
	for _, c := range []struct {
		status             int
		method, path, body string
	}{
		{200, "GET", "/livez", ""},
		{423, "POST", lock, `{}`},
		{201, "POST", "/v1/resources/b/lock", `{}`},
		{200, "PATCH", lock, `{}`},
		{204, "PUT", "/v1/resources/a/records/k", "x"},
		{200, "POST", "/v1/commits", aCommit},
		{200, "DELETE", lock, ""},
	} {
		got := d.do("", c.method, c.path, c.body, wire.HeaderToken, "1."+canary)
		if got.status != c.status || got.header.Get("Connection") != "close" {
			t.Errorf("%s %s: got %d %v %s, want %d", c.method, c.path, got.status, got.header, got.body, c.status)
		}
	}
	if st, err := d.issuer.Status(t.Context(), "a"); err != nil || st.Held {
		t.Errorf("got %+v, %v, want the lock free", st, err)
	}
}

// TestDrainAtTheMomentOfAGrant: whoever is granted the lock just then has it, or it is free.
func TestDrainAtTheMomentOfAGrant(t *testing.T) {
	t.Parallel()
	kept := 0
	for range 200 {
		d := newDesk(t, setup{})
		d.want(201, "", d.do("", "POST", "/v1/resources/a/lock", `{"ttl":"1h","grant":"`+canary+`"}`))
		var got reply
		var wg sync.WaitGroup
		wg.Go(func() { got = d.do("", "POST", "/v1/resources/a/lock", `{"wait":"60s","ttl":"1h"}`) })
		until(t, "it waits", func() bool { return d.Load().Waiting == 1 })
		wg.Go(func() { d.want(200, "", d.do("", "DELETE", "/v1/resources/a/lock", "", wire.HeaderToken, "1."+canary)) })
		wg.Go(d.Drain)
		wg.Wait()
		held := func() bool {
			st, err := d.issuer.Status(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			return st.Held
		}
		var l wire.LockReply
		switch got.status {
		case http.StatusCreated:
			kept++
			if err := json.Unmarshal([]byte(got.body), &l); err != nil || !held() {
				t.Fatalf("the grant %s was delivered, and the lock is free", got.body)
			}
			d.want(200, "", d.do("", "PATCH", "/v1/resources/a/lock", `{}`, wire.HeaderToken, l.Token))
		default:
			d.want(503, "draining", got)
			// What was handed over too late is given back by a goroutine of its own.
			until(t, "nothing was delivered, and the lock is free", func() bool { return !held() })
		}
	}
	t.Logf("%d of 200 grants were delivered", kept)
}

// TestDrainKeepsUnknown: where nobody knows what became of a wait, the reply says so.
func TestDrainKeepsUnknown(t *testing.T) {
	t.Parallel()
	d := newDesk(t, setup{issuer: func(i locking.Issuer) locking.Issuer {
		return &hookedIssuer{Issuer: i, grant: func(ctx context.Context, _ locking.Request) (locking.Granted, error) {
			<-ctx.Done()
			return locking.Granted{}, fencing.AsUnknown(ctx.Err())
		}}
	}})
	var wg sync.WaitGroup
	wg.Go(func() { d.want(504, "unknown", d.do("", "POST", "/v1/resources/a/lock", `{"wait":"60s"}`)) })
	until(t, "it waits", func() bool { return d.Load().Waiting == 1 })
	d.Drain()
	wg.Wait()
}

// TestSlowServer: a server's time limits do not cut a wait that was asked for.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	r := newRig(t, setup{server: serverLimits(limit)})
	tok := r.lock("coupon:42", `{"ttl":"1h"}`)
	time.AfterFunc(5*limit, func() { _, _ = r.issuer.Release(context.Background(), mustParse(t, tok)) })
	r.want(201, nil, "POST", "/v1/resources/coupon:42/lock", `{"wait":"20s","grant":"`+canary+`"}`)
	time.AfterFunc(5*limit, func() { _, _ = r.issuer.Release(context.Background(), mustParse(t, "2."+canary)) })
	r.want(200, nil, "POST", "/v1/commits", `{"lock":{"wait":"20s"},"ops":[{"kind":"put","resource":"coupon:42","key":"k","value":""}]}`)
}

func serverLimits(d time.Duration) func(*httptest.Server) {
	return func(s *httptest.Server) { s.Config.ReadTimeout, s.Config.WriteTimeout = d, d }
}
