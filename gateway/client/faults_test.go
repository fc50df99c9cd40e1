package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

const canary = "CANARYCANARYCANARYCANARYCA"

// fault is what becomes of one request.
type fault int

const (
	none      fault = iota
	loseReply       // it is handled, and the reply is dropped
	loseCall        // it is never sent, and the sender cannot know
	hang            // it is handled, and the reply does not come before the context ends
)

// line is a network with faults: each request that matches uses up the first fault of
// the list.
type line struct {
	http.Transport
	match func(*http.Request) bool
	after func() // called when a request was handled and its reply is about to be dropped

	mu     sync.Mutex // guards what follows
	faults []fault
	grants []string        // the grant ids of the lock requests, in order
	waits  []time.Duration // how long requests for locks are to wait, in order
	sent   int             // matching requests
}

var errLine = errors.New("the line broke")

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	f := none
	if l.match == nil || l.match(r) {
		l.sent++
		if len(l.faults) > 0 {
			f, l.faults = l.faults[0], l.faults[1:]
		}
	}
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/lock") {
		body, _ := r.GetBody()
		var m wire.LockRequest
		_ = json.NewDecoder(body).Decode(&m)
		l.grants = append(l.grants, m.Grant)
		if m.Wait != nil {
			l.waits = append(l.waits, time.Duration(*m.Wait))
		}
	}
	if r.URL.Path == "/v1/commits" {
		body, _ := r.GetBody()
		var m wire.Commit
		if _ = json.NewDecoder(body).Decode(&m); m.Lock != nil && m.Lock.Wait != nil {
			l.waits = append(l.waits, time.Duration(*m.Lock.Wait))
		}
	}
	l.mu.Unlock()
	if f == loseCall {
		return nil, errLine
	}
	resp, err := l.Transport.RoundTrip(r)
	if err != nil || f == none {
		return resp, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if l.after != nil {
		l.after()
	}
	if f == hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return nil, errLine
}

func (l *line) counts() (sent int, grants []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent, slices.Clone(l.grants)
}

// wantWaits is an error if a request was to wait for longer than most, or if none was. How many there
// were is the machine's affair: each may take any time.
func (l *line) wantWaits(t *testing.T, most time.Duration) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waits) == 0 || slices.Max(l.waits) > most || slices.Max(l.waits) == 0 {
		t.Errorf("got requests that wait %v, want %v at most", l.waits, most)
	}
}

// over returns a setup whose client uses the line.
func over(tb testing.TB, l *line) setup {
	tb.Cleanup(l.CloseIdleConnections)
	return setup{client: client.Options{HTTPClient: &http.Client{Transport: l}}}
}

func isLock(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/lock")
}

func request(resource string) locking.Request {
	return locking.Request{Resource: resource, Label: "tester", TTL: 30 * time.Second}
}

func grant(t *testing.T, i locking.Issuer, r locking.Request) locking.Granted {
	t.Helper()
	g, err := i.Grant(t.Context(), r)
	if err != nil {
		t.Fatalf("Grant: %v", err)
	}
	return g
}

func (r *rig) wantFree(t *testing.T, resource string) {
	t.Helper()
	st, err := r.issuer.Status(context.Background(), resource)
	if err != nil || st.Held || st.Waiters != 0 {
		t.Errorf("got %+v, %v, want the lock free", st, err)
	}
	if m, err := r.store.Mark(context.Background(), resource); err != nil || !m.Retired {
		t.Errorf("got the mark %v, %v, want it retired", m, err)
	}
}

// TestLostGrantIsTheSameHold: the reply to a grant is lost; the repeat gets the hold that
// was made, and Waited counts from the first sending.
func TestLostGrantIsTheSameHold(t *testing.T) {
	t.Parallel()
	l := &line{match: isLock, faults: []fault{loseReply, loseReply, loseCall}}
	r := newRig(t, over(t, l))
	before := time.Now()
	g := grant(t, r.Issuer(), request("coupon:42"))
	took := time.Since(before)
	_, grants := l.counts()
	if g.Token.Number != 1 || len(grants) != 4 || len(slices.Compact(grants)) != 1 || grants[0] != g.Token.Grant {
		t.Errorf("got number %d after %d requests with %d grant ids", g.Token.Number, len(grants), len(slices.Compact(grants)))
	}
	if least := 350 * time.Millisecond; g.Waited < least || g.Waited > took {
		t.Errorf("got waited %v, want %v to %v: the pauses between the attempts", g.Waited, least, took)
	}
	// The hold began with the first attempt: what the holder reckons must not be later.
	st, err := r.issuer.Status(t.Context(), "coupon:42")
	if err != nil {
		t.Fatal(err)
	}
	if end, reckoned := time.Now().Add(st.Remaining), before.Add(g.Waited+g.ExpiresIn); reckoned.After(end.Add(100 * time.Millisecond)) {
		t.Errorf("the holder reckons with %v, the hold ends %v", reckoned, end)
	}
}

