package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// slow returns a handler in front of another that holds requests up for as long as it is shut.
type slow struct {
	shut atomic.Bool
	next http.Handler
}

func (s *slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.shut.Load() {
		_, _ = io.Copy(io.Discard, r.Body) // else nobody sees that the client hangs up
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	s.next.ServeHTTP(w, r)
}

func commit(tok fencing.Token, key string) storage.Commit {
	return storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add(tok.Resource, "n", 1, 0)}, Key: key}
}

// TestFailover: nobody is at the first URL. Every call gets to the second, also those that are
// carried out at most once, and not every one of them tries the first.
func TestFailover(t *testing.T) {
	t.Parallel()
	f := replicas(t, 1, fencing.Strict, nil)
	nobody := dead(t)
	var dials atomic.Int32
	tr := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if "http://"+addr == nobody {
			dials.Add(1)
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	c := f.client(t, client.Options{HTTPClient: &http.Client{Transport: tr}}, nobody, f.urls[0])
	start := time.Now()
	for i := range 20 {
		g := grant(t, c.Issuer(), request("coupon:42"))
		if _, err := c.Store().Put(t.Context(), g.Token, "a", []byte("x")); err != nil {
			t.Errorf("Put: %v", err)
		}
		if _, err := c.Store().Commit(t.Context(), commit(g.Token, "")); err != nil {
			t.Errorf("Commit: %v", err)
		}
		if rec, err := c.Store().GetFenced(t.Context(), g.Token, "n"); err != nil || string(rec.Value) != fmt.Sprint(i+1) {
			t.Errorf("got %q, %v, want %d", rec.Value, err, i+1)
		}
		if err := c.Issuer().Renew(t.Context(), time.Minute, []fencing.Token{g.Token})[0]; err != nil {
			t.Errorf("Renew: %v", err)
		}
		if freed, err := c.Issuer().Release(t.Context(), g.Token); !freed || err != nil {
			t.Errorf("Release: %t, %v", freed, err)
		}
	}
	if most := 1 + int32(time.Since(start)/(5*time.Second)); dials.Load() < 1 || dials.Load() > most {
		t.Errorf("the dead one was tried %d times in %v, want 1 to %d", dials.Load(), time.Since(start), most)
	}
}

// TestUnknownIsNotMoved: a replica dies between a request and its reply. What is carried out at
// most once is not sent to another; a commit with a key is, and is applied once.
func TestUnknownIsNotMoved(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		path  string
		exact bool
		call  func(context.Context, *client.Client, fencing.Token) error
		n     string // the counter after it; empty for none
	}{
		{"commit", "/v1/commits", false, func(ctx context.Context, c *client.Client, tok fencing.Token) error {
			_, err := c.Store().Commit(ctx, commit(tok, ""))
			return err
		}, "1"},
		{"put", "/records/n", false, func(ctx context.Context, c *client.Client, tok fencing.Token) error {
			_, err := c.Store().Put(ctx, tok, "n", []byte("1"))
			return err
		}, "1"},
		{"evict", "/evict", false, func(ctx context.Context, c *client.Client, tok fencing.Token) error {
			return c.Issuer().Evict(ctx, tok.Resource, tok.Number, "a test")
		}, ""},
		{"commit with a key", "/v1/commits", true, func(ctx context.Context, c *client.Client, tok fencing.Token) error {
			_, err := c.Store().Commit(ctx, commit(tok, "order-7"))
			return err
		}, "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var sent [2]atomic.Int32
			f := replicas(t, 2, fencing.Strict, func(i int, h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !strings.HasSuffix(r.URL.Path, tc.path) {
						h.ServeHTTP(w, r)
						return
					}
					sent[i].Add(1)
					if i > 0 {
						h.ServeHTTP(w, r)
						return
					}
					h.ServeHTTP(httptest.NewRecorder(), r)
					panic(http.ErrAbortHandler)
				})
			})
			c := f.client(t, client.Options{}, f.urls...)
			tok := grant(t, c.Issuer(), request("coupon:42")).Token
			err := tc.call(t.Context(), c, tok)
			want, others := fencing.Unknown, int32(0)
			if tc.exact {
				want, others = fencing.Applied, 1
			}
			// net/http itself repeats what has an idempotency key; it reached the replica once or more.
			if got := fencing.OutcomeOf(err); got != want || sent[0].Load() < 1 || sent[1].Load() != others {
				t.Errorf("got %v, sent %d and %d times, want %v and %d times to the other", err, sent[0].Load(), sent[1].Load(), want, others)
			}
			if rec, err := f.store.Get(t.Context(), "coupon:42", "n"); tc.n != "" && (err != nil || string(rec.Value) != tc.n) {
				t.Errorf("got %q, %v, want it applied once", rec.Value, err)
			}
		})
	}
}

