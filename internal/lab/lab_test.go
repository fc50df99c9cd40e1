package lab_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/lab"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/storage"
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

// TestCaps runs into the limits.
func TestCaps(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Sessions, o.Commands = 2, 3
	b := newBench(t, o)
	g := b.begin(lab.NewSession{Mode: lab.ModeGrant})
	other := b.begin(lab.NewSession{Mode: lab.ModeGrant})
	if status, text := b.send(http.MethodPost, "/api/sessions", `{"mode":"grant"}`); status != http.StatusServiceUnavailable || !strings.Contains(text, "too many sessions") {
		t.Errorf("got %d %s", status, text)
	}
	if status, _ := b.send(http.MethodDelete, other.path(""), ""); status != http.StatusNoContent {
		t.Errorf("got %d", status)
	}
	b.begin(lab.NewSession{Mode: lab.ModeGrant})
	for range 3 {
		g.do("A", lab.Read)
	}
	if status, text := b.send(http.MethodPost, g.path("/commands"), `{"actor":"A","action":"read"}`); status != http.StatusTooManyRequests || !strings.Contains(text, "begin a new one") {
		t.Errorf("got %d %s", status, text)
	}
	big := `{"tokens":[],"ops":["` + strings.Repeat("x", 17<<10) + `"]}`
	if status, text := b.send("POST", g.path("/gateway/v1/commits"), big); status != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s", status, text)
	}
}

// TestTooManyEvents fills a session.
func TestTooManyEvents(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Events = 100
	g := newBench(t, o).begin(lab.NewSession{Mode: lab.ModeNone})
	for range 100 {
		g.do("A", lab.Check)
	}
	if status, text := g.send(http.MethodPost, g.path("/commands"), `{"actor":"A","action":"check"}`); status != http.StatusTooManyRequests {
		t.Errorf("got %d %s", status, text)
	}
	if all := g.all(); len(all) != 100 {
		t.Errorf("got %d events", len(all))
	}
}

// TestAnIdleSessionMakesRoom begins a session where there is no place left but an idle one's.
func TestAnIdleSessionMakesRoom(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Sessions, o.Idle = 1, 15*time.Second
	b := newBench(t, o)
	idle := b.begin(lab.NewSession{Mode: lab.ModeGrant})
	refused := 0
	idle.until(func() bool {
		status, _ := b.send(http.MethodPost, "/api/sessions", `{"mode":"grant"}`)
		if status == http.StatusServiceUnavailable {
			refused++
		}
		return status == http.StatusCreated
	})
	if refused == 0 {
		t.Error("a session in use made room")
	}
	if status, _ := b.send(http.MethodGet, idle.path(""), ""); status != http.StatusNotFound {
		t.Errorf("got %d", status)
	}
}

// TestSessionsMustNotComeTooFast begins and ends sessions without a pause.
func TestSessionsMustNotComeTooFast(t *testing.T) {
	t.Parallel()
	b := newBench(t, inMemory())
	for range 200 {
		status, text := b.send(http.MethodPost, "/api/sessions", `{"mode":"grant"}`)
		var st lab.State
		if status == http.StatusTooManyRequests {
			return
		}
		if err := json.Unmarshal([]byte(text), &st); err != nil || status != http.StatusCreated {
			t.Fatalf("got %d %s", status, text)
		}
		b.send(http.MethodDelete, "/api/sessions/"+st.ID, "")
	}
	t.Error("200 sessions were begun at once")
}

// TestTooManyWatch opens one stream too many.
func TestTooManyWatch(t *testing.T) {
	t.Parallel()
	g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 9 {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+g.path("/events"), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if want := map[bool]int{true: 503, false: 200}[i == 8]; resp.StatusCode != want {
			t.Errorf("stream %d: got %d, want %d", i+1, resp.StatusCode, want)
		}
	}
}

