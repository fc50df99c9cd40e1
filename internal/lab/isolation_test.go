package lab_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/lab"
)

// TestSessionsAreIsolated tries to reach from one session what belongs to another.
func TestSessionsAreIsolated(t *testing.T) {
	t.Parallel()
	for _, mode := range []lab.Mode{lab.ModeNone, lab.ModeLock, lab.ModeWrites, lab.ModeGrant} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			o := inMemory()
			b := newBench(t, o)
			mine, theirs := b.begin(lab.NewSession{Mode: mode}), b.begin(lab.NewSession{Mode: mode})
			foreign := "lab:" + theirs.id + ".coupon"
			before, err := o.Store.Mark(t.Context(), foreign)
			if err != nil {
				t.Fatal(err)
			}
			ops := `"ops":[{"kind":"put","resource":"` + foreign + `","key":"left","value":"MA=="}]`
			for _, r := range []struct{ method, path, body string }{
				{"GET", "/v1/resources/" + foreign + "/records/left", ""},
				{"GET", "/v1/resources/" + strings.Replace(foreign, "l", "%6c", 1) + "/records/left", ""},
				{"GET", "/v1/resources/lab:" + mine.id + "/records/left", ""},
				{"PUT", "/v1/resources/" + foreign + "/records/left", "0"},
				{"DELETE", "/v1/resources/" + foreign + "/records/left", ""},
				{"POST", "/v1/resources/" + foreign + "/lock", `{"ttl":"1s"}`},
				{"POST", "/v1/resources/" + foreign + "/lock/evict", `{"number":"32"}`},
				{"GET", "/v1/resources/" + foreign + "/fence", ""},
				{"POST", "/v1/resources/" + foreign + "/fence", `{"raise":"99.AAAAAAAAAAAAAAAAAAAAAAAAAA"}`},
				{"POST", "/v1/commits", `{"tokens":[],` + ops + `}`},
				{"POST", "/v1/commits", `{"lock":{},` + ops + `}`},
				{"POST", "/v1/commits", `{"tokens":[{"resource":"` + foreign + `","token":"33.AAAAAAAAAAAAAAAAAAAAAAAAAA"}],` + ops + `}`},
				{"GET", "/v1/locks", ""},
				{"GET", "/v1/locks?prefix=lab:", ""},
				{"GET", "/v1/resources/lab:/records/left", ""},
				{"GET", "/metrics", ""},
			} {
				status, text := mine.send(r.method, mine.path("/gateway"+r.path), r.body)
				if status/100 == 2 || status >= 500 {
					t.Errorf("%s %s: got %d %s", r.method, r.path, status, text)
				}
				if r.path != "/metrics" && status != http.StatusForbidden && status != http.StatusUnsupportedMediaType {
					t.Errorf("%s %s: got %d %s, want 403", r.method, r.path, status, text)
				}
			}
			// The raw write needs the right content type to get as far as the defeat.
			if status, text := mine.send("PUT", mine.path("/gateway/v1/resources/"+foreign+"/records/left"), "0", "Content-Type: application/octet-stream"); status != http.StatusForbidden {
				t.Errorf("got %d %s", status, text)
			}
			never := strings.Replace(ops, foreign, "coupon:42", 1)
			if status, text := mine.send("POST", mine.path("/gateway/v1/commits"), `{"tokens":[],`+never+`}`); status != http.StatusForbidden {
				t.Errorf("got %d %s", status, text)
			}
			if m, err := o.Store.Mark(t.Context(), "coupon:42"); err != nil || m.Number != 0 {
				t.Errorf("a session raised the mark of a resource that is not its own: %v (%v)", m, err)
			}
			if after, err := o.Store.Mark(t.Context(), foreign); err != nil || after != before {
				t.Errorf("a stranger changed the mark: %v, was %v (%v)", after, before, err)
			}
			if st := theirs.state(); st.Account.Remaining != "10" || st.Seq != 0 {
				t.Errorf("got %+v", st)
			}
			// Nor is there more of one's own than is tidied up.
			more := "lab:" + mine.id + ".more"
			for _, r := range []struct{ method, path, body string }{
				{"POST", "/v1/resources/" + more + "/lock", `{"ttl":"1s"}`},
				{"PUT", "/v1/resources/" + strings.Replace(more, "l", "%6c", 1) + "/records/left", "0"},
				{"POST", "/v1/resources/lab:" + mine.id + ".coupon2/lock", `{"ttl":"1s"}`},
				{"POST", "/v1/commits", `{"tokens":[],` + strings.Replace(ops, foreign, more, 1) + `}`},
				{"POST", "/v1/commits", `{"lock":{},` + strings.Replace(ops, foreign, more, 1) + `}`},
			} {
				if status, text := mine.send(r.method, mine.path("/gateway"+r.path), r.body); status != http.StatusForbidden || !strings.Contains(text, "coupon and stock") {
					t.Errorf("%s %s %s: got %d %s", r.method, r.path, r.body, status, text)
				}
			}
			if m, err := o.Store.Mark(t.Context(), more); err != nil || m.Number != 0 {
				t.Errorf("got %v (%v)", m, err)
			}
			// One's own is within reach, and another key does not help.
			if status, text := mine.send("GET", mine.path("/gateway/v1/resources/lab:"+mine.id+".coupon/records/left"), "", "Authorization: Bearer x"); status != http.StatusOK || text != "10" {
				t.Errorf("got %d %s", status, text)
			}
			for _, path := range []string{"/api/sessions/" + strings.Repeat("0", 32), "/api/sessions/x/gateway/v1/locks", "/api/sessions//events", "/nowhere"} {
				if status, text := b.send(http.MethodGet, path, ""); status != http.StatusNotFound {
					t.Errorf("%s: got %d %s", path, status, text)
				}
			}
		})
	}
}