// TestStrangersUnavailable: a proxy says that its gateway is not there. It may have been there
// for long enough.
func TestStrangersUnavailable(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		f := replicas(t, 2, fencing.Strict, func(i int, h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if i == 0 {
					w.WriteHeader(status)
					return
				}
				h.ServeHTTP(w, r)
			})
		})
		tok := grant(t, f.issuer, request("coupon:42")).Token
		if _, err := f.client(t, client.Options{}, f.urls...).Store().Commit(t.Context(), commit(tok, "")); fencing.OutcomeOf(err) != fencing.Unknown {
			t.Errorf("%d: got %v for a commit without a key, want unknown", status, err)
		}
		c := f.client(t, client.Options{}, f.urls...)
		if _, err := c.Store().Commit(t.Context(), commit(tok, "order-7")); err != nil {
			t.Errorf("%d: got %v for a commit with a key", status, err)
		}
		// From now on the other one is asked first.
		if _, err := c.Store().Commit(t.Context(), commit(tok, "")); err != nil {
			t.Errorf("%d: got %v", status, err)
		}
	}
}

// TestDrainingMovesWaiters: a replica is about to stop. Who waits there waits on at the other,
// with the same grant id, and writes go there too.
func TestDrainingMovesWaiters(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	grants := make([][]string, 2)
	f := replicas(t, 2, fencing.Strict, func(i int, h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isLock(r) {
				data, _ := io.ReadAll(r.Body)
				var m wire.LockRequest
				_ = json.Unmarshal(data, &m)
				mu.Lock()
				grants[i] = append(grants[i], m.Grant)
				mu.Unlock()
				r.Body = io.NopCloser(strings.NewReader(string(data)))
			}
			h.ServeHTTP(w, r)
		})
	})
	waiting := func(i int) bool { mu.Lock(); defer mu.Unlock(); return len(grants[i]) > 0 }
	c := f.client(t, client.Options{}, f.urls...)
	first := grant(t, f.issuer, request("coupon:42"))
	done := make(chan locking.Granted, 1)
	go func() {
		r := request("coupon:42")
		r.Wait, r.Grant = -1, canary
		g, err := c.Issuer().Grant(t.Context(), r)
		if err != nil {
			t.Errorf("Grant: %v", err)
		}
		done <- g
	}()
	until(t, func() bool { return waiting(0) })
	f.gateways[0].Drain()
	until(t, func() bool { return waiting(1) })
	if _, err := f.issuer.Release(t.Context(), first.Token); err != nil {
		t.Fatal(err)
	}
	g := <-done
	mu.Lock()
	if g.Token.Grant != canary || grants[0][0] != canary || grants[1][0] != canary {
		t.Error("the grant id has changed on the way")
	}
	mu.Unlock()
	if _, err := c.Store().Put(t.Context(), g.Token, "a", []byte("x")); err != nil {
		t.Errorf("Put: %v", err)
	}
}

// until polls for a condition.
func until(t *testing.T, condition func() bool) {
	t.Helper()
	testenv.Eventually(t, 2*time.Minute, "the condition to come true", condition)
}