// TestOptions are the ones that New refuses.
func TestOptions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*lab.Options){
		"Lock":     func(o *lab.Options) { o.Lock = nil },
		"Store":    func(o *lab.Options) { o.Store = nil },
		"Sessions": func(o *lab.Options) { o.Sessions = -1 },
		"Commands": func(o *lab.Options) { o.Commands = 1 << 20 },
		"Events":   func(o *lab.Options) { o.Events = 1 },
		"Idle":     func(o *lab.Options) { o.Idle = time.Millisecond },
		"MaxAge":   func(o *lab.Options) { o.MaxAge = 1000 * time.Hour },
	} {
		o := inMemory()
		change(&o)
		_, err := lab.New(o)
		if !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestAnIdleSessionEnds watches one end, and looks at what it leaves in the store.
func TestAnIdleSessionEnds(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Idle = time.Second
	g := newBench(t, o).begin(lab.NewSession{Mode: lab.ModeGrant})
	g.do("A", lab.Acquire)
	g.do("A", lab.Pause)
	g.watch("", func(_ []trace.Event, kind string) bool { return kind == "end" })
	if status, _ := g.send(http.MethodGet, g.path(""), ""); status != http.StatusNotFound {
		t.Errorf("got %d", status)
	}
	name := "lab:" + g.id + ".coupon"
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := o.Store.Get(t.Context(), name, "left")
		st, statusErr := o.Lock.Status(t.Context(), name)
		if errors.Is(err, storage.ErrNotFound) && statusErr == nil && !st.Held {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("got %v, %+v", err, st)
		}
	}
}

// TestTheStreamResumes leaves a stream and comes back.
func TestTheStreamResumes(t *testing.T) {
	t.Parallel()
	g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant})
	g.do("A", lab.Acquire)
	g.do("A", lab.Read)
	whole := g.all()
	rest := g.watch("2", func(_ []trace.Event, kind string) bool { return kind == "state" })
	if len(whole) != 3 || len(rest) != 1 || rest[0].Seq != 3 {
		t.Errorf("got %s\nand %s", show(whole), show(rest))
	}
	if again := g.watch("99", func(_ []trace.Event, kind string) bool { return kind == "state" }); len(again) != 3 {
		t.Errorf("after an event that never was: got %s", show(again))
	}
	for i, e := range whole {
		if e.Seq != i+1 || e.DoneMS < e.AtMS {
			t.Errorf("got %+v", e)
		}
	}
}

// TestCurl runs the command of a recorded request in a shell, with a curl that only shows its arguments,
// and then sends that.
func TestCurl(t *testing.T) {
	t.Parallel()
	g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant})
	g.do("A", lab.Acquire)
	g.do("A", lab.Read)
	e := g.do("A", lab.Write)
	x := e.Exchanges[0]
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `curl() { printf '%s\n' "$@"; }; `+x.Curl).Output()
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	want := []string{"-i", "-X", "PUT", "-H", x.Headers[0], "-H", x.Headers[1], "--data-binary", "9", x.URL}
	if !slices.Equal(args, want) {
		t.Fatalf("got %q, want %q", args, want)
	}
	if !regexp.MustCompile(`^` + regexp.QuoteMeta(g.url) + `/api/sessions/[0-9a-f]{32}/gateway/v1/resources/lab:[0-9a-f]{32}\.coupon/records/left$`).MatchString(x.URL) {
		t.Errorf("got %s", x.URL)
	}
	if status, text := g.send("PUT", x.URL, "9", x.Headers...); status/100 != 2 {
		t.Errorf("got %d %s", status, text)
	}
	for _, h := range append(x.Headers, x.Replied...) {
		if strings.HasPrefix(h, "Authorization") || strings.HasPrefix(h, "User-Agent") {
			t.Errorf("got %s", h)
		}
	}
}

