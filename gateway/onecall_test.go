package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

const oneCalls = "/v1/commits"

// add is the body of a one-call commit that adds to counters named n.
func add(delta int, wait string, resources ...string) string {
	m := wire.Commit{Lock: &wire.CommitLock{}}
	if wait != "" {
		d, err := time.ParseDuration(wait)
		if err != nil {
			panic(err)
		}
		m.Lock.Wait = wire.Span(d)
	}
	for _, resource := range resources {
		m.Ops = append(m.Ops, wire.Op{Kind: "add", Resource: resource, Key: "n", Delta: wire.Ptr(int64(delta))})
	}
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// counter is the counter n of a resource; 0 if there is none.
func (r *rig) counter(resource string) (n int64) {
	r.Helper()
	got := r.do("GET", "/v1/resources/"+resource+"/records/n", "")
	if got.status == http.StatusOK {
		if _, err := fmt.Sscan(got.body, &n); err != nil {
			r.Fatal(err)
		}
	}
	return n
}

// wantFree wants a resource's lock to be free, its token retired, and nobody in line.
func (r *rig) wantFree(resource string) {
	r.Helper()
	if st := r.status(resource); st.Held || st.Waiters != 0 {
		r.Errorf("%s: got the lock %+v, want it free, and nobody waiting", resource, st)
	}
	if m := r.mark(resource); !m.Retired {
		r.Errorf("%s: got the mark %v, want it retired", resource, m)
	}
}

// together runs fn n times at once.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}

func TestOneCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	var m wire.CommitReply
	for want := int64(1); want <= 3; want++ {
		got := r.want(200, &m, "POST", oneCalls, add(5, "", "coupon:42"))
		if len(m.Results) != 1 || *m.Results[0].Counter != wire.Int(5*want) || m.Results[0].Version != wire.Int(want) {
			t.Errorf("got %s, want the sum %d, version %d", got.body, 5*want, want)
		}
		if got.header.Get(wire.HeaderMark) != fmt.Sprint(want) || got.header.Get(wire.HeaderReplayed) != "" {
			t.Errorf("got %v, want the number %d", got.header, want)
		}
		r.wantFree("coupon:42") // when it is answered
	}

	got := r.want(200, &m, "POST", oneCalls, add(1, "1s", "other", "coupon:42"))
	if len(m.Results) != 2 || *m.Results[0].Counter != 1 || *m.Results[1].Counter != 16 || got.header.Get(wire.HeaderMark) != "" {
		t.Errorf("got %s %v", got.body, got.header)
	}
	r.wantFree("coupon:42")
	r.wantFree("other")

	// The data's refusals are the client's.
	p, _ := r.problem(409, "below-minimum", "POST", oneCalls,
		`{"lock":{},"ops":[{"kind":"add","resource":"coupon:42","key":"n","delta":"-20","min":"0"}]}`)
	if *p.Have != 16 || *p.Want != 0 || p.Resource != "coupon:42" {
		t.Errorf("got %+v", p)
	}
	r.problem(412, "version-mismatch", "POST", oneCalls,
		`{"lock":{},"ops":[{"kind":"require","resource":"coupon:42","key":"n","version":"9"},{"kind":"delete","resource":"other","key":"n"}]}`)
	r.wantFree("coupon:42")
	r.wantFree("other")
	if r.counter("other") != 1 {
		t.Error("half a commit was applied")
	}
}