// TestLostGrantIsFreed: no reply ever comes, or the context ends first. Nothing is left.
func TestLostGrantIsFreed(t *testing.T) {
	t.Parallel()
	t.Run("no reply", func(t *testing.T) {
		t.Parallel()
		l := &line{match: isLock, faults: []fault{loseReply, loseReply, loseReply, loseReply}}
		r := newRig(t, over(t, l))
		_, err := r.Issuer().Grant(t.Context(), request("coupon:42"))
		if !errors.Is(err, errLine) || fencing.OutcomeOf(err) != fencing.Unknown {
			t.Errorf("got %v, want the line's error, unknown", err)
		}
		r.wantFree(t, "coupon:42")
	})
	t.Run("the context ends", func(t *testing.T) {
		t.Parallel()
		handled := make(chan struct{})
		l := &line{match: isLock, faults: []fault{hang}, after: func() { close(handled) }}
		r := newRig(t, over(t, l))
		why := errors.New("the user gave up")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-handled
			cancel(why)
		}()
		_, err := r.Issuer().Grant(ctx, request("coupon:42"))
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || fencing.OutcomeOf(err) != fencing.Failed {
			t.Errorf("got %v, want the context's error and cause, failed", err)
		}
		r.wantFree(t, "coupon:42")
	})
	t.Run("the gateway is gone", func(t *testing.T) {
		t.Parallel()
		l := &line{match: isLock, faults: slices.Repeat([]fault{loseCall}, 1000)}
		s := over(t, l)
		s.client.Cleanup = 200 * time.Millisecond
		r := newRig(t, s)
		start := time.Now()
		_, err := r.Issuer().Grant(t.Context(), request("coupon:42"))
		if fencing.OutcomeOf(err) != fencing.Unknown || !errors.Is(err, errLine) {
			t.Errorf("got %v, want unknown", err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("it took %v to give up", took)
		}
	})
}

// TestAbandonedGrantIsDrawnAnew: the gateway has given the lost grant back, so that it is
// lost to a repeat. A grant id that the client made is replaced, the caller's own is not.
func TestAbandonedGrantIsDrawnAnew(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprint("own=", own), func(t *testing.T) {
			t.Parallel()
			var r *rig
			l := &line{match: isLock, faults: []fault{loseReply}}
			l.after = func() { _ = r.issuer.Evict(context.Background(), "coupon:42", 1, "given back") }
			r = newRig(t, over(t, l))
			req := request("coupon:42")
			if !own {
				req.Grant = canary
			}
			g, err := r.Issuer().Grant(t.Context(), req)
			if own && (err != nil || g.Token.Number != 2) {
				t.Errorf("got %v, %v, want a new grant with number 2", g.Token, err)
			}
			if !own && !errors.Is(err, locking.ErrLost) {
				t.Errorf("got %v, %v, want ErrLost", g.Token, err)
			}
		})
	}
}

