package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// revocable is keys that can be taken away.
type revocable struct {
	ring
	gone atomic.Bool
}

func (r *revocable) Find(text string) (apikey.Key, bool) {
	if r.gone.Load() {
		return apikey.Key{}, false
	}
	return r.ring.Find(text)
}

func twoKeys() ring {
	return ring{"x": {ID: "x", Scopes: apikey.All}, "y": {ID: "y", Scopes: apikey.All}}
}

// TestShares: whatever one caller does, there is a quarter left for the others.
func TestShares(t *testing.T) {
	t.Parallel()
	const kib = 1 << 10
	feed, err := gateway.NewFeed(0)
	if err != nil {
		t.Fatal(err)
	}
	s := &stopped{in: make(chan struct{}, 100), goOn: make(chan struct{})}
	d := newDesk(t, setup{
		options: gateway.Options{Keys: twoKeys(), Feed: feed, MaxInFlight: 4, MaxStreams: 4, MaxBodies: 1 << 20, MaxBody: kib, MaxValue: 512 * kib},
		store:   func(inner gateway.Store) gateway.Store { s.Store = inner; return s },
	})
	d.want(201, "", d.do("x", "POST", "/v1/resources/a/lock", `{"ttl":"1h","grant":"`+canary+`"}`))
	put := func(key string, n int) reply {
		return d.do(key, "PUT", "/v1/resources/a/records/k", strings.Repeat("v", n), wire.HeaderToken, "1."+canary)
	}
	ctx, hangUp := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for n := range 3 {
		wg.Go(func() { d.serve(d, d.request("x", "GET", "/v1/events", "").WithContext(ctx)) })
		until(t, "it streams", func() bool { return d.Load().Streams == n+1 })
	}
	d.shed(d.do("x", "GET", "/v1/events", ""))
	d.want(200, "", d.serve(d, gone(d.request("y", "GET", "/v1/events", ""))))

	for range 2 {
		wg.Go(func() { d.want(204, "", put("x", 384*kib)) })
		<-s.in
	}
	if got := d.BodyBytes(); got != 768*kib {
		t.Errorf("got %d bytes in memory, want three quarters", got)
	}
	d.shed(put("x", 1))
	d.want(200, "", d.do("x", "GET", "/v1/resources/a/lock", ""))
	wg.Go(func() { d.want(204, "", put("y", 256*kib)) })
	<-s.in
	d.shed(put("y", 1)) // of all

	wg.Go(func() {
		d.want(204, "", d.do("x", "DELETE", "/v1/resources/a/records/l", "", wire.HeaderToken, "1."+canary))
	})
	<-s.in
	d.shed(d.do("x", "GET", "/v1/resources/a/lock", "")) // it has 3 of 4, and y the last
	d.shed(d.do("y", "GET", "/v1/resources/a/lock", ""))
	close(s.goOn)
	hangUp()
	wg.Wait()
	if got := d.Load(); got != (gateway.Load{}) || d.BodyBytes() != 0 {
		t.Errorf("got %+v and %d bytes, want an idle gateway", got, d.BodyBytes())
	}
}

// TestShareInFlight: the places of those who are not there stay free for them.
func TestShareInFlight(t *testing.T) {
	t.Parallel()
	s := &stopped{in: make(chan struct{}, 100), goOn: make(chan struct{})}
	d := newDesk(t, setup{
		options: gateway.Options{Keys: twoKeys(), MaxInFlight: 4},
		store:   func(inner gateway.Store) gateway.Store { s.Store = inner; return s },
	})
	d.want(201, "", d.do("x", "POST", "/v1/resources/a/lock", `{"ttl":"1h","grant":"`+canary+`"}`))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			d.want(204, "", d.do("x", "DELETE", "/v1/resources/a/records/k", "", wire.HeaderToken, "1."+canary))
		})
		<-s.in
	}
	d.shed(d.do("x", "GET", "/v1/resources/a/lock", ""))
	d.want(200, "", d.do("y", "GET", "/v1/resources/a/lock", ""))
	d.want(401, "unauthorized", d.do("z", "GET", "/v1/resources/a/lock", "")) // strangers take nothing
	close(s.goOn)
	wg.Wait()
}