// TestOneCallHeld: somebody has the lock, and keeps it.
func TestOneCallHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	tok := r.lock("coupon:42", `{"ttl":"1h","label":"worker 1"}`)
	for _, wait := range []string{"", "150ms"} {
		for _, body := range []string{add(1, wait, "coupon:42"), add(1, wait, "a", "coupon:42")} {
			sent := time.Now()
			p, got := r.problem(423, "held", "POST", oneCalls, body)
			if p.Label != "worker 1" || p.Number == nil || *p.Number != 1 || p.Remaining == nil || p.Resource != "coupon:42" || got.header.Get("Retry-After") == "" {
				t.Errorf("wait %q: got %s, want what is known of the holder", wait, got.body)
			}
			if took := time.Since(sent); wait != "" && took < 150*time.Millisecond {
				t.Errorf("answered after %v, want the wait %s", took, wait)
			}
		}
	}
	r.wantFree("a")
	if st := r.status("coupon:42"); !st.Held || st.Number != 1 || st.Waiters != 0 {
		t.Errorf("got %+v, want the holder undisturbed", st)
	}
	r.want(204, nil, "PUT", "/v1/resources/coupon:42/records/n", "7", wire.HeaderToken, tok)

	// One that waits long, and others that do not: each has its own wait.
	done := make(chan reply)
	go func() { done <- r.do("POST", oneCalls, add(1, "30s", "coupon:42")) }()
	until(t, "it waits", func() bool { return r.status("coupon:42").Waiters == 1 })
	for _, wait := range []string{"", "100ms"} {
		p, _ := r.problem(423, "held", "POST", oneCalls, add(1, wait, "coupon:42"))
		if p.Label != "worker 1" || p.Number == nil || *p.Number != 1 {
			t.Errorf("got %+v", p)
		}
	}
	if n := r.status("coupon:42").Waiters; n != 1 {
		t.Errorf("%d wait, want the one with the long wait", n)
	}
	r.want(200, nil, "DELETE", "/v1/resources/coupon:42/lock", "", wire.HeaderToken, tok)
	if got := <-done; got.status != 200 || r.counter("coupon:42") != 8 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	r.wantFree("coupon:42")
}

// TestOneCallCombined: those that come while one works under the lock share its grant.
func TestOneCallCombined(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bubble) {
		grants := 0
		b.grant = func(_ context.Context, _ locking.Request, rest func() (locking.Granted, error)) (locking.Granted, error) {
			g, err := rest()
			if err == nil {
				grants++ // one at a time: it is one resource
			}
			return g, err
		}
		b.commit = func(_ context.Context, _ storage.Commit, rest func() (storage.Result, error)) (storage.Result, error) {
			time.Sleep(10 * time.Millisecond)
			return rest()
		}
		const n = 300
		var all []<-chan reply
		for i := range n {
			all = append(all, b.start(b.Context(), add(1, []string{"", "1s"}[i%2], "a")))
		}
		for _, got := range all {
			b.wantStatus(<-got, 200, "")
		}
		if got := b.counter("a"); got != n {
			b.Errorf("got the sum %d, want %d", got, n)
		}
		if grants > 3 {
			b.Errorf("got %d grants for %d commits, want 2 turns of up to 256", grants, n)
		}
		b.wantFree("a")
	})
}

// TestOneCallKeys: a key that many send at once, through one-call commits and others, is applied
// once; its answer needs no lock.
func TestOneCallKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	var mu sync.Mutex // guards fresh
	fresh := 0
	together(32, func(i int) {
		body := add(1, "20s", "coupon:42")
		got := r.do("POST", oneCalls, body, wire.HeaderKey, "order-7")
		if got.status != http.StatusOK || !strings.Contains(got.body, `"counter":"1"`) {
			r.Errorf("got %d %s, want one answer", got.status, got.body)
		}
		mu.Lock()
		defer mu.Unlock()
		if got.header.Get(wire.HeaderReplayed) == "" {
			fresh++
		} else if got.header.Get(wire.HeaderMark) != "" {
			r.Errorf("a replay names the mark: %v", got.header)
		}
	})
	if fresh != 1 || r.counter("coupon:42") != 1 {
		t.Errorf("got %d first answers and the sum %d, want 1 and 1", fresh, r.counter("coupon:42"))
	}
	r.problem(409, "below-minimum", "POST", oneCalls,
		`{"lock":{},"ops":[{"kind":"add","resource":"coupon:42","key":"n","delta":"-2","min":"0"}]}`, wire.HeaderKey, "order-8")

	before := r.status("coupon:42").Number
	tok := r.lock("coupon:42", `{"ttl":"1h"}`)
	r.want(204, nil, "PUT", "/v1/resources/coupon:42/records/n", "50", wire.HeaderToken, tok)
	if got := r.want(200, nil, "POST", oneCalls, add(1, "20s", "coupon:42"), wire.HeaderKey, "order-7"); got.header.Get(wire.HeaderReplayed) != "true" {
		t.Errorf("got %v, want the answer on record", got.header)
	}
	r.problem(409, "below-minimum", "POST", oneCalls,
		`{"lock":{},"ops":[{"kind":"add","resource":"coupon:42","key":"n","delta":"-2","min":"0"}]}`, wire.HeaderKey, "order-8")
	r.problem(422, "idempotency-key-reused", "POST", oneCalls, add(2, "20s", "coupon:42"), wire.HeaderKey, "order-7")
	r.problem(423, "held", "POST", oneCalls, add(1, "", "coupon:42"), wire.HeaderKey, "order-9")
	if st := r.status("coupon:42"); st.Number != before+1 {
		t.Errorf("got %+v, want no grant for what is known", st)
	}
	if r.counter("coupon:42") != 50 {
		t.Error("something was written")
	}
}