// TestLongWaitsAreSeveralRequests with one grant id.
func TestLongWaitsAreSeveralRequests(t *testing.T) {
	t.Parallel()
	l := &line{match: isLock}
	s := over(t, l)
	s.client.MaxWait = 30 * time.Millisecond
	r := newRig(t, s)
	first := grant(t, r.issuer, request("coupon:42"))
	req := request("coupon:42")
	req.Wait = 600 * time.Millisecond
	start := time.Now()
	if _, err := r.Issuer().Grant(t.Context(), req); !errors.Is(err, locking.ErrHeld) || time.Since(start) < req.Wait {
		t.Errorf("got %v after %v, want held after %v", err, time.Since(start), req.Wait)
	}
	l.wantWaits(t, s.client.MaxWait)
	if _, grants := l.counts(); len(slices.Compact(grants)) != 1 {
		t.Errorf("got %d grant ids, want one", len(grants))
	}
	l.mu.Lock()
	l.grants = nil
	l.mu.Unlock()
	done := make(chan locking.Granted, 1)
	go func() {
		req := req
		req.Wait, req.Grant = -1, canary
		g, err := r.Issuer().Grant(t.Context(), req)
		if err != nil {
			t.Error(err)
		}
		done <- g
	}()
	until(t, func() bool { _, grants := l.counts(); return len(grants) >= 3 })
	_, _ = r.issuer.Release(context.Background(), first.Token)
	g := <-done
	if _, grants := l.counts(); slices.ContainsFunc(grants, func(s string) bool { return s != canary }) {
		t.Error("the grant id changed from request to request")
	}
	if least := 2 * s.client.MaxWait; g.Waited < least {
		t.Errorf("got waited %v, want more than the first two requests' %v", g.Waited, least)
	}
}

// TestCommitsAreSentOnce: a lost reply is unknown, and nothing is repeated.
func TestCommitsAreSentOnce(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *rig, fencing.Token) error{
		"commit": func(ctx context.Context, r *rig, tok fencing.Token) error {
			_, err := r.Store().Commit(ctx, storage.Commit{
				Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add(tok.Resource, "n", 1, 0)},
			})
			return err
		},
		"put": func(ctx context.Context, r *rig, tok fencing.Token) error {
			_, err := r.Store().Put(ctx, tok, "n", []byte("1"))
			return err
		},
		"evict": func(ctx context.Context, r *rig, tok fencing.Token) error {
			return r.Issuer().Evict(ctx, tok.Resource, tok.Number, "a test")
		},
	} {
		for _, f := range []fault{loseReply, loseCall} {
			t.Run(fmt.Sprint(name, f), func(t *testing.T) {
				t.Parallel()
				l := &line{faults: []fault{f}}
				r := newRig(t, over(t, l))
				tok := grant(t, r.issuer, request("coupon:42")).Token
				err := call(t.Context(), r, tok)
				if fencing.OutcomeOf(err) != fencing.Unknown || !errors.Is(err, fencing.ErrUnknown) || !errors.Is(err, errLine) {
					t.Errorf("got %v, want unknown", err)
				}
				if n, _ := l.counts(); n != 1 {
					t.Errorf("it was sent %d times", n)
				}
			})
		}
	}
}

