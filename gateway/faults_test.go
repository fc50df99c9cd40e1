package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// hookedIssuer is an issuer whose calls go through hooks, where they are set.
type hookedIssuer struct {
	locking.Issuer
	grant   func(context.Context, locking.Request) (locking.Granted, error)
	release func(context.Context, fencing.Token) (bool, error)
	renew   func() []error
}

func (h *hookedIssuer) Grant(ctx context.Context, r locking.Request) (locking.Granted, error) {
	if h.grant != nil {
		return h.grant(ctx, r)
	}
	return h.Issuer.Grant(ctx, r)
}

func (h *hookedIssuer) Release(ctx context.Context, t fencing.Token) (bool, error) {
	if h.release != nil {
		return h.release(ctx, t)
	}
	return h.Issuer.Release(ctx, t)
}

func (h *hookedIssuer) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	if h.renew != nil {
		return h.renew()
	}
	return h.Issuer.Renew(ctx, ttl, held)
}

// hookedStore is a store whose commits go through a hook.
type hookedStore struct {
	gateway.Store
	commit func(context.Context, storage.Commit) (storage.Result, error)
}

func (h *hookedStore) Commit(ctx context.Context, c storage.Commit) (storage.Result, error) {
	return h.commit(ctx, c)
}

// until polls cond.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func (r *rig) status(resource string) locking.Status {
	r.Helper()
	st, err := r.issuer.Status(context.Background(), resource)
	if err != nil {
		r.Fatal(err)
	}
	return st
}

func (r *rig) mark(resource string) fencing.Mark {
	r.Helper()
	m, err := r.store.Mark(context.Background(), resource)
	if err != nil {
		r.Fatal(err)
	}
	return m
}

// goAway sends a lock request and hangs up when hangUp is closed; the channel is closed
// when the client has gone.
func (r *rig) goAway(t *testing.T, hangUp <-chan struct{}, body string) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/resources/coupon:42/lock", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", wire.TypeJSON)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := r.http.Do(req); err == nil {
			t.Errorf("the client got %s, and should have gone", resp.Status)
			_ = resp.Body.Close()
		}
	}()
	go func() {
		<-hangUp
		cancel()
	}()
	return gone
}

func TestHangUpWhileWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	tok := r.lock("coupon:42", `{}`)
	hangUp := make(chan struct{})
	gone := r.goAway(t, hangUp, `{"wait":"60s"}`)
	until(t, "the client waits", func() bool { return r.status("coupon:42").Waiters == 1 })
	close(hangUp)
	<-gone
	until(t, "nobody waits", func() bool { return r.status("coupon:42").Waiters == 0 })
	r.want(200, nil, "DELETE", "/v1/resources/coupon:42/lock", "", wire.HeaderToken, tok)
	if st := r.status("coupon:42"); st.Held || st.Number != 1 {
		t.Errorf("got %+v, want no lock left behind", st)
	}
}

// TestGrantedTooLate: the client goes away when the lock is already granted, and the
// issuer does not notice.
func TestGrantedTooLate(t *testing.T) {
	t.Parallel()
	granted := make(chan struct{})
	r := newRig(t, setup{issuer: func(i locking.Issuer) locking.Issuer {
		return &hookedIssuer{Issuer: i, grant: func(ctx context.Context, r locking.Request) (locking.Granted, error) {
			g, err := i.Grant(ctx, r)
			close(granted)
			<-ctx.Done()
			return g, err
		}}
	}})
	<-r.goAway(t, granted, `{"ttl":"1h","label":"worker 1"}`)
	until(t, "the grant is given back", func() bool { return !r.status("coupon:42").Held })
	if m := r.mark("coupon:42"); m.Number != 1 || !m.Retired {
		t.Errorf("got the mark %v, want it retired", m)
	}
	e := <-r.events
	if e.Kind != fencing.EventLost || e.Resource != "coupon:42" || e.Number != 1 || e.Label != "worker 1" || e.Reason == "" {
		t.Errorf("got the event %+v", e)
	}
}

