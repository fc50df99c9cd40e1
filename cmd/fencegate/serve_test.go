//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
)

// replica is a server in a process of its own.
type replica struct {
	t         *testing.T
	cmd       *exec.Cmd
	url       string
	adminURL  string
	log       *growing
	exited    chan struct{}
	http      http.Client
	stoppedBy time.Duration // how long the process took to end after a signal
}

// growing is a log that is written and read at the same time.
type growing struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (g *growing) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.Write(p)
}

func (g *growing) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.String()
}

// startReplica runs "fencegate serve args...", on a free port if they name none, and waits until
// it says that it serves. What is still running ends with the test.
func startReplica(t *testing.T, args ...string) *replica {
	t.Helper()
	if !slices.Contains(args, "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	r := &replica{t: t, log: &growing{}, exited: make(chan struct{})}
	r.http.Transport = &http.Transport{}
	t.Cleanup(r.http.CloseIdleConnections)
	r.cmd = command(t, append([]string{"serve", "--output", "json"}, args...)...)
	r.cmd.Dir, r.cmd.Env = t.TempDir(), clean()
	r.cmd.Stderr = r.log
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.exited
		if t.Failed() {
			t.Logf("fencegate %s\n%s", strings.Join(r.cmd.Args[1:], " "), r.log)
		}
	})
	line, readErr := bufio.NewReader(out).ReadBytes('\n')
	go func() {
		defer close(r.exited)
		_, _ = io.Copy(io.Discard, out)
		_ = r.cmd.Wait()
	}()
	var said struct {
		URL      string `json:"url"`
		AdminURL string `json:"admin_url"`
	}
	if readErr != nil || json.Unmarshal(line, &said) != nil {
		t.Fatalf("serve %v said %q, %v", args, line, readErr)
	}
	r.url, r.adminURL = said.URL, said.AdminURL
	return r
}

// clean is the environment without anything that a server would heed.
func clean() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "FENCEGATE_") && !strings.HasPrefix(e, "OTEL_") {
			env = append(env, e)
		}
	}
	return env
}

// stop sends SIGTERM and waits for the end, which must be a clean one.
func (r *replica) stop() {
	r.t.Helper()
	began := time.Now()
	r.signal(syscall.SIGTERM)
	r.wait(exitOK)
	r.stoppedBy = time.Since(began)
}

func (r *replica) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replica) wait(status int) {
	r.t.Helper()
	select {
	case <-r.exited:
	case <-time.After(time.Minute):
		r.t.Fatal("the server does not end")
	}
	if got := r.cmd.ProcessState.ExitCode(); got != status {
		r.t.Errorf("exit status %d, want %d", got, status)
	}
}

// in returns the same server for a subtest.
func (r *replica) in(t *testing.T) *replica {
	in := *r
	in.t = t
	return &in
}

// answer is a reply.
type answer struct {
	status int
	header http.Header
	body   string
	closed bool // the connection was, or will be
}

// call sends a request; headers come in pairs of name and value.
func (r *replica) call(method, url, body string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b), resp.Close}, err
}