// TestWhatIsRefused sends what no page sends.
func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, inMemory())
	g := b.begin(lab.NewSession{Mode: lab.ModeGrant})
	for _, r := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/api/sessions", `{"mode":"wild"}`, 422, "none, lock, writes or grant"},
		{"/api/sessions", `{"mode":"grant","ttl":"1h"}`, 422, "200ms to 5m0s"},
		{"/api/sessions", `{"mode":"grant","lock":"x"}`, 422, "nodes"},
		{"/api/sessions", `{"mode":"grant","more":1}`, 400, "more"},
		{"/api/sessions", `{"mode":"` + strings.Repeat("x", 5000) + `"}`, 413, "4 KiB"},
		{g.path("/commands"), `{"actor":"C","action":"read"}`, 422, "A, B or operator"},
		{g.path("/commands"), `{"actor":"A","action":"flush"}`, 422, "of A: acquire"},
		{g.path("/commands"), `{"actor":"operator","action":"write"}`, 422, "of operator: expire"},
		{g.path("/commands"), `{"actor":"A","action":"read","resource":"<script>"}`, 422, "coupon or stock"},
		{g.path("/commands"), `{"actor":"A","action":"write","value":"-1"}`, 422, "0 to 999999999"},
		{g.path("/commands"), `{"actor":"A","action":"forge","number":"0"}`, 422, "number"},
		{g.path("/commands"), `{"actor":"A","action":"add","key":"a b"}`, 422, "key"},
		{g.path("/commands"), `{"actor":"operator","action":"forget-node"}`, 422, "nodes only"},
		{g.path("/commands"), `{"actor":"A","action":"read","node":4}`, 422, "1, 2 or 3"},
		{g.path("/commands"), `[]`, 400, ""},
	} {
		status, text := b.send(http.MethodPost, r.path, r.body)
		if status != r.status || !strings.Contains(text, r.says) || !strings.Contains(text, `"outcome"`) {
			t.Errorf("%.60s: got %d %s", r.body, status, text)
		}
	}
	if status, _ := b.send(http.MethodPost, g.path("/commands"), `{"actor":"A","action":"read"}`, "Content-Type: text/plain"); status != http.StatusUnsupportedMediaType {
		t.Errorf("text: got %d", status)
	}
	if all := g.all(); len(all) != 0 {
		t.Errorf("something happened all the same: %s", show(all))
	}
}

// TestOtherOrigins lets a page of another origin try to drive the lab.
func TestOtherOrigins(t *testing.T) {
	t.Parallel()
	b := newBench(t, inMemory())
	g := b.begin(lab.NewSession{Mode: lab.ModeGrant})
	for _, header := range []string{"Origin: https://elsewhere.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: null"} {
		for path, body := range map[string]string{
			"/api/sessions":     `{"mode":"grant"}`,
			g.path("/commands"): `{"actor":"A","action":"acquire"}`,
			g.path("/gateway/v1/resources/lab:" + g.id + ".coupon/lock"): `{"ttl":"1s"}`,
		} {
			if status, text := b.send(http.MethodPost, path, body, header); status != http.StatusForbidden {
				t.Errorf("%s %s: got %d %s", header, path, status, text)
			}
		}
		if status, _ := b.send(http.MethodDelete, g.path(""), "", header); status != http.StatusForbidden {
			t.Errorf("%s: got %d", header, status)
		}
	}
	own := "Origin: " + strings.TrimSuffix(b.url, "/lab")
	if status, text := b.send(http.MethodPost, g.path("/commands"), `{"actor":"A","action":"acquire"}`, own); status != http.StatusOK {
		t.Errorf("its own page: got %d %s", status, text)
	}
}

// TestOtherMethodsAndPaths asks for what is there by a method that it has not, and for what is not there.
func TestOtherMethodsAndPaths(t *testing.T) {
	t.Parallel()
	b := newBench(t, inMemory())
	g := b.begin(lab.NewSession{Mode: lab.ModeGrant})
	for _, r := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{http.MethodGet, "/api/sessions", 405, "POST"},
		{http.MethodPost, "/", 405, "GET"},
		{http.MethodPut, "/api/about", 405, "GET"},
		{http.MethodPut, g.path(""), 405, "GET, DELETE"},
		{http.MethodGet, g.path("/commands"), 405, "POST"},
		{http.MethodGet, "/api//about", 404, ""},
		{http.MethodGet, "//api/about", 404, ""},
		{http.MethodGet, "/assets/../api/about", 404, ""},
		{http.MethodPost, "/nowhere", 404, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), r.method, b.url+r.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := web.Transport.RoundTrip(req) // which follows no redirect
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if kind := resp.Header.Get("Content-Type"); resp.StatusCode != r.status || resp.Header.Get("Allow") != r.allow || kind != "application/problem+json" {
			t.Errorf("%s %s: got %s, Allow: %s, %s", r.method, r.path, resp.Status, resp.Header.Get("Allow"), kind)
		}
	}
}