// TestSource shows what decided.
func TestSource(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Source = func(place, action string) *trace.Source {
		return &trace.Source{Language: "go", Name: place + " " + action}
	}
	g := newBench(t, o).begin(lab.NewSession{Mode: lab.ModeGrant})
	for _, a := range []lab.Action{lab.Acquire, lab.Read, lab.Write, lab.Commit, lab.Renew, lab.Release} {
		g.do("A", a)
	}
	g.do("operator", lab.Evict)
	var got []string
	for _, e := range g.all() {
		got = append(got, e.Source.Name)
	}
	want := []string{"store raise", "lock acquire", "store read", "store write", "store commit", "lock renew", "lock release", "lock evict"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEveryActionInEveryMode lets everybody do everything, at the same time.
func TestEveryActionInEveryMode(t *testing.T) {
	t.Parallel()
	client := []lab.Action{
		lab.Read, lab.Acquire, lab.Reenter, lab.Check, lab.Write, lab.Receipt, lab.Retry, lab.Commit, lab.Pair, lab.Add, lab.Renew,
		lab.Forge, lab.LoseReply, lab.Write, lab.Retry, lab.Pause, lab.Write, lab.Resume, lab.Release, lab.AddFree,
	}
	operator := []lab.Action{lab.Expire, lab.Flush, lab.Evict, lab.ForgetNode, lab.Expire}
	for _, mode := range []lab.Mode{lab.ModeNone, lab.ModeLock, lab.ModeWrites, lab.ModeGrant} {
		for _, lock := range []string{"", "nodes"} {
			t.Run(string(mode)+lock, func(t *testing.T) {
				t.Parallel()
				g := newBench(t, inMemory()).begin(lab.NewSession{Mode: mode, Lock: lock, TTL: "300ms"})
				var all sync.WaitGroup
				for _, actor := range []string{"A", "B", "operator"} {
					actions := client
					if actor == "operator" {
						actions = operator
					}
					all.Go(func() {
						for _, a := range actions {
							if a == lab.ForgetNode && lock == "" {
								continue
							}
							for _, resource := range []string{"", lab.Stock} {
								body, _ := json.Marshal(lab.Command{Actor: actor, Action: a, Resource: resource})
								if status, text := g.send(http.MethodPost, g.path("/commands"), string(body)); status != http.StatusOK {
									t.Errorf("%s %s: got %d %s", actor, a, status, text)
								}
							}
						}
					})
				}
				all.Wait()
				g.until(func() bool {
					st := g.state()
					return st.Clients[0].Busy == "" && st.Clients[1].Busy == "" && st.Clients[0].Parked+st.Clients[1].Parked == 0
				})
				for _, e := range g.all() {
					if e.Text == "" || e.Outcome == "" || e.Actor == "" || strings.Contains(e.Text, "  ") {
						t.Errorf("got %+v", e)
					}
				}
			})
		}
	}
}

// TestFlushNeedsAWay is refused where the lock store cannot be made to forget.
func TestFlushNeedsAWay(t *testing.T) {
	t.Parallel()
	o := inMemory()
	o.Forget = nil
	g := newBench(t, o).begin(lab.NewSession{Mode: lab.ModeGrant})
	if status, text := g.send(http.MethodPost, g.path("/commands"), `{"actor":"operator","action":"flush"}`); status != http.StatusConflict || !strings.Contains(text, "cannot be made to forget") {
		t.Errorf("got %d %s", status, text)
	}
}

// TestThePage is served with a strict policy, and nothing else is.
func TestThePage(t *testing.T) {
	t.Parallel()
	b := newBench(t, inMemory())
	resp, err := http.Get(b.url + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"Referrer-Policy":         "no-referrer", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Content-Type": "text/html; charset=utf-8",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	tag := resp.Header.Get("ETag")
	if status, text := b.send(http.MethodGet, "/", "", "If-None-Match: "+tag); status != http.StatusNotModified || text != "" {
		t.Errorf("got %d %q", status, text)
	}
	for _, path := range []string{"/assets/", "/assets/index.html", "/assets/../index.html", "/assets/chapters/01-paused-client.json", "/index.html"} {
		if status, _ := b.send(http.MethodGet, path, ""); status != http.StatusNotFound {
			t.Errorf("%s: got %d", path, status)
		}
	}
	status, text := b.send(http.MethodGet, "/api/about", "")
	var about lab.About
	if err := json.Unmarshal([]byte(text), &about); status != http.StatusOK || err != nil {
		t.Fatalf("got %d %s", status, text)
	}
	if about.Lock != "memory" || about.Version != "test" || len(about.Modes) != 4 || !about.Flush || about.TTLDefault == "" || len(about.Chapters) == 0 {
		t.Errorf("got %+v", about)
	}
}

// TestWrongChapters are refused, each with what is wrong.
func TestWrongChapters(t *testing.T) {
	t.Parallel()
	const step = `{"say":"x","command":{"actor":"A","action":"read"},"expect":{}%s}`
	chapter := func(slug, more string) string {
		return fmt.Sprintf(`{"slug":%q,"title":"t","lead":"l","takeaway":"w","parts":[{"title":"p","mode":"grant","steps":[`+step+`]}]}`, slug, more)
	}
	good := chapter("one", `,"predict":{"ask":"?","answers":["a","b"],"right":1,"why":"w"}`)
	if c, err := lab.LoadChapters(fstest.MapFS{"c/01-one.json": {Data: []byte(good)}}, "c"); err != nil || len(c) != 1 {
		t.Fatalf("got %v, %v", c, err)
	}
	for want, files := range map[string]fstest.MapFS{
		"unknown field":        {"c/01-one.json": {Data: []byte(chapter("one", `,"more":1`))}},
		"another chapter":      {"c/01-one.json": {Data: []byte(good)}, "c/02-one.json": {Data: []byte(good)}},
		"as in the file's":     {"c/01-two.json": {Data: []byte(good)}},
		"must be like":         {"c/one.json": {Data: []byte(good)}},
		"right answer is 2":    {"c/01-one.json": {Data: []byte(chapter("one", `,"predict":{"ask":"?","answers":["a","b"],"right":2,"why":"w"}`))}},
		"1 answers":            {"c/01-one.json": {Data: []byte(chapter("one", `,"predict":{"ask":"?","answers":["a"],"right":0,"why":"w"}`))}},
		"there is more":        {"c/01-one.json": {Data: []byte(good + "{}")}},
		"parts, or is":         {"c/01-one.json": {Data: []byte(`{"slug":"one","title":"t","lead":"l","takeaway":"w","parts":[]}`)}},
		"title and steps":      {"c/01-one.json": {Data: []byte(`{"slug":"one","title":"t","lead":"l","takeaway":"w","parts":[{"title":"p","mode":"grant","steps":[]}]}`)}},
		"must say something":   {"c/01-one.json": {Data: []byte(`{"slug":"one","title":"","lead":"l","takeaway":"w","parts":[]}`)}},
		"A, B or operator":     {"c/01-one.json": {Data: []byte(strings.Replace(good, `"A"`, `"C"`, 1))}},
		"none, lock, writes":   {"c/01-one.json": {Data: []byte(strings.Replace(good, `"grant"`, `"all"`, 1))}},
		"done, waiting or par": {"c/01-one.json": {Data: []byte(strings.Replace(good, `"expect":{}`, `"expect":{"status":"x"}`, 1))}},
	} {
		if _, err := lab.LoadChapters(files, "c"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "c/") {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// TestNothingIsLeft closes a lab with sessions at work in it.
func TestNothingIsLeft(t *testing.T) { //nolint:paralleltest // it looks at all goroutines
	before := goleak.IgnoreCurrent()
	t.Run("lab", func(t *testing.T) {
		b := newBench(t, inMemory())
		g := b.begin(lab.NewSession{Mode: lab.ModeGrant, TTL: "300ms"})
		g.do("A", lab.Acquire)
		g.command(lab.Command{Actor: "B", Action: lab.Acquire}) // waits
		b.begin(lab.NewSession{Mode: lab.ModeLock, Lock: "nodes"}).do("A", lab.Acquire)
		paused := b.begin(lab.NewSession{Mode: lab.ModeNone})
		paused.do("A", lab.AddFree)
		paused.do("A", lab.Pause)
		paused.command(lab.Command{Actor: "A", Action: lab.Read})
		closed := make(chan error, 1)
		var once sync.Once
		g.watch("", func(_ []trace.Event, kind string) bool {
			once.Do(func() {
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
					defer cancel()
					closed <- b.lab.Close(ctx)
				}()
			})
			return kind == "end"
		})
		if err := <-closed; err != nil {
			t.Error(err)
		}
		g.until(func() bool {
			status, _ := b.send(http.MethodPost, "/api/sessions", `{"mode":"grant"}`)
			return status == http.StatusServiceUnavailable
		})
	})
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, append(testenv.Goroutines(), before)...)
}
