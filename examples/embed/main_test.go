package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// web is not the default client: a test server that is closed in another test closes connections of that one.
var web = &http.Client{Transport: &http.Transport{}}

const key = "fg_embed.a-key-for-this-test"

// served is a running server.
type served struct {
	url  string
	stop func() error // as SIGTERM does, and waits until it has ended
	log  *lines
}

// lines collects what the server prints.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(&l.text, line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func start(t *testing.T, db string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, in, options{listen: "127.0.0.1:0", db: db, key: key})
		in.Close()
		ended <- err
	}()
	s := &served{log: &lines{}, stop: sync.OnceValue(func() error { cancel(); return <-ended })}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	printed := bufio.NewScanner(out)
	if !printed.Scan() {
		t.Fatalf("nothing was printed: %v", s.stop())
	}
	s.url = strings.TrimPrefix(printed.Text(), "the shop is at ")
	go func() {
		for printed.Scan() {
			s.log.add(printed.Text())
		}
	}()
	return s
}

func (s *served) client(t *testing.T, key string) *client.Client {
	t.Helper()
	c, err := client.New(s.url+"/fence", &client.Options{APIKey: key, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request to one of the shop's own routes.
func (s *served) ask(t *testing.T, method, path string, status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status || !strings.Contains(string(got), body) {
		t.Errorf("%s %s: got %d %s, want %d with %q", method, path, resp.StatusCode, got, status, body)
	}
}

// TestBothSidesMeet: a client over HTTP falls silent, the shop takes over, and the client's late
// write is refused. One lock, one store, one log.
func TestBothSidesMeet(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.ask(t, "PUT", "/coupons/42?left=10", 200, `{"left":10}`)
	c := s.client(t, key)
	late, err := c.Issuer().Grant(t.Context(), locking.Request{Resource: "coupon:42", TTL: 200 * time.Millisecond, Label: "late"})
	if err != nil {
		t.Fatal(err)
	}
	s.ask(t, "POST", "/coupons/42/claim", 200, `{"left":9}`) // it waits for the end of that
	_, err = c.Store().Put(t.Context(), late.Token, stock, []byte("9"))
	if stale, ok := errors.AsType[*fencing.StaleError](err); !ok || stale.Highest <= late.Token.Number {
		t.Errorf("the late write: got %v, want a refusal by a newer token", err)
	}
	res, err := c.Store().CommitLocked(t.Context(), storage.Commit{Ops: []storage.Op{storage.Add("coupon:42", stock, -1, 0)}}, nil)
	if err != nil || res.Ops[0].Counter != 8 {
		t.Errorf("one call over HTTP: got %v, %v, want 8 left", res, err)
	}
	s.ask(t, "GET", "/coupons/42", 200, `{"left":8}`)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if log := s.log.String(); !strings.Contains(log, "what=applied resource=coupon:42 number=2 highest=") {
		t.Errorf("the refusal is not in the log:\n%s", log)
	}
}

func TestShop(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.ask(t, "GET", "/coupons/7", 404, `"outcome":"refused"`)
	s.ask(t, "POST", "/coupons/7/claim", 404, `"outcome":"refused"`)
	s.ask(t, "PUT", "/coupons/7?left=-1", 400, "left")
	s.ask(t, "PUT", "/coupons/7?left=9223372036854775807", 400, "left") // no counter is so large
	s.ask(t, "PUT", "/coupons/a%20b?left=1", 400, "resource")
	s.ask(t, "PUT", "/coupons/7?left=1", 200, `{"left":1}`)
	s.ask(t, "POST", "/coupons/7/claim", 200, `{"left":0}`)
	s.ask(t, "POST", "/coupons/7/claim", 409, "no coupon is left")
	s.ask(t, "GET", "/nothing", 404, "")
	s.ask(t, "GET", "/problems/stale-token", 200, "token")
}

// TestNotANumber: a client over HTTP puts something else into the record. That is not "sold out", and
// not 0.
func TestNotANumber(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c := s.client(t, key)
	g, err := c.Issuer().Grant(t.Context(), locking.Request{Resource: "coupon:7", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Store().Put(t.Context(), g.Token, stock, []byte("many")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Issuer().Release(t.Context(), g.Token); err != nil {
		t.Fatal(err)
	}
	s.ask(t, "GET", "/coupons/7", 409, "is not a number")
	s.ask(t, "POST", "/coupons/7/claim", 409, "is not a number")
}

// TestKeys: without a key, for what the key does not cover, and for what is not mounted.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.ask(t, "GET", "/fence/v1/resources/coupon:1/records", 401, "unauthorized")
	c := s.client(t, key)
	if _, err := c.Store().Get(t.Context(), "coupon:1", stock); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("with the key: got %v, want ErrNotFound", err)
	}
	if _, err := c.Store().Get(t.Context(), "salary:1", stock); !errors.Is(err, wire.NewError(wire.SlugForbidden, "")) {
		t.Errorf("what the key does not cover: got %v, want 403", err)
	}
	if err := c.Issuer().Evict(t.Context(), "coupon:1", 1, "test"); !errors.Is(err, wire.NewError(wire.SlugNotFound, "")) {
		t.Errorf("an eviction: got %v, want 404", err)
	}
}

// TestDrain: who waits for a lock when the server is told to stop is sent away, and nothing else
// is cut off.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c := s.client(t, key)
	if _, err := c.Issuer().Grant(t.Context(), locking.Request{Resource: "coupon:1", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := c.Issuer().Grant(t.Context(), locking.Request{Resource: "coupon:1", TTL: time.Minute, Wait: time.Minute})
		waited <- err
	}()
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		status, err := c.Issuer().Status(t.Context(), "coupon:1")
		if err != nil {
			t.Fatal(err)
		}
		if status.Waiters == 1 {
			tick.Stop()
			break
		}
	}
	begin := time.Now()
	if err := s.stop(); err != nil {
		t.Errorf("got %v, want a graceful end", err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := <-waited; !errors.Is(err, wire.NewError(wire.SlugDraining, "")) || fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("the waiting request: got %v, want 503 draining", err)
	}
}

// TestRestart: the lock in memory begins at 1 again, and the store heals that.
func TestRestart(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "shop.db")
	s := start(t, db)
	s.ask(t, "PUT", "/coupons/1?left=2", 200, `{"left":2}`)
	s.ask(t, "POST", "/coupons/1/claim", 200, `{"left":1}`)
	old, err := s.client(t, key).Issuer().Grant(t.Context(), locking.Request{Resource: "coupon:1", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, db)
	if _, err := s.client(t, key).Store().Put(t.Context(), old.Token, stock, []byte("9")); !errors.Is(err, fencing.ErrStale) {
		t.Errorf("a token of the run before: got %v, want ErrStale", err)
	}
	s.ask(t, "POST", "/coupons/1/claim", 200, `{"left":0}`)
	grant, err := s.client(t, key).Issuer().Grant(t.Context(), locking.Request{Resource: "coupon:1", TTL: time.Minute})
	if err != nil || grant.Token.Number <= old.Token.Number {
		t.Errorf("got %v, %v, want a number above %d", grant.Token, err, old.Token.Number)
	}
}