// TestKeyedCommitsAreRepeated: with a key a commit is sent until it is answered, and applied once.
func TestKeyedCommitsAreRepeated(t *testing.T) {
	t.Parallel()
	commit := func(ctx context.Context, r *rig, tok fencing.Token, key string) (storage.Result, error) {
		return r.Store().Commit(ctx, storage.Commit{
			Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add(tok.Resource, "n", 1, 0)}, Key: key,
		})
	}
	l := &line{}
	r := newRig(t, over(t, l))
	tok := grant(t, r.issuer, request("coupon:42")).Token
	for i, faults := range [][]fault{{}, {loseReply}, {loseCall}, {loseReply, loseCall, loseReply}} {
		l.mu.Lock()
		l.faults = faults
		l.mu.Unlock()
		key := fmt.Sprint("order-", i)
		res, err := commit(t.Context(), r, tok, key)
		if err != nil || res.Ops[0].Counter != int64(i+1) {
			t.Errorf("%v: got %+v, %v, want %d counted", faults, res, err, i+1)
		}
		if want := len(faults) > 0 && faults[0] == loseReply; res.Replayed != want {
			t.Errorf("%v: got replayed = %t, want %t", faults, res.Replayed, want)
		}
	}
	// No answer at all: what was sent stays unknown, although the last attempt surely failed.
	l.mu.Lock()
	l.faults = slices.Repeat([]fault{loseReply}, 50)
	l.mu.Unlock()
	if _, err := commit(t.Context(), r, tok, "order-9"); fencing.OutcomeOf(err) != fencing.Unknown {
		t.Errorf("got %v, want unknown", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.mu.Lock()
	l.faults, l.after = []fault{loseReply}, cancel
	l.mu.Unlock()
	if _, err := commit(ctx, r, tok, "order-10"); fencing.OutcomeOf(err) != fencing.Unknown {
		t.Errorf("got %v after the context ended, want unknown", err)
	}
}

// TestRefusedAtTheDoorAfterAnUnknown: a commit was applied and its answer lost; the repeat does not
// get as far as the store. That says nothing of the first one.
func TestRefusedAtTheDoorAfterAnUnknown(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadGateway, 0} { // the first answer, in another's words, or none
		var n atomic.Int32
		s := setup{wrap: func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path != "/v1/commits":
					h.ServeHTTP(w, r)
				case n.Add(1) == 1:
					h.ServeHTTP(httptest.NewRecorder(), r)
					if status == 0 {
						panic(http.ErrAbortHandler)
					}
					w.WriteHeader(status)
				default:
					w.Header().Set("Content-Type", wire.TypeProblem)
					w.WriteHeader(http.StatusRequestEntityTooLarge)
					_ = json.NewEncoder(w).Encode(wire.TooLarge("at most 5 bytes").Problem)
				}
			})
		}}
		r := newRig(t, s)
		tok := grant(t, r.issuer, request("coupon:42")).Token
		_, err := r.Store().Commit(t.Context(), storage.Commit{
			Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add(tok.Resource, "n", 1, 0)}, Key: "order-7",
		})
		if fencing.OutcomeOf(err) != fencing.Unknown || n.Load() < 2 {
			t.Errorf("got %v after %d requests, want unknown after two or more", err, n.Load())
		}
		if rec, err := r.store.Get(t.Context(), tok.Resource, "n"); err != nil || string(rec.Value) != "1" {
			t.Errorf("got %q, %v, want it applied once", rec.Value, err)
		}
	}
}

// TestTurnedAwayAfterAnUnknown: the repeat of a call whose answer was lost is turned away at the door, by
// another replica say. That says nothing of the first one, and nothing of what a grant has left.
func TestTurnedAwayAfterAnUnknown(t *testing.T) {
	t.Parallel()
	tok := fencing.Token{Resource: "coupon:42", Number: 1, Grant: canary}
	for name, call := range map[string]func(context.Context, *client.Client) error{
		"grant": func(ctx context.Context, c *client.Client) error {
			_, err := c.Issuer().Grant(ctx, request("coupon:42"))
			return err
		},
		"grant, given up": func(ctx context.Context, c *client.Client) error {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			_, err := c.Issuer().Grant(ctx, request("coupon:42"))
			return err
		},
		"renew": func(ctx context.Context, c *client.Client) error {
			return c.Issuer().Renew(ctx, time.Minute, []fencing.Token{tok})[0]
		},
		"release": func(ctx context.Context, c *client.Client) error {
			_, err := c.Issuer().Release(ctx, tok)
			return err
		},
		"fenced read": func(ctx context.Context, c *client.Client) error {
			_, err := c.Store().GetFenced(ctx, tok, "n")
			return err
		},
		"commit": func(ctx context.Context, c *client.Client) error {
			_, err := c.Store().Commit(ctx, commit(tok, "order-7"))
			return err
		},
		"one-call commit": func(ctx context.Context, c *client.Client) error {
			_, err := c.Store().CommitLocked(ctx, plus("order-7", "a"), nil)
			return err
		},
	} {
		for _, slug := range []string{
			wire.SlugUnauthorized, wire.SlugForbidden, wire.SlugMalformed, wire.SlugInvalid, wire.SlugTooLarge,
		} {
			t.Run(name+" "+slug, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var n atomic.Int32
					network := fakes{"a": func(r *http.Request) reply {
						if n.Add(1) == 1 {
							return reply{err: errLine}
						}
						return saysProblem(slug, "")(r)
					}}
					c, err := client.New("http://a", &client.Options{HTTPClient: &http.Client{Transport: network}, Cleanup: 60 * time.Millisecond})
					if err != nil {
						t.Fatal(err)
					}
					err = call(t.Context(), c)
					if fencing.OutcomeOf(err) != fencing.Unknown || !errors.Is(err, errLine) || n.Load() < 2 {
						t.Errorf("got %v after %d requests, want the line's error, unknown", err, n.Load())
					}
				})
			})
		}
	}
}

