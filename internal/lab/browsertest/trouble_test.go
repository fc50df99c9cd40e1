package browsertest_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// commands matches the path of a session's commands, sessions that of beginning one, events that of a stream.
var (
	commands = regexp.MustCompile(`/api/sessions/[0-9a-f]+/commands$`)
	sessions = regexp.MustCompile(`/api/sessions$`)
	events   = regexp.MustCompile(`/api/sessions/[0-9a-f]+/events$`)
)

// TestHiddenTab: a page at which nobody looks keeps no stream, as a browser has six connections to a
// server for all of its tabs. It can go on all the same, and has missed nothing when it is looked at.
func TestHiddenTab(t *testing.T) {
	t.Parallel()
	s := host(t, house{})
	var streams atomic.Int32
	s.guard(func(w http.ResponseWriter, r *http.Request, inside http.Handler) {
		if events.MatchString(r.URL.Path) {
			streams.Add(1)
			defer streams.Add(-1)
		}
		inside.ServeHTTP(w, r)
	})
	count := func(what string, want int32) {
		t.Helper()
		waitFor(t, what, func() bool { return streams.Load() == want })
	}
	p := open(t, s.url, "", desk)
	count("a page that is looked at has a stream", 1)
	p.look(false)
	count("a hidden page has none", 0)
	p.press("step-next")
	p.at(0, 1)
	count("a step of a hidden page leaves none behind", 0)
	if got := eval[int](p, rows); got != 1 {
		t.Errorf("after a step of a hidden page the table has %d events, want 1", got)
	}
	p.press("reset")
	p.at(0, 0)
	count("a session that was begun while nobody looked has none", 0)
	p.look(true)
	count("it has one when somebody does", 1)
	p.press("step-next")
	p.at(0, 1)
	if got := eval[int](p, rows); got != 1 {
		t.Errorf("after coming back and a step the table has %d events, want 1", got)
	}
}

// rows counts the events in the table.
const rows = `document.querySelectorAll('[data-testid^="row-"]').length`

// look makes the page believe that somebody looks at it, or nobody.
func (p *tab) look(somebody bool) {
	p.t.Helper()
	eval[bool](p, fmt.Sprintf(`(() => {
		Object.defineProperty(document, "hidden", {value: %t, configurable: true});
		document.dispatchEvent(new Event("visibilitychange"));
		return true;
	})()`, !somebody))
}

func waitFor(t *testing.T, what string, test func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !test(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("in vain for %v: %s", patience, what)
		}
	}
}

// TestFullLab: where there is no room it is said, and trying again is one press. Where there is room for
// one, a page that begins again gives its own place up first.
func TestFullLab(t *testing.T) {
	t.Parallel()
	s := host(t, house{sessions: 1})
	p := open(t, s.url, "", desk)
	var other string
	p.excuse(func() {
		s.guard(func(w http.ResponseWriter, r *http.Request, inside http.Handler) {
			if sessions.MatchString(r.URL.Path) { // somebody else was faster
				s.guard(nil)
				other = s.begin()
			}
			inside.ServeHTTP(w, r)
		})
		p.press("reset")
		const full = `/too many sessions.*try again/.test(document.getElementById("notice").innerText)`
		p.until("the page says that the lab is full", full)
		p.visit("") // who comes now has not even something to look at
		p.until("the page says it to who comes, too", full)
		p.settle()
	})
	p.sound("a full lab")
	p.keys(",.p") // there is nothing to look back at or to play, and no harm in it
	p.settle()
	s.call(http.MethodDelete, "api/sessions/"+other, "")
	p.press("start-again")
	for range 3 { // each time the place is its own
		p.at(0, 0)
		p.press("step-next")
		p.at(0, 1)
		p.press("reset")
	}
	p.at(0, 0)
}

// begin begins a session, and returns its id.
func (s *server) begin() string {
	body := s.call(http.MethodPost, "api/sessions", `{"mode":"none"}`)
	return regexp.MustCompile(`[0-9a-f]{32}`).FindString(body)
}

func (s *server) call(method, path, body string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.front.Client().Do(req)
	if err != nil {
		s.t.Error(err)
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		s.t.Errorf("%s %s: %s %s, %v", method, path, resp.Status, text, err)
	}
	return string(text)
}

// TestAnswers: whatever the server answers, or does not, is told in words, and the page can go on.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := host(t, house{})
	p := open(t, s.url, "", desk)
	for _, tt := range []struct {
		name, want string
		again      bool // a new session is offered
		answer     http.HandlerFunc
	}{
		{"too many commands", "as many commands as it may", true, problem(http.StatusTooManyRequests, "the session has taken as many commands as it may: begin a new one")},
		{"too large", "at most 4 KiB", false, problem(http.StatusRequestEntityTooLarge, "at most 4 KiB")},
		{"full", "the lab is closing", true, problem(http.StatusServiceUnavailable, "the lab is closing")},
		{"a proxy's page", "The server answered 502.", false, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html><b>Bad Gateway</b>")
		}},
		{"nothing", "The server does not answer.", true, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		s.guard(func(w http.ResponseWriter, r *http.Request, inside http.Handler) {
			if commands.MatchString(r.URL.Path) {
				tt.answer(w, r)
				return
			}
			inside.ServeHTTP(w, r)
		})
		p.excuse(func() {
			p.press("step-next")
			p.until(tt.name+" is told", fmt.Sprintf(`document.getElementById("notice").innerText.includes(%q)`, tt.want))
			p.idle()
		})
		s.guard(nil)
		if got := eval[bool](p, `document.querySelector('[data-testid="start-again"]') !== null`); got != tt.again {
			t.Errorf("%s: got a button to start again: %t, want %t", tt.name, got, tt.again)
		}
		p.press("reset")
		p.at(0, 0)
		if got := p.text("#notice"); got != "" {
			t.Errorf("%s: after a reset the page still says %q", tt.name, got)
		}
	}
	p.press("step-next")
	p.at(0, 1)
}

