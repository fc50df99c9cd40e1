//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
)

// patience is how long a test waits for what must come: it is no promise, and a busy machine needs it.
const patience = time.Minute

// wrapped is an exec that runs, without a terminal, in a folder of its own.
type wrapped struct {
	*exec.Cmd
	dir            string
	stdout, stderr bytes.Buffer
}

// wrap prepares an exec with the shell script as its command.
func wrap(t *testing.T, r *rig, script string, flags ...string) *wrapped {
	t.Helper()
	args := append([]string{"exec", "coupon:42", "--url", r.url}, flags...)
	w := &wrapped{Cmd: command(t, append(args, "--", "sh", "-c", script)...), dir: t.TempDir()}
	w.Dir, w.Stdout, w.Stderr = w.dir, &w.stdout, &w.stderr
	w.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return w
}

func (w *wrapped) begin(t *testing.T) {
	t.Helper()
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
}

// await waits until the command has written a file.
func (w *wrapped) await(t *testing.T, name string) {
	t.Helper()
	testenv.Eventually(t, patience, "the file "+name, func() bool { return w.read(name) != "" })
}

func (w *wrapped) read(name string) string {
	b, _ := os.ReadFile(filepath.Join(w.dir, name))
	return strings.TrimSpace(string(b))
}

func (w *wrapped) write(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *wrapped) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := w.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// ends waits for the wrapper's end and checks its exit status.
func (w *wrapped) ends(t *testing.T, want int) {
	t.Helper()
	_ = w.Wait()
	if got := w.ProcessState.ExitCode(); got != want {
		t.Errorf("exit status %d, want %d; %s%s", got, want, w.stdout.String(), w.stderr.String())
	}
}

// gone waits until the process whose number is in a file is no more.
func (w *wrapped) gone(t *testing.T, name string) {
	t.Helper()
	var pid int
	if _, err := fmt.Sscan(w.read(name), &pid); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, name+" to be gone", func() bool {
		p, there := processes()[pid]
		return !there || strings.HasPrefix(p.state, "Z") // an orphan that nobody waits for
	})
}

// forever is a script that heeds nothing but SIGKILL.
const forever = `trap '' TERM; echo $$ >child; while :; do sleep 0.05; done`

// TestExecEndsWhatIgnoresTheEnd evicts the holder: its command and what that has started are
// asked, and then killed.
func TestExecEndsWhatIgnoresTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, fencing.Strict)
	w := wrap(t, r, `(echo $(exec sh -c 'echo $PPID') >grandchild; `+strings.Replace(forever, "child", "inner", 1)+`) & `+forever, "--ttl", "10s", "--grace", "100ms")
	w.begin(t)
	w.await(t, "child")
	w.await(t, "grandchild")
	if err := r.issuer.Evict(t.Context(), "coupon:42", r.status(t, "coupon:42").Number, "test"); err != nil {
		t.Fatal(err)
	}
	w.ends(t, exitLost)
	w.gone(t, "child")
	w.gone(t, "grandchild")
	if got := w.stderr.String(); !strings.Contains(got, "is lost: ending the command") || !strings.Contains(got, "the lease was lost while the command ran") {
		t.Errorf("standard error: %s", got)
	}
}

// TestExecLosesAndItsWriteIsRefused evicts a holder whose command goes on and writes.
func TestExecLosesAndItsWriteIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, fencing.Strict)
	w := wrap(t, r, `trap '' TERM; fencegate records put coupon:42 stock 10 || exit 9; echo x >ready
		while [ ! -e go ]; do sleep 0.05; done
		fencegate records put coupon:42 stock 9; echo $? >refused`, "--ttl", "1m", "--grace", "1m")
	w.begin(t)
	w.await(t, "ready")
	if err := r.issuer.Evict(t.Context(), "coupon:42", r.status(t, "coupon:42").Number, "test"); err != nil {
		t.Fatal(err)
	}
	token := r.take(t, "coupon:42")
	if _, err := r.store.Put(t.Context(), token, "stock", []byte("8")); err != nil {
		t.Fatal(err)
	}
	w.write(t, "go")
	w.ends(t, exitLost)
	if got := w.read("refused"); got != "76" {
		t.Errorf("the write of the evicted command ended with %s, want 76", got)
	}
	if rec, err := r.store.Get(t.Context(), "coupon:42", "stock"); err != nil || string(rec.Value) != "8" {
		t.Errorf("the record is %s, %v, want 8", rec.Value, err)
	}
	if got := r.status(t, "coupon:42"); !got.Held || got.Number != token.Number {
		t.Errorf("the lock is %+v: the loser has touched it", got)
	}
}