// TestExactCallsAreRepeated where their replies are lost.
func TestExactCallsAreRepeated(t *testing.T) {
	t.Parallel()
	l := &line{}
	r := newRig(t, over(t, l))
	tok := grant(t, r.Issuer(), request("coupon:42")).Token
	for name, call := range map[string]func(context.Context) error{
		"renew":  func(ctx context.Context) error { return r.Issuer().Renew(ctx, time.Minute, []fencing.Token{tok})[0] },
		"status": func(ctx context.Context) error { _, err := r.Issuer().Status(ctx, tok.Resource); return err },
		"list":   func(ctx context.Context) error { _, err := r.Issuer().List(ctx, "", "", 10); return err },
		"mark":   func(ctx context.Context) error { _, err := r.Store().Mark(ctx, tok.Resource); return err },
		"records": func(ctx context.Context) error {
			_, err := r.Store().List(ctx, tok.Resource, "", "", 10)
			return err
		},
	} {
		l.mu.Lock()
		l.faults = []fault{loseReply, loseCall}
		l.mu.Unlock()
		if err := call(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		l.mu.Lock()
		l.faults = slices.Repeat([]fault{loseReply}, 4)
		l.mu.Unlock()
		want := fencing.Failed // a read has no effect
		if name == "renew" {
			want = fencing.Unknown
		}
		if err := call(t.Context()); fencing.OutcomeOf(err) != want {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	l.mu.Lock()
	l.faults = []fault{loseReply}
	l.mu.Unlock()
	if freed, err := r.Issuer().Release(t.Context(), tok); freed || err != nil {
		t.Errorf("Release after a lost reply = %v, %v, want false, nil", freed, err)
	}
	r.wantFree(t, "coupon:42")
}

// TestRefusedConnection: nothing was sent, so everything failed.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	c, err := client.New(dead(t), &client.Options{Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	tok := fencing.Token{Resource: "coupon:42", Number: 1, Grant: canary}
	_, putErr := c.Store().Put(t.Context(), tok, "a", nil)
	_, commitErr := c.Store().Commit(t.Context(), storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Delete("coupon:42", "a")}})
	_, grantErr := c.Issuer().Grant(t.Context(), request("coupon:42"))
	_, releaseErr := c.Issuer().Release(t.Context(), tok)
	_, readErr := c.Store().GetFenced(t.Context(), tok, "a")
	for _, err := range []error{putErr, commitErr, grantErr, releaseErr, readErr, c.Issuer().Renew(t.Context(), time.Minute, []fencing.Token{tok})[0]} {
		if fencing.OutcomeOf(err) != fencing.Failed || !errors.Is(err, fencing.ErrFailed) || strings.Contains(err.Error(), canary) {
			t.Errorf("got %v, want failed, without the secret", err)
		}
	}
}

