package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// leaky is a store whose errors tell how it is reached, as those of drivers may.
type leaky struct {
	gateway.Store
	leak func(resource string) error
}

func (l *leaky) Commit(ctx context.Context, c storage.Commit) (storage.Result, error) {
	if err := l.leak(c.Ops[0].Resource); err != nil {
		return storage.Result{}, err
	}
	return l.Store.Commit(ctx, c)
}

func (l *leaky) Get(ctx context.Context, resource, key string) (storage.Record, error) {
	if err := l.leak(resource); err != nil {
		return storage.Record{}, err
	}
	return l.Store.Get(ctx, resource, key)
}

func (l *leaky) Mark(ctx context.Context, resource string) (fencing.Mark, error) {
	if err := l.leak(resource); err != nil {
		return fencing.Mark{}, err
	}
	return l.Store.Mark(ctx, resource)
}

// TestCanaries plants secrets, asks every route for right and for wrong things, and looks for the
// secrets in everything that came out.
func TestCanaries(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	_, key, err := apikey.Add(t.Context(), file, apikey.Entry{Key: apikey.Key{Scopes: apikey.All}, Label: "canary"})
	if err != nil {
		t.Fatal(err)
	}
	_, limited, err := apikey.Add(t.Context(), file, apikey.Entry{Key: apikey.Key{Scopes: apikey.Read, Prefixes: []string{"none:"}}})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := apikey.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	const password, quoted = "hunter2p@ss/word", "quoted s3cret"
	dsn := fmt.Errorf("dial postgres://gateway:%s@db.internal:5432/fence?sslmode=require (host=db.internal password='%s' user=gateway), password=%s: refused", password, quoted, password)
	var mu sync.Mutex // guards events
	var events []string
	tell := func(e fencing.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, fmt.Sprintf("%+v", e))
	}
	feed, err := gateway.NewFeed(0)
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, setup{
		onIssuer: func(e fencing.Event) { feed.Add(e); tell(e) },
		options: gateway.Options{
			Keys: keys, Feed: feed, OnEvent: func(e fencing.Event) { feed.Add(e); tell(e) },
			OnRequest: func(q gateway.Request) { tell(fencing.Event{Reason: fmt.Sprintf("%+v", q)}) },
			Ready:     func(context.Context) []gateway.Check { return []gateway.Check{{Name: "store", Err: dsn}} },
		},
		store: func(s gateway.Store) gateway.Store {
			return &leaky{s, func(resource string) error {
				switch resource {
				case "failed":
					return fencing.AsFailed(dsn)
				case "unknown":
					return fencing.AsUnknown(dsn)
				case "panic":
					panic(dsn.Error() + " " + canary)
				}
				return nil
			}}
		},
		issuer: func(i locking.Issuer) locking.Issuer {
			return &hookedIssuer{Issuer: i, renew: func() []error { return []error{fencing.AsUnknown(errors.Join(dsn, errors.New(canary)))} }}
		},
	})

	secrets := []string{key[len(key)-26:], limited[len(limited)-26:], canary, password, "hunter2", quoted, "s3cret"}
	look := func(where, text string) {
		t.Helper()
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s: %s is in %.2000s", where, s, text)
			}
		}
	}
	ctx, hangUp := context.WithCancel(t.Context())
	var streamed reply
	var wg sync.WaitGroup
	wg.Go(func() { streamed = d.serve(d, d.request(key, "GET", "/v1/events", "").WithContext(ctx)) })
	until(t, "it streams", func() bool { return d.Load().Streams == 1 })

	// The one reply that has a grant id.
	got := d.do(key, "POST", "/v1/resources/a/lock", `{"ttl":"1h","grant":"`+canary+`"}`)
	if d.want(201, "", got); !strings.Contains(got.body, canary) {
		t.Fatalf("got %s", got.body)
	}
	// Secrets where people write: in labels and in the reason of an eviction.
	for path, reason := range map[string]string{"labelled": "1." + canary, "worded": "password=" + password + strings.Repeat(" password=x", 12)} {
		lock := "/v1/resources/" + path + "/lock"
		if got := d.do(key, "POST", lock, `{"ttl":"1h","label":"worker `+reason+`"}`); got.status != 201 {
			t.Errorf("got %d %s", got.status, got.body)
		}
		for _, got := range []reply{
			d.do(key, "POST", lock, `{}`), d.do(key, "GET", lock, ""), d.do(key, "GET", "/v1/locks", ""),
			d.do(key, "POST", "/v1/commits", `{"lock":{"label":"`+reason+`"},"ops":[{"kind":"put","resource":"`+path+`","key":"k","value":""}]}`),
			d.do(key, "POST", lock+"/evict", `{"number":"1","reason":"was `+reason+`"}`),
			d.do(key, "POST", "/v1/commits", `{"lock":{"label":"`+reason+`"},"ops":[{"kind":"put","resource":"`+path+`","key":"k","value":""}]}`),
		} {
			look(path, got.body)
			if strings.HasPrefix(got.body, `{"type"`) && !strings.Contains(got.body, "[hidden]") || got.status >= 400 && got.status != 423 {
				t.Errorf("got %s", got.body)
			}
		}
	}
	// A label that came in by another way than this gateway.
	if _, err := d.issuer.Grant(t.Context(), locking.Request{Resource: "elsewhere", Grant: canary, TTL: time.Hour, Label: "worker 1." + canary[:25] + "B"}); err != nil {
		t.Fatal(err)
	}
	for _, got := range []reply{d.do(key, "POST", "/v1/resources/elsewhere/lock", `{}`), d.do(key, "GET", "/v1/resources/elsewhere/lock", ""), d.do(key, "GET", "/v1/locks", "")} {
		if !strings.Contains(got.body, "worker 1.[hidden]") || strings.Contains(got.body, canary[:25]) {
			t.Errorf("got %s", got.body)
		}
	}

	n := 0
	for _, a := range apiRoutes {
		method, _, _ := strings.Cut(a.name, " ")
		if a.path == "/v1/events" {
			continue
		}
		for _, resource := range []string{"a", "failed", "unknown", "panic", "-" + canary, canary + "%2F", strings.Repeat("A", 201)} {
			for _, auth := range []string{"", key, limited, key + "x", key[:len(key)-1], canary} {
				for _, token := range []string{"", "1." + canary, "2." + canary, canary, "1." + canary + "x"} {
					for _, body := range []string{a.body, `{"` + canary + `":1}`, `"` + canary, `{"grant":"` + canary + `x","label":"` + key + `\n"}`} {
						if n++; n%11 != 0 && (auth != key || body != a.body) { // of what differs little, some
							continue
						}
						headers := []string{wire.HeaderKey, canary, "Last-Event-ID", canary, wire.HeaderRequest, canary}
						if token != "" {
							headers = append(headers, wire.HeaderToken, token)
						}
						path := strings.Replace(a.path, "/a/", "/"+resource+"/", 1)
						got := d.do(auth, method, path, strings.ReplaceAll(body, `"a"`, `"`+resource+`"`), headers...)
						if got.status == 201 { // another lock
							continue
						}
						look(method+" "+path, fmt.Sprint(got.header)+got.body)
					}
				}
			}
		}
	}
	got = d.do(key, "GET", "/readyz?verbose", "")
	look("/readyz", got.body)
	if !strings.Contains(got.body, "db.internal") {
		t.Errorf("got %s, want the rest of the error", got.body)
	}

	hangUp()
	wg.Wait()
	look("the stream", streamed.body)
	if !strings.Contains(streamed.body, `"kind":"granted"`) {
		t.Errorf("the stream has no events: %.200s", streamed.body)
	}
	logged := d.log.String()
	for line := range strings.Lines(logged) {
		look("the log", line)
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	if !strings.Contains(logged, "db.internal") || !strings.Contains(logged, "panicked") {
		t.Error("the log has not what went wrong")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(events) == 0 {
		t.Error("there were no events")
	}
	for _, e := range events {
		look("the events", e)
	}
}