// TestGiveBackEvicts: where the release fails, the number is evicted.
func TestGiveBackEvicts(t *testing.T) {
	t.Parallel()
	granted := make(chan struct{})
	r := newRig(t, setup{issuer: func(i locking.Issuer) locking.Issuer {
		return &hookedIssuer{
			Issuer: i,
			grant: func(ctx context.Context, r locking.Request) (locking.Granted, error) {
				g, err := i.Grant(ctx, r)
				close(granted)
				<-ctx.Done()
				return g, err
			},
			release: func(context.Context, fencing.Token) (bool, error) { return false, fencing.AsFailed(errors.New("no")) },
		}
	}})
	<-r.goAway(t, granted, `{"ttl":"1h"}`)
	until(t, "the grant is evicted", func() bool { return !r.status("coupon:42").Held })
}

// brokenWriter is a connection that breaks at the reply's body, or at its flush.
type brokenWriter struct {
	http.ResponseWriter
	write, flush error
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.write != nil {
		return 0, w.write
	}
	return w.ResponseWriter.Write(p)
}

func (w *brokenWriter) FlushError() error { return w.flush }

func TestReplyCannotBeWritten(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	for name, w := range map[string]*brokenWriter{"write": {write: broken}, "flush": {flush: broken}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{})
			g, err := gateway.New(gateway.Options{Issuer: r.issuer, Store: r.store})
			if err != nil {
				t.Fatal(err)
			}
			w.ResponseWriter = httptest.NewRecorder()
			req := httptest.NewRequest(http.MethodPost, "/v1/resources/coupon:42/lock", strings.NewReader(`{"ttl":"1h"}`))
			req.Header.Set("Content-Type", wire.TypeJSON)
			g.ServeHTTP(w, req)
			if st := r.status("coupon:42"); st.Held || st.Number != 1 {
				t.Errorf("got %+v, want the grant given back", st)
			}
		})
	}
}

// TestRetryKeepsItsHold: a client's first request broke on the way, its retry with the
// same grant got the hold. Cleaning up after the first must not end it.
func TestRetryKeepsItsHold(t *testing.T) {
	t.Parallel()
	granted, cleanUp, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	r := newRig(t, setup{issuer: func(i locking.Issuer) locking.Issuer {
		return &hookedIssuer{Issuer: i, grant: func(ctx context.Context, r locking.Request) (locking.Granted, error) {
			g, err := i.Grant(ctx, r)
			if calls.Add(1) == 1 {
				close(granted)
				<-ctx.Done()
				<-cleanUp
				time.AfterFunc(50*time.Millisecond, func() { close(over) })
			}
			return g, err
		}}
	}})
	const body = `{"ttl":"1h","grant":"` + canary + `"}`
	<-r.goAway(t, granted, body)
	tok := r.lock("coupon:42", body)
	close(cleanUp)
	<-over
	r.want(200, nil, "PATCH", "/v1/resources/coupon:42/lock", `{"ttl":"1h"}`, wire.HeaderToken, tok)
	if m := r.mark("coupon:42"); m.Retired || len(r.events) != 0 {
		t.Errorf("got the mark %v and %d events, want the hold untouched", m, len(r.events))
	}
}

// TestLastOneCleansUp: both requests of one grant broke; the last one to end gives it back.
func TestLastOneCleansUp(t *testing.T) {
	t.Parallel()
	granted := make(chan struct{}, 2)
	end := make(chan struct{})
	r := newRig(t, setup{issuer: func(i locking.Issuer) locking.Issuer {
		return &hookedIssuer{Issuer: i, grant: func(ctx context.Context, r locking.Request) (locking.Granted, error) {
			g, err := i.Grant(ctx, r)
			granted <- struct{}{}
			<-ctx.Done()
			<-end
			return g, err
		}}
	}})
	const body = `{"ttl":"1h","grant":"` + canary + `"}`
	hangUp := make(chan struct{})
	a, b := r.goAway(t, hangUp, body), r.goAway(t, hangUp, body)
	<-granted
	<-granted
	close(hangUp)
	<-a
	<-b
	if !r.status("coupon:42").Held {
		t.Error("the hold is gone while both requests are still under way")
	}
	close(end)
	until(t, "the grant is given back", func() bool { return !r.status("coupon:42").Held })
	<-r.events
	if n := len(r.events); n != 0 {
		t.Errorf("got %d events more, want one in all", n)
	}
}