// TestStrangersReplies: what a proxy or anything but a gateway answers is no outcome.
func TestStrangersReplies(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed, with the token %t", r.Header.Get(wire.HeaderToken) != "")
	}))
	t.Cleanup(elsewhere.Close)
	var answer atomic.Pointer[http.HandlerFunc]
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) }))
	t.Cleanup(srv.Close)
	c, err := client.New(srv.URL, &client.Options{Retries: -1, MaxReply: 1 << 20, Timeout: time.Minute, Cleanup: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	tok := fencing.Token{Resource: "coupon:42", Number: 1, Grant: canary}
	text := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"200 page":           text(200, "text/html", "<html>Welcome to our wifi</html>"),
		"200 nothing":        text(200, "application/json", ""),
		"200 other JSON":     text(200, "application/json", `{"hello":"world"}`),
		"200 half":           text(200, "application/json", `{"results":[{"version":"1"`),
		"201 secret":         text(201, "application/json", `{"token":"1.`+canary+`","number":"x"}`),
		"204":                text(204, "text/html", ""),
		"401":                text(401, "text/html", "who are you?"),
		"502":                text(502, "text/html", "Bad Gateway"),
		"503":                text(503, "text/plain", "overloaded"),
		"404 JSON":           text(404, "application/json", `{"error":"no"}`),
		"problem of another": text(409, "application/problem+json", `{"title":"no"}`),
		"huge":               text(200, "application/json", `{"results":[{"version":"1"}]}`+strings.Repeat(" ", 2<<20)),
		"huge record": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"1"`)
			_, _ = io.WriteString(w, strings.Repeat("x", 2<<20)) // must not come back cut
		},
		"307": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"303": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusSeeOther) },
		"cut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, `{"results":`)
		},
	} {
		answer.Store(&h)
		_, commitErr := c.Store().Commit(t.Context(), storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Delete("coupon:42", "a")}})
		_, putErr := c.Store().Put(t.Context(), tok, "a", []byte("x"))
		req := request("coupon:42")
		req.Grant = canary
		_, grantErr := c.Issuer().Grant(t.Context(), req)
		for call, err := range map[string]error{
			"commit": commitErr, "put": putErr, "grant": grantErr,
			"renew": c.Issuer().Renew(t.Context(), time.Minute, []fencing.Token{tok})[0],
		} {
			if fencing.OutcomeOf(err) != fencing.Unknown || !errors.Is(err, fencing.ErrUnknown) {
				t.Errorf("%s: %s: got %v, want unknown", name, call, err)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("%s: %s: the error shows the secret: %v", name, call, err)
			}
		}
		_, getErr := c.Store().Get(t.Context(), "coupon:42", "a")
		_, markErr := c.Store().Mark(t.Context(), "coupon:42")
		if name == "200 other JSON" {
			markErr = getErr // a mark of nothing: lenient reading
		}
		for _, err := range []error{getErr, markErr} {
			if fencing.OutcomeOf(err) != fencing.Failed {
				t.Errorf("%s: a read got %v, want failed", name, err)
			}
		}
	}
}

// TestStrippedHeaders: a proxy that drops unknown headers must not turn a fenced read
// into a plain one.
func TestStrippedHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{wrap: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del(wire.HeaderToken)
			h.ServeHTTP(w, r)
		})
	}})
	tok := grant(t, r.issuer, request("coupon:42")).Token
	if _, err := r.store.Put(t.Context(), tok, "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "none"} {
		rec, err := r.Store().GetFenced(t.Context(), tok, key)
		if err == nil || errors.Is(err, storage.ErrNotFound) || rec.Value != nil {
			t.Errorf("%s: got %+v, %v, want an error", key, rec, err)
		}
	}
	if _, err := r.Store().Put(t.Context(), tok, "a", []byte("y")); fencing.OutcomeOf(err) != fencing.Refused {
		t.Errorf("got %v, want refused", err)
	}
}

// oddIssuer frees and fails beside it.
type oddIssuer struct{ locking.Issuer }

func (o oddIssuer) Release(ctx context.Context, t fencing.Token) (bool, error) {
	freed, _ := o.Issuer.Release(ctx, t)
	return freed, fencing.AsUnknown(errors.New("password=hunter2"))
}

func TestReleaseTellsBothFacts(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{issuer: func(i locking.Issuer) locking.Issuer { return oddIssuer{i} }})
	tok := grant(t, r.Issuer(), request("coupon:42")).Token
	freed, err := r.Issuer().Release(t.Context(), tok)
	if !freed || fencing.OutcomeOf(err) != fencing.Unknown || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, %v, want true beside an unknown error", freed, err)
	}
}

// brokenStore answers every commit with one error.
type brokenStore struct {
	gateway.Store
	err error
}

func (b brokenStore) Commit(context.Context, storage.Commit) (storage.Result, error) {
	return storage.Result{}, b.err
}

func TestOutcomesOfTheGateway(t *testing.T) {
	t.Parallel()
	for want, err := range map[fencing.Outcome]error{
		fencing.Failed:  fencing.AsFailed(errors.New("password=hunter2")),
		fencing.Unknown: fencing.AsUnknown(errors.New("password=hunter2")),
	} {
		r := newRig(t, setup{store: func(s gateway.Store) gateway.Store { return brokenStore{s, err} }})
		tok := grant(t, r.Issuer(), request("coupon:42")).Token
		_, got := r.Store().Put(t.Context(), tok, "a", []byte("x"))
		if fencing.OutcomeOf(got) != want || strings.Contains(got.Error(), "hunter2") {
			t.Errorf("got %v, want %v without the text", got, want)
		}
	}
}

func TestLongLists(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	tok := grant(t, r.Issuer(), request("coupon:42")).Token
	var ops []storage.Op
	for n := range 250 {
		ops = append(ops, storage.Put("coupon:42", fmt.Sprintf("k%03d", n), bytes.Repeat([]byte{byte(n)}, n)))
	}
	if _, err := r.Store().Commit(t.Context(), storage.Commit{Tokens: []fencing.Token{tok}, Ops: ops}); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 99, 100, 101, 200, 249, 250, 251, 1000} {
		got, err := r.Store().List(t.Context(), "coupon:42", "", "", limit)
		if err != nil || len(got) != min(limit, 250) {
			t.Fatalf("limit %d: got %d records, %v", limit, len(got), err)
		}
		for n, rec := range got {
			if rec.Key != ops[n].Key || !bytes.Equal(rec.Value, ops[n].Value) {
				t.Fatalf("limit %d: record %d is %s", limit, n, rec.Key)
			}
		}
	}
}

func TestManyRenewals(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	var held []fencing.Token
	for n := range 1500 {
		held = append(held, grant(t, r.issuer, request(fmt.Sprintf("coupon:%d", n))).Token)
	}
	held[1200].Grant = canary
	for n, err := range r.Issuer().Renew(t.Context(), time.Minute, held) {
		if (n == 1200) != errors.Is(err, locking.ErrLost) || n != 1200 && err != nil {
			t.Fatalf("token %d: got %v", n, err)
		}
	}
	if got := r.Issuer().Renew(t.Context(), time.Minute, nil); len(got) != 0 {
		t.Errorf("got %v for no tokens", got)
	}
}

// TestLockerOverHTTP: a Locker cannot tell the distance.
func TestLockerOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	l, err := locking.New(r.Issuer(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const tasks = 8
	errs := make(chan error, tasks)
	for range tasks {
		go func() {
			errs <- l.Do(t.Context(), "coupon:42", func(ctx context.Context, tok fencing.Token) error {
				rec, err := r.Store().GetFenced(ctx, tok, "n")
				if err != nil && !errors.Is(err, storage.ErrNotFound) {
					return err
				}
				_, err = r.Store().Put(ctx, tok, "n", append(rec.Value, 'x'))
				return err
			})
		}()
	}
	for range tasks {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if rec, err := r.Store().Get(t.Context(), "coupon:42", "n"); err != nil || len(rec.Value) != tasks {
		t.Errorf("got %d of %d updates, %v", len(rec.Value), tasks, err)
	}
	r.wantFree(t, "coupon:42")
}

func TestFloorIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	req := request("coupon:42")
	req.Floor = 7
	if _, err := r.Issuer().Grant(t.Context(), req); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("got %v, want an *InvalidError", err)
	}
}

func TestRaise(t *testing.T) {
	t.Parallel()
	outside := fencing.Token{Resource: "coupon:42", Number: 34}
	strict := newRig(t, setup{})
	if err := strict.Store().Raise(t.Context(), outside); fencing.OutcomeOf(err) != fencing.Refused {
		t.Errorf("strict: got %v, want refused", err)
	}
	classic := newRig(t, setup{mode: fencing.Classic})
	if err := classic.Store().Raise(t.Context(), outside); err != nil {
		t.Errorf("classic: %v", err)
	}
	outside.Number = 33
	if err := classic.Store().Raise(t.Context(), outside); !errors.Is(err, fencing.ErrStale) {
		t.Errorf("got %v, want stale", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, u := range []string{
		"", "127.0.0.1:8080", "ftp://host", "http://", "http:opaque", "http://user:secret@host", "http://host?a=b", "http://host?", "http://host#f", "http://ho st", "://",
	} {
		if _, err := client.New(u, nil); !errors.Is(err, fencing.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, want an *InvalidError", u, err)
		}
	}
	for _, o := range []client.Options{
		{Timeout: time.Nanosecond},
		{MaxWait: -1},
		{Retries: -2},
		{Retries: 1000},
		{Cleanup: time.Hour},
		{MaxReply: 1},
		{HTTPClient: &http.Client{Timeout: time.Second}},
	} {
		if _, err := client.New("http://host/base/", &o); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%+v: got %v, want an *InvalidError", o, err)
		}
	}
}