// TestLeaseSurvivesAHungReplica: the replica that granted the lock answers no more. The lease is
// renewed at the other and can be written under.
func TestLeaseSurvivesAHungReplica(t *testing.T) {
	t.Parallel()
	hung := &slow{}
	f := replicas(t, 2, fencing.Strict, func(i int, h http.Handler) http.Handler {
		if i == 0 {
			hung.next = h
			return hung
		}
		return h
	})
	c := f.client(t, client.Options{}, f.urls...)
	const ttl = 9 * time.Second
	l, err := locking.New(c.Issuer(), &locking.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := l.Acquire(t.Context(), "coupon:42")
	if err != nil {
		t.Fatal(err)
	}
	hung.shut.Store(true)
	before := lease.Deadline()
	until(t, func() bool { return lease.Deadline().After(before.Add(ttl/2)) || lease.Context().Err() != nil })
	if err := lease.Context().Err(); err != nil {
		t.Fatalf("the lease was lost: %v", context.Cause(lease.Context()))
	}
	if _, err := c.Store().Put(t.Context(), lease.Token(), "a", []byte("x")); err != nil {
		t.Errorf("Put: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
}

// fakes is a network of hosts in memory, for a clock that is not real.
type fakes map[string]host

type host func(*http.Request) reply

// reply is what a host answers.
type reply struct {
	err    error // in place of all else
	status int
	header map[string]string
	body   io.Reader
	closes bool // the connection
}

func (f fakes) RoundTrip(r *http.Request) (*http.Response, error) {
	a := f[r.URL.Host](r)
	if a.err != nil {
		return nil, a.err
	}
	resp := &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(a.body), Request: r, Close: a.closes}
	for name, value := range a.header {
		resp.Header.Set(name, value)
	}
	return resp, nil
}

func refused(*http.Request) reply {
	return reply{err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
}

// says returns a host that answers every request in the same way.
func says(status int, header map[string]string, body string) host {
	return func(*http.Request) reply { return reply{status: status, header: header, body: strings.NewReader(body)} }
}

func saysProblem(slug string, retryAfter string) host {
	p := wire.NewError(slug, "").Problem
	header := map[string]string{"Content-Type": wire.TypeProblem}
	if retryAfter != "" {
		header["Retry-After"] = retryAfter
	}
	return says(p.Status, header, fmt.Sprintf(`{"type":%q,"title":%q,"status":%d,"outcome":%q}`, p.Type, p.Title, p.Status, p.Outcome))
}

var (
	written = says(http.StatusNoContent, map[string]string{"ETag": `"1"`}, "")
	token   = fencing.Token{Resource: "coupon:42", Number: 1, Grant: canary}
)

// put sends a write, which is carried out at most once, to hosts a, b and so on, and tells who was
// asked and how long it took.
func put(ctx context.Context, t *testing.T, o client.Options, hosts fakes) (asked string, took time.Duration, _ error) {
	t.Helper()
	var mu sync.Mutex
	network := fakes{}
	for name, h := range hosts {
		network[name] = func(r *http.Request) reply {
			mu.Lock()
			defer mu.Unlock()
			asked += name
			return h(r)
		}
		if name != "a" {
			o.Others = append(o.Others, "http://"+name)
		}
	}
	if len(o.Others) > 1 {
		o.Others = []string{"http://b", "http://c"}
	}
	o.HTTPClient = &http.Client{Transport: network}
	c, err := client.New("http://a", &o)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err = c.Store().Put(ctx, token, "a", nil)
	return asked, time.Since(start), err
}

// TestRepeats is how writes are repeated after attempts that surely did nothing: where, and after
// how long.
func TestRepeats(t *testing.T) {
	t.Parallel()
	// then answers once in one way and from then on in another.
	then := func(first, second host) host {
		n := 0
		return func(r *http.Request) reply {
			if n++; n == 1 {
				return first(r)
			}
			return second(r)
		}
	}
	draining, overloaded := saysProblem(wire.SlugDraining, "1"), saysProblem(wire.SlugOverloaded, "1")
	for _, tc := range []struct {
		name  string
		hosts fakes
		o     client.Options
		asked string
		took  time.Duration
		err   error // nil: it was written
	}{
		{"works", fakes{"a": written, "b": refused}, client.Options{}, "a", 0, nil},
		{"nobody there", fakes{"a": refused, "b": written}, client.Options{}, "ab", 0, nil},
		{"two not there", fakes{"a": refused, "b": refused, "c": written}, client.Options{}, "abc", 0, nil},
		{"draining", fakes{"a": draining, "b": written}, client.Options{}, "ab", 0, nil},
		{"overloaded", fakes{"a": overloaded, "b": written}, client.Options{}, "ab", 0, nil},
		{"alone and restarted", fakes{"a": then(draining, written)}, client.Options{}, "aa", time.Second, nil},
		{"alone and gone", fakes{"a": refused}, client.Options{}, "aaaa", 350 * time.Millisecond, fencing.ErrFailed},
		{"never repeated", fakes{"a": refused, "b": written}, client.Options{Retries: -1}, "a", 0, fencing.ErrFailed},
		{"all draining", fakes{"a": draining, "b": draining}, client.Options{Retries: 2}, "abab", 2 * time.Second, client.ErrDraining},
		{"backend gone", fakes{"a": then(saysProblem(wire.SlugFailed, "1"), written), "b": written}, client.Options{}, "aa", time.Second, nil},
		{"rate", fakes{"a": then(saysProblem(wire.SlugRateLimited, "7"), written), "b": written}, client.Options{}, "aa", 7 * time.Second, nil},
		{"rate, for longer than anybody waits", fakes{"a": saysProblem(wire.SlugRateLimited, "3600")}, client.Options{}, "a", 0, client.ErrRateLimited},
		{"rate, for longer than the caller waits", fakes{"a": saysProblem(wire.SlugRateLimited, "12")}, client.Options{}, "a", 0, client.ErrRateLimited},
		{"Retry-After that is none", fakes{"a": then(saysProblem(wire.SlugRateLimited, "soon"), written)}, client.Options{}, "aa", 50 * time.Millisecond, nil},
		{"refused", fakes{"a": saysProblem(wire.SlugForbidden, ""), "b": written}, client.Options{}, "a", 0, client.ErrForbidden},
		{"unknown", fakes{"a": saysProblem(wire.SlugUnknown, ""), "b": written}, client.Options{}, "a", 0, fencing.ErrUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				asked, took, err := put(ctx, t, tc.o, tc.hosts)
				if asked != tc.asked || took != tc.took || !errors.Is(err, tc.err) {
					t.Errorf("asked %s, took %v, got %v; want %s, %v, %v", asked, took, err, tc.asked, tc.took, tc.err)
				}
			})
		})
	}
}