// TestOneCallBadInput: what is wrong with a request is said before any lock is taken.
func TestOneCallBadInput(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	op := `{"kind":"delete","resource":"coupon:42","key":"n"}`
	many := strings.Repeat(op[:len(op)-2]+`1"},`, 257)
	for _, c := range []struct {
		status     int
		slug, what string
		body       string
	}{
		{422, "invalid", "lock", `{"lock":{},"tokens":[{"resource":"coupon:42","token":"1.` + canary + `"}],"ops":[` + op + `]}`},
		{422, "invalid", "wait", `{"lock":{"wait":"-1s"},"ops":[` + op + `]}`},
		{422, "invalid", "wait", `{"lock":{"wait":"61s"},"ops":[` + op + `]}`},
		{422, "invalid", "label", `{"lock":{"label":"a\u0007"},"ops":[` + op + `]}`},
		{422, "invalid", "label", `{"lock":{"label":"` + strings.Repeat("x", 201) + `"},"ops":[` + op + `]}`},
		{422, "invalid", "commit", `{"lock":{},"ops":[]}`},
		{422, "invalid", "commit", `{"lock":{}}`},
		{422, "invalid", "commit", `{"lock":{},"ops":[` + op + `,` + op + `]}`},
		{422, "invalid", "commit", `{"lock":{},"ops":[` + many + op + `]}`},
		{422, "invalid", "resource", `{"lock":{},"ops":[{"kind":"delete","resource":"a/b","key":"n"}]}`},
		{422, "invalid", "key", `{"lock":{},"ops":[{"kind":"delete","resource":"coupon:42","key":""}]}`},
		{422, "invalid", "operation", `{"lock":{},"ops":[{"kind":"put","resource":"coupon:42","key":"n"}]}`},
		{422, "invalid", "delta", `{"lock":{},"ops":[{"kind":"add","resource":"coupon:42","key":"n","delta":"9007199254740992"}]}`},
		{400, "malformed", "", `{"lock":{"ttl":"1s"},"ops":[` + op + `]}`},
		{400, "malformed", "", `{"lock":{"wait":1},"ops":[` + op + `]}`},
		{400, "malformed", "", `{"lock":null,"ops":[` + op + `]}`},
		{400, "malformed", "", `{"lock":true,"ops":[` + op + `]}`},
	} {
		for _, key := range [][]string{nil, {wire.HeaderKey, "order-7"}} {
			p, got := r.problem(c.status, c.slug, "POST", oneCalls, c.body, key...)
			if p.What != c.what {
				t.Errorf("%.80s: got %s, want it to be about %q", c.body, got.body, c.what)
			}
			if strings.Contains(got.body, canary) {
				t.Errorf("the reply shows a secret: %s", got.body)
			}
		}
	}
	r.problem(422, "invalid", "POST", oneCalls, add(1, "", "coupon:42"), wire.HeaderKey, "-")
	if st := r.status("coupon:42"); st.Number != 0 {
		t.Errorf("got %+v, want no lock taken", st)
	}

	classic := newRig(t, setup{mode: fencing.Classic})
	p, _ := classic.problem(422, "invalid", "POST", oneCalls, add(1, "", "coupon:42"))
	if p.What != "lock" || classic.status("coupon:42").Number != 0 {
		t.Errorf("got %+v of a classic store", p)
	}
}

// TestOneCallOrder: commits of several resources, in any order, never wait for each other in a
// circle, and are whole.
func TestOneCallOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	resources := []string{"a", "b", "c"}
	const n = 60
	together(n, func(i int) {
		x, y := resources[i%3], resources[(i+1+i/3%2)%3]
		for _, body := range []string{add(1, "30s", x, y), add(1, "30s", y)} {
			if got := r.do("POST", oneCalls, body); got.status != http.StatusOK {
				r.Errorf("got %d %s", got.status, got.body)
			}
		}
	})
	total := int64(0)
	for _, name := range resources {
		total += r.counter(name)
		r.wantFree(name)
	}
	if total != 3*n {
		t.Errorf("got the sum %d, want %d", total, 3*n)
	}
}

var _ locking.Issuer = (*countingIssuer)(nil)
