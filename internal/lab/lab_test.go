package lab_test

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/lab"
	"github.com/fencegate/fencegate/internal/trace"
)

// web is not the default client: a test server that is closed in another test closes connections of that one.
var web = &http.Client{Transport: &http.Transport{}}

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
	resp, err := web.Get(b.url + "/")
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