// problem answers with a reason for people.
func problem(status int, detail string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"type":"about:blank","title":"no","status":%d,"detail":%q}`, status, detail)
	}
}

// TestRestart: a server that was started again does not know the session any more. The page says so,
// keeps what happened to be looked at, and begins anew on request.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := host(t, house{})
	p := open(t, s.url, "", desk)
	p.press("step-next")
	p.at(0, 1)
	p.excuse(func() {
		s.restart()
		p.until("the page says that the session is over", `/session is over.*restarted/.test(document.getElementById("notice").innerText)`)
	})
	if got := eval[int](p, rows); got != 1 {
		t.Errorf("the table has %d events, want what happened", got)
	}
	p.press("start-again")
	p.at(0, 0)
	p.press("step-next")
	p.at(0, 1)
}

// TestOvertaken: who goes elsewhere, or begins again, while an answer is on its way, gets what was asked
// for last, and nothing of what was given up.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	s := host(t, house{})
	p := open(t, s.url, "", desk)
	hold := func(path *regexp.Regexp, answer http.HandlerFunc) (reached <-chan struct{}, release func()) {
		came, gone := make(chan struct{}), make(chan struct{})
		var once sync.Once
		s.guard(func(w http.ResponseWriter, r *http.Request, inside http.Handler) {
			first := false
			if path.MatchString(r.URL.Path) {
				once.Do(func() { first = true })
			}
			if first {
				close(came)
				select {
				case <-gone:
				case <-t.Context().Done():
				}
				if answer != nil {
					answer(w, r)
					return
				}
			}
			inside.ServeHTTP(w, r)
		})
		return came, func() { close(gone) }
	}
	goTo := func(slug string) { eval[bool](p, fmt.Sprintf(`location.hash = "#/%s", true`, slug)) }
	wait := func(what string, reached <-chan struct{}) {
		t.Helper()
		select {
		case <-reached:
		case <-time.After(patience):
			t.Fatalf("in vain for %v: %s", patience, what)
		}
	}
	story := func(want string) {
		t.Helper()
		p.idle()
		if got := p.text("#story"); !strings.Contains(got, want) || p.text("#notice") != "" {
			t.Errorf("the page tells %q and %q, want %q and nothing", got, p.text("#notice"), want)
		}
		p.press("step-next")
		p.at(0, 1)
	}

	reached, release := hold(commands, nil)
	p.press("step-next")
	wait("a command on its way", reached)
	p.press("reset")
	p.until("the page has begun again", `document.body.dataset.step === "0"`)
	p.excuse(func() { release(); p.idle(); p.settle() }) // its session is gone: 404
	story("Step 1 of 4")

	reached, release = hold(commands, nil)
	p.keys("n")
	wait("another one", reached)
	goTo("no-lock")
	p.until("the other chapter is told", `document.getElementById("story").innerText.includes("The best lock is none")`)
	p.excuse(func() { release(); p.idle(); p.settle() })
	story("The best lock is none")

	reached, release = hold(sessions, nil)
	goTo("retry")
	wait("a session that is begun", reached)
	goTo("release-and-evict")
	p.until("the other chapter has its session", `document.querySelector('[data-testid="step-next"]')?.ariaDisabled === "false"`)
	release()
	story("A token can also end without a newer one")

	reached, release = hold(sessions, problem(http.StatusServiceUnavailable, "too many sessions"))
	goTo("retry")
	wait("another one, which fails", reached)
	goTo("two-resources")
	p.until("the other chapter has its session", `document.querySelector('[data-testid="step-next"]')?.ariaDisabled === "false"`)
	p.excuse(func() { release(); p.idle(); p.settle() })
	story("A coupon comes with a gift")
}

// TestElsewhere: the page works wherever it is mounted, and behind TLS; what it lets copy leads there.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	s := host(t, house{prefix: "/tools/learn/lab", secure: true})
	p := open(t, s.url, "#/sandbox", desk)
	p.press("A-acquire")
	p.idle()
	p.keys("jj")
	p.until("a request is shown", `document.querySelector("#details .curl code")`)
	if got, want := p.text("#details .curl code"), s.url+"api/sessions/"; !strings.Contains(got, want) || !strings.HasPrefix(want, "https://") {
		t.Errorf("the curl line is %q, want one with %q", got, want)
	}
}