// want is call, whose reply must have a status.
func (r *replica) want(status int, method, url, body string, headers ...string) answer {
	r.t.Helper()
	a, err := r.call(method, url, body, headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	if a.status != status {
		r.t.Fatalf("%s %s: %d %s, want %d", method, url, a.status, a.body, status)
	}
	return a
}

// lock takes a lock and returns the text of its token.
func (r *replica) lock(resource, request string, headers ...string) string {
	r.t.Helper()
	var granted struct{ Token string }
	a := r.want(201, "POST", r.url+"/v1/resources/"+resource+"/lock", request, headers...)
	if err := json.Unmarshal([]byte(a.body), &granted); err != nil {
		r.t.Fatal(err)
	}
	return granted.Token
}

// freePort returns an address of this machine that stays free between two runs of a server: below
// the ports of outgoing connections, and claimed by its UDP twin.
func freePort(t *testing.T) string {
	t.Helper()
	for n := 11999; n > 8100; n-- {
		addr := "127.0.0.1:" + strconv.Itoa(n)
		claim, err := net.ListenPacket("udp4", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp4", addr)
		if err != nil {
			claim.Close()
			continue
		}
		l.Close()
		t.Cleanup(func() { claim.Close() })
		return addr
	}
	t.Fatal("no free port")
	return ""
}

// TestServePairs starts a server over every lock and every store: it locks, writes, refuses what
// is stale, is ready, and ends cleanly.
func TestServePairs(t *testing.T) {
	t.Parallel()
	var nodes []string
	for range 3 {
		nodes = append(nodes, testenv.StartRedis(t, nil).URL())
	}
	if out, err := command(t, "redlock", "init", "--redlock-urls", strings.Join(nodes, ",")).CombinedOutput(); err != nil {
		t.Fatalf("redlock init: %v\n%s", err, out)
	}
	locks := map[string]string{"memory": "", "redis": "redis", "redlock": "redlock", "postgres": "postgres"}
	for lock := range locks {
		for _, store := range []string{"sqlite", "memory", "redis", "postgres"} {
			t.Run(lock+"+"+store, func(t *testing.T) {
				t.Parallel()
				args := []string{"--lock", lock, "--store", store, "--drain-delay", "0s"}
				if lock == "redis" || store == "redis" {
					args = append(args, "--redis-url", testenv.SharedRedis(t).URL())
				}
				if lock == "postgres" || store == "postgres" {
					args = append(args, "--postgres-url", pgtxtest.Database(t))
				}
				if lock == "redlock" {
					args = append(args, "--redlock-urls", strings.Join(nodes, ","))
				}
				r := startReplica(t, args...)
				useIt(t, r)
				ready := r.want(200, "GET", r.url+"/readyz?verbose", "").body
				for _, part := range []string{"lock " + lock, "store " + store} {
					if !strings.Contains(ready, part) {
						t.Errorf("/readyz says nothing of %s:\n%s", part, ready)
					}
				}
				if lock == "postgres" && !strings.Contains(ready, "schema version") {
					t.Errorf("/readyz says nothing of the schema:\n%s", ready)
				}
				r.stop()
			})
		}
	}
}

// useIt locks, writes and reads, and comes too late.
func useIt(t *testing.T, r *replica) {
	t.Helper()
	name := testenv.Unique(t, "coupon")
	record := r.url + "/v1/resources/" + name + "/records/left"
	token := r.lock(name, `{"ttl": "20s"}`)
	r.want(204, "PUT", record, "10", "Fencing-Token", token)
	if got := r.want(200, "GET", record, "", "Fencing-Token", token); got.body != "10" {
		t.Errorf("read %q, want 10", got.body)
	}
	r.want(423, "POST", r.url+"/v1/resources/"+name+"/lock", `{"ttl": "20s"}`)
	r.want(200, "DELETE", r.url+"/v1/resources/"+name+"/lock", "", "Fencing-Token", token)
	r.want(412, "PUT", record, "9", "Fencing-Token", token)
	newer := r.lock(name, `{"ttl": "20s", "wait": "5s"}`)
	r.want(412, "PUT", record, "9", "Fencing-Token", token)
	r.want(204, "PUT", record, "8", "Fencing-Token", newer)
}

// TestServeNothing runs the lines that a server without flags prints, as they are printed.
func TestServeNothing(t *testing.T) {
	t.Parallel()
	r := startReplica(t, "--drain-delay", "0s")
	testenv.Eventually(t, 10*time.Second, "what to try", func() bool { return strings.Contains(r.log.String(), "it is refused.") })
	var lines []string
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, "curl ") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 3 {
		t.Fatalf("%d lines to try, want 3:\n%s", len(lines), r.log)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.Join(lines, ""))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"204 No Content", "Fencing-Mark: 1", `{"released":true}`, "412 Precondition Failed", "/problems/stale-token"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the lines do not show %q:\n%s", want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(r.cmd.Dir, sqliteDefault)); err != nil {
		t.Error(err)
	}
	r.stop()
}

// TestServeKilled kills a server and starts it again on the same file: the marks are there, the
// token of before is refused, the next number is higher.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kept.db")
	r := startReplica(t, "--sqlite-path", file)
	record := "/v1/resources/coupon:42/records/left"
	r.lock("coupon:41", `{}`)
	token := r.lock("coupon:42", `{"ttl": "1m"}`)
	r.want(204, "PUT", r.url+record, "10", "Fencing-Token", token)
	r.signal(syscall.SIGKILL)
	<-r.exited

	r = startReplica(t, "--sqlite-path", file, "--drain-delay", "0s")
	if got := r.want(200, "GET", r.url+record, ""); got.body != "10" {
		t.Errorf("the record is %q, want 10", got.body)
	}
	late := r.want(412, "PUT", r.url+record, "9", "Fencing-Token", token)
	if !strings.Contains(late.body, `"reason":"retired"`) {
		t.Errorf("the token of before: %s, want it retired", late.body)
	}
	next := r.lock("coupon:42", `{}`)
	if !strings.HasPrefix(next, "2.") {
		t.Errorf("the next token is %.2s..., want 2", next)
	}
	r.want(204, "PUT", r.url+record, "9", "Fencing-Token", next)
	r.stop()
}

// TestServeEnvironment finds a variable for every flag of serve.
func TestServeEnvironment(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&cli{}, kong.Vars{"pause": "signal"})
	if err != nil {
		t.Fatal(err)
	}
	flags := 0
	for _, node := range parser.Model.Children {
		if node.Name != "serve" {
			continue
		}
		for _, f := range node.Flags {
			flags++
			if f.Name != "output" && !slices.Contains(f.Envs, "FENCEGATE_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))) {
				t.Errorf("--%s has the variables %v", f.Name, f.Envs)
			}
		}
	}
	if flags < 40 {
		t.Errorf("serve has %d flags", flags)
	}
	// A variable counts.
	cmd := command(t, "serve")
	cmd.Env = append(clean(), "FENCEGATE_LISTEN=0.0.0.0:0")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "--insecure") {
		t.Errorf("%v: %s", err, out)
	}
}
