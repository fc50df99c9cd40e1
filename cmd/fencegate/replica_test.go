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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
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
	return startReplicaIn(t, nil, args...)
}

// startReplicaIn is startReplica with variables.
func startReplicaIn(t *testing.T, env []string, args ...string) *replica {
	t.Helper()
	if !slices.Contains(args, "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	r := &replica{t: t, log: &growing{}, exited: make(chan struct{})}
	r.http.Transport = &http.Transport{}
	t.Cleanup(r.http.CloseIdleConnections)
	r.cmd = command(t, append([]string{"serve", "--output", "json"}, args...)...)
	r.cmd.Dir, r.cmd.Env = t.TempDir(), append(clean(), env...)
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
