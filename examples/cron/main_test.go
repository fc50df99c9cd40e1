//go:build unix

package cron_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/internal/readme"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
)

const (
	patience = 60 * time.Second
	night    = "2026-11-21"
	buckets  = 3
	items    = 4
)

// bin has the program fencegate.
var bin string

func TestMain(m *testing.M) {
	var err error
	if bin, err = os.MkdirTemp("", "cron-"); err == nil {
		cmd := exec.Command("go", "build", "-o", bin, "../../cmd/fencegate")
		cmd.Stderr = os.Stderr
		err = cmd.Run()
	}
	status := 1
	if err == nil {
		status = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(bin)
	os.Exit(status)
}

// hosts are several hosts that share a gateway, and a folder in which their work leaves traces.
type hosts struct {
	dir, url string
	store    *client.Store
}

// work does an item: it leaves a trace. Where the file halt names this host and this item, it says
// so and stays until there is a file go, or the test has ended: nobody else ends what outlives a kill.
const work = `#!/bin/sh
echo "$1 $2" >>"$DIR/trace"
if [ -e "$DIR/halt" ] && [ "$(cat "$DIR/halt")" = "$HOST $1 $2" ]; then
	: >"$DIR/halted"
	while [ -d "$DIR" ] && [ ! -e "$DIR/go" ]; do sleep 0.05; done
fi
echo "$2"
`

func newHosts(t *testing.T) *hosts {
	t.Helper()
	h := &hosts{dir: t.TempDir()}
	address := testenv.FreeAddress(t)
	h.url = "http://" + address
	serve := h.command(t, "fencegate", "serve", "--listen", address, "--drain-delay", "0s", "--log-level", "warn")
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.leave(t, "go", "")
		_ = serve.Process.Signal(syscall.SIGTERM)
		if err := serve.Wait(); err != nil {
			t.Errorf("fencegate serve: %v\n%s", err, said(t, serve))
		}
	})
	testenv.Eventually(t, patience, "the gateway", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	c, err := client.New(h.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.store = c.Store()
	if err := os.WriteFile(filepath.Join(h.dir, "work"), []byte(work), 0o700); err != nil {
		t.Fatal(err)
	}
	return h
}

// command prepares a program that finds fencegate in its path, and nothing of ours in its environment.
func (h *hosts) command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	path := bin + ":" + os.Getenv("PATH")
	if name == "fencegate" {
		name = filepath.Join(bin, name)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...) // a cleanup stops it
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "FENC") || strings.HasPrefix(v, "PATH=")
	})
	cmd.Env = append(cmd.Env, "PATH="+path)
	log, err := os.CreateTemp(h.dir, "*.log") // a file, so that it can be read while it is written
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	cmd.Dir, cmd.Stderr = h.dir, log
	return cmd
}

// said is what a command has written to its standard error.
func said(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	log, ok := cmd.Stderr.(*os.File)
	if !ok {
		t.Fatal("its standard error is no file")
	}
	text, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// nightly prepares a run of the script on a host, in a process group of its own.
func (h *hosts) nightly(t *testing.T, host string, env ...string) *exec.Cmd {
	t.Helper()
	script, err := filepath.Abs("nightly.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := h.command(t, "sh", script)
	cmd.Env = append(cmd.Env, "FENCEGATE_URL="+h.url, "HOST="+host, "DIR="+h.dir, "WORK="+h.dir+"/work", "NIGHT="+night,
		fmt.Sprintf("BUCKETS=%d", buckets), fmt.Sprintf("ITEMS=%d", items), "TTL=1m", "no_proxy=127.0.0.1")
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// leave leaves a file in the folder.
func (h *hosts) leave(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		t.Error(err)
	}
}

func (h *hosts) await(t *testing.T, name string) {
	t.Helper()
	testenv.Eventually(t, patience, "the file "+name, func() bool {
		_, err := os.Stat(filepath.Join(h.dir, name))
		return err == nil
	})
}

// trace counts how often each item was worked on.
func (h *hosts) trace(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for line := range strings.Lines(string(text)) {
		n[strings.TrimSpace(line)]++
	}
	return n
}

func bucket(i int) string { return fmt.Sprintf("job:nightly.b%02d", i) }

// done is how many items of a bucket are done, and the sum of their results, by the records' account.
func (h *hosts) done(t *testing.T, resource string) (n, total int64) {
	t.Helper()
	for key, to := range map[string]*int64{"done:" + night: &n, "total:" + night: &total} {
		rec, err := h.store.Get(t.Context(), resource, key)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		*to, _ = storage.ParseCounter(rec.Value)
	}
	return n, total
}

// untilDone runs the script on a host again and again, as cron does.
func (h *hosts) untilDone(t *testing.T, host string) {
	t.Helper()
	testenv.Eventually(t, patience, "the end of the job", func() bool {
		cmd := h.nightly(t, host)
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", host, err, said(t, cmd))
		}
		for i := range buckets {
			if n, _ := h.done(t, bucket(i)); n != items {
				return false
			}
		}
		return true
	})
}

// exactlyOnce checks the account.
func (h *hosts) exactlyOnce(t *testing.T) {
	t.Helper()
	for i := range buckets {
		if n, total := h.done(t, bucket(i)); n != items || total != items*(items+1)/2 {
			t.Errorf("%s: %d items with a total of %d, want %d with %d", bucket(i), n, total, items, items*(items+1)/2)
		}
	}
}

// TestShared: two hosts share the work. When both have ended all is done: what one passed over
// was with the other. Nothing is done twice.
func TestShared(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	one, two := h.nightly(t, "one"), h.nightly(t, "two")
	for _, cmd := range []*exec.Cmd{one, two} {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, cmd := range []*exec.Cmd{one, two} {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, said(t, cmd))
		}
	}
	h.exactlyOnce(t)
	for what, n := range h.trace(t) {
		if n != 1 {
			t.Errorf("%s was worked on %d times", what, n)
		}
	}
}