// TestWaitingHoldsNoBody: a lock request that waits has been read, however much it was padded.
func TestWaitingHoldsNoBody(t *testing.T) {
	t.Parallel()
	d := newDesk(t, setup{})
	d.want(201, "", d.do("", "POST", "/v1/resources/a/lock", `{"ttl":"1h"}`))
	ctx, hangUp := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	body := `{"wait":"60s"}` + strings.Repeat(" ", 60<<10)
	wg.Go(func() { d.serve(d, d.request("", "POST", "/v1/resources/a/lock", body).WithContext(ctx)) })
	until(t, "it waits", func() bool { return d.Load().Waiting == 1 })
	if got := d.BodyBytes(); got != 0 {
		t.Errorf("got %d bytes in memory, want none", got)
	}
	hangUp()
	wg.Wait()
}

// TestRepeatsWait: the repeats of a request that waits wait for it, and are counted so, whatever
// wait they ask for.
func TestRepeatsWait(t *testing.T) {
	t.Parallel()
	d := newDesk(t, setup{options: gateway.Options{MaxInFlight: 2, MaxWaiting: 4}})
	d.want(201, "", d.do("", "POST", "/v1/resources/a/lock", `{"ttl":"1h"}`))
	ctx, hangUp := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	const mine = `"grant":"` + canary + `"}`
	for n, body := range []string{`{"wait":"60s",` + mine, `{` + mine, `{` + mine, `{` + mine} {
		wg.Go(func() { d.serve(d, d.request("", "POST", "/v1/resources/a/lock", body).WithContext(ctx)) })
		until(t, "it waits", func() bool { return d.Load() == gateway.Load{Waiting: n + 1} })
	}
	d.shed(d.do("", "POST", "/v1/resources/a/lock", `{`+mine))
	d.want(423, "held", d.do("", "POST", "/v1/resources/a/lock", `{}`))
	hangUp()
	wg.Wait()
	d.want(423, "held", d.do("", "POST", "/v1/resources/a/lock", `{}`))
	if got := d.Load(); got != (gateway.Load{}) {
		t.Errorf("got %+v, want an idle gateway", got)
	}
}

// TestKeyTakenWhileWaiting: a key that is taken away, or limited, gets no lock for having come
// before.
func TestKeyTakenWhileWaiting(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*revocable){
		"removed": func(r *revocable) { r.gone.Store(true) },
		"limited": func(r *revocable) { r.ring["x"] = apikey.Key{ID: "x", Scopes: apikey.All, Prefixes: []string{"b"}} },
		"read":    func(r *revocable) { r.ring["x"] = apikey.Key{ID: "x", Scopes: apikey.Read} },
	} {
		keys := &revocable{ring: twoKeys()}
		d := newDesk(t, setup{options: gateway.Options{Keys: keys}})
		d.want(201, "", d.do("y", "POST", "/v1/resources/a/lock", `{"ttl":"1h","grant":"`+canary+`"}`))
		var got reply
		var wg sync.WaitGroup
		wg.Go(func() { got = d.do("x", "POST", "/v1/resources/a/lock", `{"wait":"60s"}`) })
		until(t, "it waits", func() bool {
			st, err := d.issuer.Status(t.Context(), "a")
			return err == nil && st.Waiters == 1
		})
		change(keys)
		if _, err := d.issuer.Release(t.Context(), mustParseToken(t, "a", "1."+canary)); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if want := map[string]int{"removed": 401, "limited": 403, "read": 403}[name]; got.status != want || strings.Contains(got.body, `"token"`) {
			t.Errorf("%s: got %d %s, want %d", name, got.status, got.body, want)
		}
		if st, err := d.issuer.Status(t.Context(), "a"); err != nil || st.Held {
			t.Errorf("%s: got %+v, %v, want the lock free", name, st, err)
		}
		if got := d.Load(); got != (gateway.Load{}) {
			t.Errorf("%s: got %+v, want an idle gateway", name, got)
		}
	}
}