// TestTimesOfAGrant: what passes between the grant and the reply is taken off, and a
// grant that comes too late is given back.
func TestTimesOfAGrant(t *testing.T) {
	t.Parallel()
	const delay = 300 * time.Millisecond
	r := newRig(t, setup{issuer: func(i locking.Issuer) locking.Issuer {
		return &hookedIssuer{Issuer: i, grant: func(ctx context.Context, r locking.Request) (locking.Granted, error) {
			g, err := i.Grant(ctx, r)
			time.Sleep(delay)
			return g, err
		}}
	}})
	var l wire.LockReply
	r.want(201, &l, "POST", "/v1/resources/other/lock", `{"ttl":"1s"}`)
	if e := time.Duration(l.ExpiresIn); e > time.Second-delay || e <= 0 {
		t.Errorf("got expires_in %v, want what remains after %v of 1s", e, delay)
	}
	if w := time.Duration(l.Waited); w >= delay {
		t.Errorf("got waited %v, want nothing of what came after the grant", w)
	}
	tok := r.lock("coupon:42", `{"ttl":"10s"}`)
	time.AfterFunc(delay, func() { _, _ = r.issuer.Release(context.Background(), mustParse(t, tok)) })
	sent := time.Now()
	r.want(201, &l, "POST", "/v1/resources/coupon:42/lock", `{"ttl":"10s","wait":"20s"}`)
	took := time.Since(sent)
	if w := time.Duration(l.Waited); w < delay/2 || w > took-delay {
		t.Errorf("got waited %v of %v", w, took)
	}
	if w, e := time.Duration(l.Waited), time.Duration(l.ExpiresIn); w+e > took-delay+10*time.Second {
		t.Errorf("waited %v + expires_in %v is later than the hold's end", w, e)
	}
	p, got := r.problem(503, "failed", "POST", "/v1/resources/late/lock", `{"ttl":"200ms"}`)
	if p.Outcome != "failed" || got.header.Get("Retry-After") == "" {
		t.Errorf("got %+v", got)
	}
	if st := r.status("late"); st.Held {
		t.Errorf("got %+v", st)
	}
}

func mustParse(t *testing.T, text string) fencing.Token {
	t.Helper()
	tok, err := fencing.ParseToken("coupon:42", text)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestWriteTimeout: a server's WriteTimeout does not cut a wait.
func TestWriteTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{server: func(s *httptest.Server) { s.Config.WriteTimeout = 200 * time.Millisecond }})
	r.lock("coupon:42", `{"ttl":"600ms"}`)
	r.lock("coupon:42", `{"wait":"20s"}`)
}

// TestFaultsStayInside: what a driver says is in the log and not in the reply, and a
// secret is in neither.
func TestFaultsStayInside(t *testing.T) {
	t.Parallel()
	const text = "dial tcp 10.1.2.3:5432: password=hunter2"
	for _, c := range []struct {
		name    string
		fault   func(secret string) error // nil: panic
		status  int
		slug    string
		outcome string
	}{
		{"failed", func(s string) error { return fencing.AsFailed(errors.New(text + s)) }, 503, "failed", "failed"},
		{"unknown", func(s string) error { return fencing.AsUnknown(errors.New(text + s)) }, 504, "unknown", "unknown"},
		{"says nothing", func(s string) error { return errors.New(text + s) }, 504, "unknown", "unknown"},
		{"wrapped", func(s string) error { return fmt.Errorf("%s%s: %w", text, s, context.DeadlineExceeded) }, 504, "unknown", "unknown"},
		{"panic", nil, 500, "internal", "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{store: func(s gateway.Store) gateway.Store {
				return &hookedStore{Store: s, commit: func(_ context.Context, com storage.Commit) (storage.Result, error) {
					secret := " token " + com.Tokens[0].Text()
					if c.fault == nil {
						panic(text + secret)
					}
					return storage.Result{}, c.fault(secret)
				}}
			}})
			tok := r.lock("coupon:42", `{"grant":"`+canary+`"}`)
			for _, send := range []func() (wire.Problem, reply){
				func() (wire.Problem, reply) {
					return r.problem(c.status, c.slug, "PUT", "/v1/resources/coupon:42/records/a", "x", wire.HeaderToken, tok)
				},
				func() (wire.Problem, reply) {
					return r.problem(c.status, c.slug, "POST", "/v1/commits", `{"tokens":[{"resource":"coupon:42","token":"`+tok+
						`"}],"ops":[{"kind":"delete","resource":"coupon:42","key":"a"}]}`)
				},
			} {
				p, got := send()
				if p.Outcome != c.outcome || p.Instance == "" || !strings.Contains(r.log.String(), p.Instance) {
					t.Errorf("got %s, log %s", got.body, r.log)
				}
				if strings.Contains(got.body, "hunter2") || strings.Contains(got.body, "10.1.2.3") {
					t.Errorf("the reply shows the inside: %s", got.body)
				}
				if (c.status == 503) != (got.header.Get("Retry-After") != "") {
					t.Errorf("got Retry-After %q with %d", got.header.Get("Retry-After"), c.status)
				}
				if strings.Contains(got.body, canary) {
					t.Errorf("the reply shows the secret: %s", got.body)
				}
			}
			if s := r.log.String(); !strings.Contains(s, "10.1.2.3:5432") || !strings.Contains(s, "coupon:42") || strings.Contains(s, canary) || strings.Contains(s, "hunter2") {
				t.Errorf("the log lacks the error's text, or shows a secret: %s", s)
			}
		})
	}
}

