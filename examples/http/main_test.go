//go:build unix

package http_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/internal/readme"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

const root = "../.."

// start serves a gateway on this machine, and returns its URL.
func start(t *testing.T, keys apikey.Ring) string {
	t.Helper()
	return serve(t, newGateway(t, keys))
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func newGateway(t *testing.T, keys apikey.Ring) http.Handler {
	t.Helper()
	store, err := storage.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Issuer: issuer, Store: store, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// run runs a program in the project's root.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("%v: make deps installs it", err)
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Env = append(cmd.Env, env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("%s: %v\n%s%s", name, err, out, errs.String())
	}
	return string(out)
}

// TestReadme runs every shell block of the README in one shell, and compares what each prints with
// the block that follows it.
func TestReadme(t *testing.T) {
	t.Parallel()
	for _, needed := range []string{"curl", "python3", "node"} { // a shell would not say what to do
		if _, err := exec.LookPath(needed); err != nil {
			t.Fatalf("%v: make deps installs it", err)
		}
	}
	sessions := readme.Sessions(t, "README.md", 9)
	scripts := make([]string, len(sessions))
	for i, s := range sessions {
		scripts[i] = "exec 2>&1\n" + s.Script // nothing may be said beside it
	}
	got := readme.Run(t, root, []string{"FENCEGATE_URL=" + start(t, nil), "PYTHONDONTWRITEBYTECODE=1"}, scripts...)
	for i, s := range sessions {
		if untimed(got[i]) != untimed(s.Output) {
			t.Errorf("block %d: got\n%s\nwant\n%s", i, got[i], s.Output)
		}
	}
}

// untimed takes out what hangs on the clock.
func untimed(s string) string {
	return regexp.MustCompile(`[0-9.]+s( more unless renewed|"})`).ReplaceAllString(s, "$1")
}

const key = "fg_example.0123456789abcdef"

// ring knows one key.
type ring struct{}

func (ring) Find(text string) (apikey.Key, bool) {
	return apikey.Key{ID: "example", Scopes: apikey.Lock | apikey.Write | apikey.Read, Prefixes: []string{"coupon:"}}, text == key
}

// TestWithAKey runs the programs against a gateway that wants to know who they are.
func TestWithAKey(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]string{"python3": "client.py", "node": "client.mjs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t, ring{})
			out := run(t, []string{"FENCEGATE_URL=" + url, "FENCEGATE_API_KEY=" + key}, name, "examples/http/"+program)
			if !strings.Contains(out, "and is refused: 412 stale-token") || !strings.HasSuffix(out, "\n9 are left\n") {
				t.Errorf("got\n%s", out)
			}
			cmd := exec.CommandContext(context.WithoutCancel(t.Context()), name, "examples/http/"+program)
			cmd.Dir, cmd.Env = root, append(os.Environ(), "no_proxy=127.0.0.1", "FENCEGATE_URL="+url, "FENCEGATE_API_KEY=wrong")
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "401 unauthorized") {
				t.Errorf("with a wrong key: got %v\n%s", err, out)
			}
		})
	}
}

// TestPythonHalfReplies: a reply that is cut off is none: the lock is asked for again, with the same
// grant id, and renewals go on. And no token goes to a proxy.
func TestPythonHalfReplies(t *testing.T) {
	t.Parallel()
	g := newGateway(t, nil)
	var mu sync.Mutex // guards cut
	cut := map[string]bool{}
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		first := !cut[r.Method]
		cut[r.Method] = true
		mu.Unlock()
		if !first || r.Method != http.MethodPost && r.Method != http.MethodPatch {
			g.ServeHTTP(w, r)
			return
		}
		g.ServeHTTP(httptest.NewRecorder(), r)
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush() // else nothing of it is sent
		panic(http.ErrAbortHandler)
	}))
	out := run(t, []string{"FENCEGATE_URL=" + url, "PYTHONPATH=examples/http", "http_proxy=http://127.0.0.1:1", "no_proxy=", "NO_PROXY="},
		"python3", "-c", `
import client, time
with client.Lease("a", ttl=1.5) as lease:
    end = time.monotonic() + 20
    first = lease.deadline
    while lease.deadline == first and time.monotonic() < end:
        time.sleep(0.05)
    print(lease.number, lease.deadline > first)
`)
	if out != "1 True\n" {
		t.Errorf("got %s", out)
	}
}

func TestShortEnoughToCopy(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"client.py", "client.mjs"} {
		src, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(src), "\n"); n > 150 {
			t.Errorf("%s has %d lines, want at most 150", program, n)
		}
	}
}