func mustParseToken(t *testing.T, resource, text string) fencing.Token {
	t.Helper()
	tok, err := fencing.ParseToken(resource, text)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// steps is a store that tells of every read of a list.
type steps struct {
	gateway.Store
	onList func(limit int)
}

func (s *steps) List(ctx context.Context, resource, prefix, after string, limit int) ([]storage.Record, error) {
	s.onList(limit)
	return s.Store.List(ctx, resource, prefix, after, limit)
}

// TestListBudget: lists read in steps, and what their values take is counted among the bodies.
func TestListBudget(t *testing.T) {
	t.Parallel()
	const kib = 1 << 10
	var d *desk
	var limits []int
	var bytes []int64
	d = newDesk(t, setup{
		options: gateway.Options{MaxBodies: 1 << 20, MaxBody: kib, MaxValue: kib, MaxReply: 1 << 20},
		store: func(inner gateway.Store) gateway.Store {
			return &steps{inner, func(limit int) { limits, bytes = append(limits, limit), append(bytes, d.BodyBytes()) }}
		},
	})
	granted, err := d.issuer.Grant(t.Context(), locking.Request{Resource: "a", Grant: canary, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string, size int) {
		if _, err := d.store.Put(t.Context(), granted.Token, key, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		put("k"+strconv.Itoa(10+i), 10*kib)
	}
	put("large", 600*kib)
	list := func(query string) (out wire.RecordList) {
		t.Helper()
		got := d.do("", "GET", "/v1/resources/a/records"+query, "")
		if d.want(200, "", got); json.Unmarshal([]byte(got.body), &out) != nil {
			t.Fatalf("got %s", got.body)
		}
		return out
	}
	// Three quarters of 1 MiB, at four bytes for one, are 19 such values.
	if got := list(""); len(got.Records) != 19 || got.Next != "k28" {
		t.Errorf("got %d records and %q, want 19 and k28", len(got.Records), got.Next)
	}
	for i, n := range limits {
		if n > 8 || bytes[i] != int64(i)*8*40*kib {
			t.Errorf("step %d was for %d records, with %d bytes counted", i, n, bytes[i])
		}
	}
	if got := list("?after=k28"); len(got.Records) != 11 || got.Next != "k39" {
		t.Errorf("got %d records and %q, want 11 and k39", len(got.Records), got.Next)
	}
	if got := list("?limit=11"); len(got.Records) != 11 || got.Next != "k20" {
		t.Errorf("got %d records and %q, want 11 and k20", len(got.Records), got.Next)
	}
	if got := list("?after=k39"); len(got.Records) != 1 || got.Next != "" || len(got.Records[0].Value) != 600*kib {
		t.Errorf("got %d records and %q, want the large one", len(got.Records), got.Next)
	}
	limits = nil
	head := d.do("", http.MethodHead, "/v1/resources/a/records", "")
	if d.want(200, "", head); head.body != "" || head.header.Get("Content-Type") != wire.TypeJSON || len(limits) != 1 || limits[0] != 1 {
		t.Errorf("a HEAD: got %v %q, and read %d", head.header, head.body, limits)
	}

	// What somebody else has is not there for it.
	d.TakeBodies("192.0.2.9", 768*kib)
	d.shed(d.do("", "GET", "/v1/resources/a/records", ""))
	d.shed(d.do("", "GET", "/v1/resources/a/records/large", ""))
	d.want(200, "", d.do("", "GET", "/v1/resources/a/records/k10", ""))
	d.TakeBodies("192.0.2.9", -768*kib)
	d.want(200, "", d.do("", "GET", "/v1/resources/a/records/large", ""))
	if got := d.BodyBytes(); got != 0 {
		t.Errorf("got %d bytes in memory, want none", got)
	}
}

// TestVerboseGuesses: guesses at keys that an open route is asked with count like others.
func TestVerboseGuesses(t *testing.T) {
	t.Parallel()
	d := newDesk(t, setup{options: gateway.Options{Keys: twoKeys(), Rate: 0.001}})
	d.want(403, "forbidden", d.do("wrong", "GET", "/readyz?verbose", ""))
	d.want(200, "", d.do("x", "GET", "/readyz?verbose", ""))
	d.want(429, "rate-limited", d.do("wrong", "GET", "/v1/locks", ""))
}