// TestFirstIsUsedAgain some seconds after it came back; until then one call at a time looks.
func TestFirstIsUsedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := ""
		up := false
		network := fakes{
			"a": func(r *http.Request) reply {
				asked += "a"
				if up {
					return written(r)
				}
				return refused(r)
			},
			"b": func(r *http.Request) reply { asked += "b"; return written(r) },
		}
		c := ofTwo(t, network)
		for i := range 22 { // a call every half second
			if i == 8 {
				up = true
			}
			if _, err := c.Store().Put(t.Context(), token, "a", nil); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		if want := "abbbbbbbbbbaaaaaaaaaaaa"; asked != want {
			t.Errorf("asked %s, want %s", asked, want)
		}
	})
}

// TestWaitersDoNotLook whether a replica that was passed over works again: who waits for a lock
// would find out late. They use it once another call has.
func TestWaitersDoNotLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := ""
		held := func(r *http.Request) reply {
			time.Sleep(time.Second)
			return saysProblem(wire.SlugHeld, "")(r)
		}
		network := fakes{
			"a": func(r *http.Request) reply {
				if asked += "a"; asked == "a" {
					return refused(r)
				}
				return held(r)
			},
			"b": func(r *http.Request) reply { asked += "b"; return held(r) },
		}
		c := ofTwo(t, network)
		for _, wait := range []time.Duration{time.Second, time.Second, 0, time.Second} {
			r := request("coupon:42")
			r.Wait = wait
			if _, err := c.Issuer().Grant(t.Context(), r); !errors.Is(err, locking.ErrHeld) {
				t.Errorf("got %v, want held", err)
			}
			time.Sleep(time.Minute)
		}
		if want := "abbaa"; asked != want {
			t.Errorf("asked %s, want %s", asked, want)
		}
	})
}

// TestHungReplicaLeavesTime: where there is another to ask, one that hangs gets half the time.
func TestHungReplicaLeavesTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := fakes{
			"a": func(r *http.Request) reply { <-r.Context().Done(); return reply{err: r.Context().Err()} },
			"b": says(http.StatusOK, nil, `{"expires_in":"3s","results":[{"resource":"coupon:42","number":"1"}]}`),
		}
		c := ofTwo(t, network)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := c.Issuer().Renew(ctx, 3*time.Second, []fencing.Token{token})[0]
		if took := time.Since(start); err != nil || took != 500*time.Millisecond {
			t.Errorf("got %v after %v, want it renewed after half a second", err, took)
		}
	})
}

// TestHungReplicaIsLeft by the calls that follow one whose own deadline has passed. When its time
// aside is over, one call looks, and the others do not wait for what it finds.
func TestHungReplicaIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := fakes{
			"a": func(r *http.Request) reply { <-r.Context().Done(); return reply{err: r.Context().Err()} },
			"b": written,
		}
		c := ofTwo(t, network)
		put := func(want fencing.Outcome) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.Store().Put(ctx, token, "a", nil); fencing.OutcomeOf(err) != want {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		put(fencing.Unknown)
		put(fencing.Applied)
		put(fencing.Applied)
		time.Sleep(5 * time.Second)
		go put(fencing.Unknown)
		synctest.Wait()
		put(fencing.Applied)
	})
}