// TestTaken: a bucket that another host has is passed over, and the others are done meanwhile.
func TestTaken(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	h.leave(t, "halt", "one "+bucket(0)+" 2")
	one := h.nightly(t, "one")
	if err := one.Start(); err != nil {
		t.Fatal(err)
	}
	h.await(t, "halted")
	two := h.nightly(t, "two")
	if err := two.Run(); err != nil {
		t.Errorf("%v\n%s", err, said(t, two))
	}
	for i, want := range []int64{1, items, items} {
		if n, _ := h.done(t, bucket(i)); n != want {
			t.Errorf("%s: %d items are done, want %d", bucket(i), n, want)
		}
	}
	h.leave(t, "go", "")
	if err := one.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said(t, one))
	}
	h.exactlyOnce(t)
}

// TestKilled: a host dies in the middle of an item, and a later run goes on from there.
func TestKilled(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	h.leave(t, "halt", "one "+bucket(1)+" 3")
	one := h.nightly(t, "one", "TTL=2s")
	if err := one.Start(); err != nil {
		t.Fatal(err)
	}
	h.await(t, "halted")
	_ = syscall.Kill(-one.Process.Pid, syscall.SIGKILL) // the script and fencegate exec
	if err := one.Wait(); err == nil {
		t.Error("it was not killed")
	}
	h.untilDone(t, "one again")
	h.exactlyOnce(t)
	for what, n := range h.trace(t) {
		want := 1
		if what == bucket(1)+" 3" {
			want = 2 // the one that it was in the middle of
		}
		if n != want {
			t.Errorf("%s was worked on %d times, want %d", what, n, want)
		}
	}
}

// TestOutlived: a run that stands still outlives its lease while its work goes on. Another takes
// the bucket, and what the first one writes is refused.
func TestOutlived(t *testing.T) {
	t.Parallel()
	h := newHosts(t)
	h.leave(t, "halt", "one "+bucket(0)+" 2")
	one := h.nightly(t, "one", "TTL=2s")
	if err := one.Start(); err != nil {
		t.Fatal(err)
	}
	h.await(t, "halted")
	_ = syscall.Kill(-one.Process.Pid, syscall.SIGSTOP) // nobody renews the lease
	h.untilDone(t, "two")
	h.leave(t, "go", "") // the work ends, and is written
	testenv.Eventually(t, patience, "the refusal", func() bool { return strings.Contains(said(t, one), "is older than") })
	_ = syscall.Kill(-one.Process.Pid, syscall.SIGCONT)
	err := one.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if errs := said(t, one); !ok || exit.ExitCode() != 1 || !strings.Contains(errs, "b00 ended with status 77") {
		t.Errorf("got %v\n%s", err, errs)
	}
	h.exactlyOnce(t)
}

// TestNoNumbers: what counts nothing is refused, and not taken for a night without work.
func TestNoNumbers(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"BUCKETS=abc", "ITEMS=-1", "ITEMS=1 2"} {
		h := &hosts{dir: t.TempDir(), url: "http://" + testenv.FreeAddress(t)}
		cmd := h.nightly(t, "one", env)
		exit, ok := errors.AsType[*exec.ExitError](cmd.Run())
		if !ok || exit.ExitCode() != 2 || !strings.Contains(said(t, cmd), "want whole numbers; nothing was done") {
			t.Errorf("%s: got %v\n%s, want status 2", env, exit, said(t, cmd))
		}
	}
}

// TestNoGateway: nothing is begun.
func TestNoGateway(t *testing.T) {
	t.Parallel()
	h := &hosts{dir: t.TempDir(), url: "http://" + testenv.FreeAddress(t)}
	cmd := h.nightly(t, "one")
	exit, ok := errors.AsType[*exec.ExitError](cmd.Run())
	if !ok || exit.ExitCode() != 69 || !strings.Contains(said(t, cmd), "nightly: no gateway") {
		t.Errorf("got %v\n%s, want status 69", exit, said(t, cmd))
	}
}

// TestReadme runs the README's shell block in the project's root, and compares what it prints with
// the block that follows it.
func TestReadme(t *testing.T) {
	t.Parallel()
	s := readme.Sessions(t, "README.md", 1)[0]
	if got := readme.Run(t, "../..", []string{"FENCEGATE_LISTEN=" + testenv.FreeAddress(t)}, s.Script)[0]; got != s.Output {
		t.Errorf("got\n%s\nwant\n%s", got, s.Output)
	}
}
