package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
)

// ask sends a GET to a handler, without a network.
func ask(ctx context.Context, h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func checks(broken error) []gateway.Check {
	return []gateway.Check{
		{Name: "lock", Details: []string{"redis 7.0"}, Warnings: []string{"appendfsync is\nnot always"}},
		{Name: "store", Err: broken, Details: []string{"schema 6"}},
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	broken := errors.New("dial db.internal:5432: " + canary)
	for name, c := range map[string]struct {
		ready  func(context.Context) []gateway.Check
		drain  bool
		status int
		body   string
	}{
		"nothing to ask": {nil, false, 200, "ok\n"},
		"ready":          {func(context.Context) []gateway.Check { return checks(nil) }, false, 200, "ok\n"},
		"not ready":      {func(context.Context) []gateway.Check { return checks(broken) }, false, 503, "unready\n"},
		"draining":       {func(context.Context) []gateway.Check { return checks(nil) }, true, 503, "draining\n"},
	} {
		g := bare(t, gateway.Options{Ready: c.ready})
		if c.drain {
			g.Drain()
		}
		for _, h := range []http.Handler{g, g.Admin()} {
			w := ask(t.Context(), h, "/readyz")
			if w.Code != c.status || w.Body.String() != c.body || w.Header().Get("Content-Type") != "text/plain; charset=UTF-8" {
				t.Errorf("%s: got %d %q %s", name, w.Code, w.Body, w.Header().Get("Content-Type"))
			}
			if w := ask(t.Context(), h, "/livez"); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
				t.Errorf("%s: /livez: got %d %q", name, w.Code, w.Body)
			}
		}
	}
}

func TestReadyVerbose(t *testing.T) {
	t.Parallel()
	g := bare(t, gateway.Options{Ready: func(context.Context) []gateway.Check { return checks(errors.New("no\nanswer to " + canary)) }})
	const text = "[+] lock ok\n    redis 7.0\n    warning: appendfsync is not always\n[-] store failed: no answer to [hidden]\n    schema 6\nunready\n"
	if w := ask(t.Context(), g, "/readyz?verbose"); w.Code != http.StatusServiceUnavailable || w.Body.String() != text {
		t.Errorf("got %d %q\nwant %q", w.Code, w.Body, text)
	}
	w := ask(t.Context(), g, "/readyz?verbose", "Accept", "application/json")
	var got wire.Ready
	if err := wire.Decode(w.Body.Bytes(), &got); err != nil || w.Header().Get("Content-Type") != wire.TypeJSON {
		t.Fatalf("%v in %s %s", err, w.Header().Get("Content-Type"), w.Body)
	}
	want := wire.Ready{Status: "unready", Checks: []wire.Check{
		{Name: "lock", OK: true, Details: []string{"redis 7.0"}, Warnings: []string{"appendfsync is\nnot always"}},
		{Name: "store", Error: "no\nanswer to [hidden]", Details: []string{"schema 6"}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	g.Drain()
	if w := ask(t.Context(), g, "/readyz?verbose"); w.Code != http.StatusServiceUnavailable || w.Body.String() == "draining\n" {
		t.Errorf("while it drains: got %d %q, want the details, too", w.Code, w.Body)
	}
	if w := ask(t.Context(), g, "/readyz?verbos"); w.Code != http.StatusBadRequest {
		t.Errorf("an unknown parameter: got %d, want 400", w.Code)
	}
}

func TestReadyVerboseIsNotForEverybody(t *testing.T) {
	t.Parallel()
	ready := func(context.Context) []gateway.Check { return checks(nil) }
	for name, c := range map[string]struct {
		scopes      apikey.Scope // 0: no keys
		apart       bool
		main, admin int
	}{
		"open":                   {0, false, 200, 200},
		"open, admin apart":      {0, true, 403, 200},
		"admin":                  {apikey.Admin, false, 200, 200},
		"admin, admin apart":     {apikey.Admin, true, 403, 200},
		"not admin":              {apikey.Read | apikey.Write | apikey.Lock, false, 403, 403},
		"not admin, admin apart": {apikey.Read, true, 403, 403},
	} {
		o := gateway.Options{Ready: ready, AdminApart: c.apart}
		if c.scopes != 0 {
			o.Keys = &keys{key: apikey.Key{ID: "k1", Scopes: c.scopes}}
		}
		g := bare(t, o)
		for where, h := range map[int]http.Handler{c.main: g, c.admin: g.Admin()} {
			if w := ask(t.Context(), h, "/readyz?verbose", "Authorization", "Bearer secret"); w.Code != where {
				t.Errorf("%s: got %d, want %d", name, w.Code, where)
			}
			if w := ask(t.Context(), h, "/readyz"); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
				t.Errorf("%s: without verbose and key: got %d %q", name, w.Code, w.Body)
			}
		}
		if w := ask(t.Context(), g, "/readyz?verbose", "Authorization", "Bearer wrong"); c.scopes != 0 && w.Code != http.StatusForbidden {
			t.Errorf("%s: a wrong key: got %d, want 403", name, w.Code)
		}
	}
}

func TestProbesShareAnAnswer(t *testing.T) { //nolint:paralleltest // synctest's clock
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		hang := make(chan struct{})
		g := bare(t, gateway.Options{Ready: func(ctx context.Context) []gateway.Check {
			if asked.Add(1) == 3 {
				<-ctx.Done() // what is asked does not answer
				return checks(ctx.Err())
			}
			<-hang
			return checks(nil)
		}})
		var probes sync.WaitGroup
		for range 100 {
			probes.Go(func() {
				if w := ask(t.Context(), g, "/readyz"); w.Code != http.StatusOK {
					t.Errorf("got %d", w.Code)
				}
			})
		}
		synctest.Wait()
		// One that hangs up ends neither the asking nor the others.
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		ask(gone, g, "/readyz")
		close(hang)
		probes.Wait()
		time.Sleep(999 * time.Millisecond)
		ask(t.Context(), g, "/readyz")
		if got := asked.Load(); got != 1 {
			t.Errorf("101 probes within a second asked %d times", got)
		}
		time.Sleep(time.Millisecond)
		ask(t.Context(), g, "/readyz")
		if got := asked.Load(); got != 2 {
			t.Errorf("after a second: asked %d times, want 2", got)
		}

		time.Sleep(time.Second)
		start := time.Now()
		if w := ask(t.Context(), g, "/readyz"); w.Code != http.StatusServiceUnavailable || w.Body.String() != "unready\n" {
			t.Errorf("no answer: got %d %q", w.Code, w.Body)
		}
		if got := time.Since(start); got != 5*time.Second {
			t.Errorf("no answer: took %v, want 5s", got)
		}
	})
}

func TestMetricsRoute(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Keys: &keys{key: apikey.Key{ID: "k1", Scopes: apikey.Read}}, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "metrics")
	})}
	g := bare(t, o)
	if w := ask(t.Context(), g, "/metrics"); w.Code != http.StatusUnauthorized {
		t.Errorf("without a key: got %d, want 401", w.Code)
	}
	if w := ask(t.Context(), g, "/metrics", "Authorization", "Bearer secret"); w.Code != http.StatusForbidden {
		t.Errorf("without the scope: got %d, want 403", w.Code)
	}
	o.Keys = &keys{key: apikey.Key{ID: "k1", Scopes: apikey.Admin}}
	if w := ask(t.Context(), bare(t, o), "/metrics", "Authorization", "Bearer secret"); w.Code != http.StatusOK || w.Body.String() != "metrics" {
		t.Errorf("got %d %q", w.Code, w.Body)
	}
	o.Keys, o.AdminApart = nil, true
	if w := ask(t.Context(), bare(t, o), "/metrics"); w.Code != http.StatusNotFound {
		t.Errorf("admin apart: got %d, want 404", w.Code)
	}
	if w := ask(t.Context(), bare(t, gateway.Options{}), "/metrics"); w.Code != http.StatusNotFound {
		t.Errorf("without metrics: got %d, want 404", w.Code)
	}
}