// TestDrainingReplicaIsLeft: one that drains serves what comes, but closes its connections.
func TestDrainingReplicaIsLeft(t *testing.T) {
	t.Parallel()
	asked := ""
	network := fakes{
		"a": func(r *http.Request) reply { asked += "a"; w := written(r); w.closes = true; return w },
		"b": func(r *http.Request) reply { asked += "b"; return written(r) },
	}
	c := ofTwo(t, network)
	for range 3 {
		if _, err := c.Store().Put(t.Context(), token, "a", nil); err != nil {
			t.Error(err)
		}
	}
	if asked != "abb" {
		t.Errorf("asked %s, want abb", asked)
	}
}

// ofTwo is a client of the replicas a and b.
func ofTwo(t *testing.T, network fakes) *client.Client {
	t.Helper()
	c, err := client.New("http://a", &client.Options{Others: []string{"http://b"}, HTTPClient: &http.Client{Transport: network}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLateReplyIsNoReturn: what a replica has answered to a request from before it began to drain does
// not bring its clients back.
func TestLateReplyIsNoReturn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := ""
		network := fakes{
			"a": func(r *http.Request) reply {
				w := written(r)
				if asked += "a"; asked == "a" {
					time.Sleep(time.Second)
					return w
				}
				w.closes = true
				return w
			},
			"b": func(r *http.Request) reply { asked += "b"; return written(r) },
		}
		c := ofTwo(t, network)
		put := func() {
			if _, err := c.Store().Put(t.Context(), token, "a", nil); err != nil {
				t.Error(err)
			}
		}
		go put()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		put()
		time.Sleep(time.Second)
		synctest.Wait() // the first reply has been read
		put()
		if asked != "aab" {
			t.Errorf("asked %s, want aab", asked)
		}
	})
}

// TestRefusedBodyIsNoDraining: a server closes the connection after a body that it has not read.
func TestRefusedBodyIsNoDraining(t *testing.T) {
	t.Parallel()
	asked := ""
	network := fakes{
		"a": func(r *http.Request) reply {
			asked += "a"
			w := saysProblem(wire.SlugTooLarge, "")(r)
			w.closes = true
			return w
		},
		"b": func(r *http.Request) reply { asked += "b"; return written(r) },
	}
	c := ofTwo(t, network)
	for range 2 {
		if _, err := c.Store().Put(t.Context(), token, "a", nil); fencing.OutcomeOf(err) != fencing.Refused {
			t.Errorf("got %v, want refused", err)
		}
	}
	if asked != "aa" {
		t.Errorf("asked %s, want aa", asked)
	}
}

// TestWaitOutlastsRestarts: who waits without end is sent away more often than requests are
// repeated, and waits on, as long as it hears from the gateway in between.
func TestWaitOutlastsRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		held, draining := saysProblem(wire.SlugHeld, ""), saysProblem(wire.SlugDraining, "1")
		network := fakes{"a": func(r *http.Request) reply {
			switch n++; {
			case n == 12:
				return says(http.StatusCreated, nil, `{"token":"`+token.Text()+`","number":"1","expires_in":"30s","waited":"0s"}`)(r)
			case n%2 == 0:
				return held(r)
			}
			return draining(r)
		}}
		c, err := client.New("http://a", &client.Options{Retries: 1, HTTPClient: &http.Client{Transport: network}})
		if err != nil {
			t.Fatal(err)
		}
		r := request("coupon:42")
		r.Wait, r.Grant = -1, token.Grant
		if g, err := c.Issuer().Grant(t.Context(), r); err != nil || g.Token != token || g.Waited < 6*time.Second {
			t.Errorf("got %+v, %v, want the lock after six restarts", g, err)
		}
	})
}