// TestReleaseTellsBothFacts: the lock is free, and a store did not answer.
func TestReleaseTellsBothFacts(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{issuer: func(i locking.Issuer) locking.Issuer {
		return &hookedIssuer{Issuer: i, release: func(ctx context.Context, tok fencing.Token) (bool, error) {
			freed, _ := i.Release(ctx, tok)
			return freed, fencing.AsUnknown(errors.New("the retire was lost"))
		}}
	}})
	tok := r.lock("coupon:42", `{}`)
	for _, want := range []bool{true, false} {
		p, got := r.problem(504, "unknown", "DELETE", "/v1/resources/coupon:42/lock", "", wire.HeaderToken, tok)
		if (p.Released != nil && *p.Released) != want {
			t.Errorf("got %s, want released %v", got.body, want)
		}
	}
}

// TestGrantStaysHidden: the grant id is in the reply to its own request, and in no other.
func TestGrantStaysHidden(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{issuer: func(i locking.Issuer) locking.Issuer {
		var n atomic.Int32
		h := &hookedIssuer{Issuer: i}
		h.renew = func() []error {
			if n.Add(1)%2 == 1 {
				return []error{fmt.Errorf("args [1.%s]", canary)}
			}
			return []error{nil}
		}
		return h
	}})
	const base = "/v1/resources/coupon:42"
	tok := r.lock("coupon:42", `{"grant":"`+canary+`","ttl":"1h"}`)
	h := wire.HeaderToken
	tokens := `[{"resource":"coupon:42","token":"` + tok + `"}]`
	for _, c := range [][]string{
		{"POST", base + "/lock", `{}`},
		{"GET", base + "/lock", ""},
		{"GET", "/v1/locks", ""},
		{"PATCH", base + "/lock", `{}`, h, tok},
		{"PATCH", base + "/lock", `{}`, h, tok},
		{"POST", "/v1/locks/renew", `{"tokens":` + tokens + `}`},
		{"POST", "/v1/locks/renew", `{"tokens":` + tokens + `}`},
		{"GET", base + "/fence", "", h, tok},
		{"PUT", base + "/records/a", "x", h, tok},
		{"GET", base + "/records/a", "", h, tok},
		{"GET", base + "/records", ""},
		{"POST", "/v1/commits", `{"tokens":` + tokens + `,"ops":[{"kind":"delete","resource":"coupon:42","key":"a"}]}`},
		{"GET", base + "/records/a", "", h, tok},
		{"GET", "/v1/resources/%20" + canary + "/lock", ""},
		{"GET", base + "/records/%20" + canary, ""},
		{"GET", "/" + canary, ""},
		{"GET", "/problems/" + canary, ""},
		{"GET", "/v1/locks?prefix=%20" + canary, ""},
		{"DELETE", base + "/lock", "", h, tok},
		{"DELETE", base + "/lock", "", h, tok},
		{"POST", base + "/lock", `{"grant":"` + canary + `"}`},
		{"PUT", base + "/records/a", "x", h, tok},
	} {
		got := r.do(c[0], c[1], c[2], c[3:]...)
		if strings.Contains(got.body, canary) || strings.Contains(fmt.Sprint(got.header), canary) {
			t.Errorf("%s %s shows the grant id: %+v", c[0], c[1], got)
		}
	}
	if s := r.log.String(); s == "" || strings.Contains(s, canary) {
		t.Errorf("the log is empty or shows the grant id: %s", s)
	}
}