// TestExecSignalWhileWaiting leaves the line, and runs nothing.
func TestExecSignalWhileWaiting(t *testing.T) {
	t.Parallel()
	r := newRig(t, fencing.Strict)
	r.take(t, "coupon:42")
	var waiting []*wrapped
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1}
	for range signals {
		w := wrap(t, r, "echo x >ran")
		w.begin(t)
		waiting = append(waiting, w)
	}
	testenv.Eventually(t, patience, "all to wait", func() bool { return r.status(t, "coupon:42").Waiters == len(signals) })
	for i, w := range waiting {
		w.signal(t, signals[i])
		w.ends(t, exitSignal+int(signals[i]))
		if !strings.Contains(w.stderr.String(), "nothing is held") || w.read("ran") != "" {
			t.Errorf("%v: %s", signals[i], w.stderr.String())
		}
	}
	testenv.Eventually(t, patience, "the line to be empty", func() bool { return r.status(t, "coupon:42").Waiters == 0 })
}

// TestExecSignalBeforeAll is a signal that came before exec had begun to catch them.
func TestExecSignalBeforeAll(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	bound, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	none := &signals{c: make(chan os.Signal)}
	if sig := none.came(bound); sig != nil {
		t.Errorf("%v came, want none", sig)
	}
	cancel(arrived{syscall.SIGTERM})
	if sig := none.came(bound); sig != syscall.SIGTERM || !errors.Is(context.Cause(bound), context.Canceled) {
		t.Errorf("%v came, want %v", sig, syscall.SIGTERM)
	}
}

// TestExecForwardsSignals sends each signal to the wrapper: the command gets it, once.
func TestExecForwardsSignals(t *testing.T) {
	t.Parallel()
	r := newRig(t, fencing.Strict)
	w := wrap(t, r, `n=0
		for s in HUP INT QUIT USR1 USR2; do trap "echo $s >>got" $s; done
		trap 'echo TERM >>got; exit 7' TERM
		echo x >ready; while :; do sleep 0.05; done`)
	w.begin(t)
	w.await(t, "ready")
	want := ""
	for _, s := range []struct {
		sig  syscall.Signal
		name string
	}{
		{syscall.SIGHUP, "HUP"}, {syscall.SIGINT, "INT"}, {syscall.SIGQUIT, "QUIT"}, {syscall.SIGUSR1, "USR1"}, {syscall.SIGUSR2, "USR2"}, {syscall.SIGTERM, "TERM"},
	} {
		w.signal(t, s.sig)
		want = strings.TrimSpace(want + "\n" + s.name)
		testenv.Eventually(t, patience, s.name, func() bool { return w.read("got") == want })
	}
	w.ends(t, 7)
	if got := r.status(t, "coupon:42"); got.Held {
		t.Errorf("the lock is still held: %+v", got)
	}
}

// TestExecStopped stops the wrapper alone until its lock has expired: when it wakes up, the
// command ends.
func TestExecStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t, fencing.Strict)
	w := wrap(t, r, `echo $$ >child; while :; do sleep 0.05; done`, "--ttl", "5s")
	w.begin(t)
	w.await(t, "child")
	w.signal(t, syscall.SIGSTOP)
	testenv.Eventually(t, patience, "the lock to expire", func() bool { return !r.status(t, "coupon:42").Held })
	w.signal(t, syscall.SIGCONT)
	w.ends(t, exitLost)
	w.gone(t, "child")
}

// TestExecInLine runs two commands on one resource one after the other.
func TestExecInLine(t *testing.T) {
	t.Parallel()
	r := newRig(t, fencing.Strict)
	log := filepath.Join(t.TempDir(), "log")
	first := wrap(t, r, `echo in >>`+log+`; echo x >ready; while [ ! -e go ]; do sleep 0.05; done; echo out >>`+log)
	first.begin(t)
	first.await(t, "ready")
	second := wrap(t, r, `echo in >>`+log+`; echo out >>`+log)
	second.begin(t)
	testenv.Eventually(t, patience, "the second to wait", func() bool { return r.status(t, "coupon:42").Waiters == 1 })
	first.write(t, "go")
	first.ends(t, 0)
	second.ends(t, 0)
	if got, err := os.ReadFile(log); err != nil || string(got) != "in\nout\nin\nout\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestExecLeavesIgnoredSignals is an exec under nohup.
func TestExecLeavesIgnoredSignals(t *testing.T) {
	t.Parallel()
	r := newRig(t, fencing.Strict)
	w := wrap(t, r, "")
	sh := exec.CommandContext(t.Context(), "sh", "-c", `trap '' HUP INT; exec fencegate exec coupon:42 --url "$1" -- sh -c 'kill -HUP $$; kill -INT $$; kill -HUP $PPID; kill -INT $PPID; echo alive'`, "sh", r.url)
	sh.SysProcAttr = w.SysProcAttr
	out, err := sh.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); failed || string(out) != "alive\n" {
		t.Errorf("%s, %v", out, err)
	}
}