// TestErrorsOfTheDoor have names, and outcomes.
func TestErrorsOfTheDoor(t *testing.T) {
	t.Parallel()
	all := []error{client.ErrUnauthorized, client.ErrForbidden, client.ErrRateLimited, client.ErrOverloaded, client.ErrDraining}
	for slug, want := range map[string]error{
		wire.SlugUnauthorized: client.ErrUnauthorized, wire.SlugForbidden: client.ErrForbidden,
		wire.SlugRateLimited: client.ErrRateLimited, wire.SlugOverloaded: client.ErrOverloaded, wire.SlugDraining: client.ErrDraining,
		wire.SlugNotFound: nil,
	} {
		_, _, err := put(t.Context(), t, client.Options{Retries: -1, APIKey: apiKey, InsecureKey: true}, fakes{"a": saysProblem(slug, "")})
		for _, e := range all {
			if got, is := errors.Is(err, e), want != nil && errors.Is(e, want); got != is {
				t.Errorf("%s: errors.Is(%v, %v) = %t", slug, err, e, got)
			}
		}
		outcome := fencing.Failed
		if want == nil || errors.Is(want, client.ErrUnauthorized) || errors.Is(want, client.ErrForbidden) {
			outcome = fencing.Refused
		}
		if got := fencing.OutcomeOf(err); got != outcome || errors.Is(err, fencing.ErrFailed) != (outcome == fencing.Failed) {
			t.Errorf("%s: got %v, %v, want %v", slug, got, err, outcome)
		}
	}
}

// TestAPIKey: it goes where it may, and is seen nowhere else.
func TestAPIKey(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		url      string
		insecure bool
		ok       bool
	}{
		{"https://gateway.example", false, true},
		{"http://127.0.0.1:8080", false, true},
		{"http://127.8.9.10", false, true},
		{"http://[::1]:8080", false, true},
		{"http://localhost:8080", false, true},
		{"http://gateway.example", false, false},
		{"http://gateway.example", true, true},
		{"http://10.0.0.1", false, false},
		{"http://localhost.example", false, false},
		{"http://127.0.0.1.example", false, false},
	} {
		for _, o := range []client.Options{
			{APIKey: apiKey, InsecureKey: tc.insecure},
			{APIKey: apiKey, InsecureKey: tc.insecure, Others: []string{tc.url}},
		} {
			first := tc.url
			if o.Others != nil {
				first = "https://first.example"
			}
			c, err := client.New(first, &o)
			if (err == nil) != tc.ok || err != nil && (!errors.Is(err, fencing.ErrInvalid) || strings.Contains(err.Error(), apiKey)) {
				t.Errorf("%s, insecure = %t: got %v", tc.url, tc.insecure, err)
			}
			for _, format := range []string{"%v", "%+v", "%#v"} {
				if s := fmt.Sprintf(format, c); strings.Contains(s, apiKey) {
					t.Errorf("a client shows its key: %s", s)
				}
			}
		}
	}
	for _, key := range []string{"a b", "a\r\nX: y", "é", strings.Repeat("x", 513), "tab\t"} {
		if _, err := client.New("https://host", &client.Options{APIKey: key}); !errors.Is(err, fencing.ErrInvalid) || strings.Contains(err.Error(), key) {
			t.Errorf("%q: got %v, want an *InvalidError without it", key, err)
		}
	}

	f := replicas(t, 1, fencing.Strict, nil)
	wrong, err := client.New(f.urls[0], &client.Options{APIKey: "fg_CANARY.wrong"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(wrong.Close)
	none, err := client.New(f.urls[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(none.Close)
	for _, c := range []*client.Client{wrong, none} {
		_, putErr := c.Store().Put(t.Context(), token, "a", nil)
		_, grantErr := c.Issuer().Grant(t.Context(), request("coupon:42"))
		_, getErr := c.Store().Get(t.Context(), "coupon:42", "a")
		for _, err := range []error{putErr, grantErr, getErr, c.Issuer().Renew(t.Context(), time.Minute, []fencing.Token{token})[0]} {
			if !errors.Is(err, client.ErrUnauthorized) || strings.Contains(err.Error(), "CANARY") {
				t.Errorf("got %v, want ErrUnauthorized", err)
			}
		}
	}
	// A redirect is not followed, with or without the key.
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed, with the key: %t", r.Header.Get("Authorization") != "")
	}))
	t.Cleanup(elsewhere.Close)
	away := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(away.Close)
	c := f.client(t, client.Options{Retries: -1}, away.URL)
	if _, err := c.Store().Get(t.Context(), "coupon:42", "a"); err == nil || strings.Contains(err.Error(), "CANARY") {
		t.Errorf("got %v, want an error without the key", err)
	}
	for _, err := range c.Events(t.Context(), client.EventsRequest{}) {
		if err == nil || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("got %v, want an error without the key", err)
		}
	}
}
