package pgguard_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	osexec "os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// TestStoppedHolder: a real process that called enter is stopped in the middle of its transaction.
// The next raise gets in all the same, and what the process goes on with has failed.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"idle", "busy"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			maxIdle := 2 * time.Second // no statement of the process comes later, on a busy machine, too
			w.exec(t, "update fencegate.meta set max_idle_ms = 2000")
			o := &pgstore.Options{MaxIdle: maxIdle, RaiseTimeout: time.Minute}
			if how == "idle" {
				o.MaxIdle = time.Hour // the raise ends nobody: it is the server, because of what enter set
			}
			b, err := pgstore.New(t.Context(), w.admin, o)
			if err != nil {
				t.Fatal(err)
			}
			tok := w.raise(t, "coupon:1", 33)
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := osexec.Command(program, tok.Resource, tok.Text(), how)
			cmd.Env = append(os.Environ(), processEnv+"="+w.urlOf(w.role))
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			stdin, err1 := cmd.StdinPipe()
			stdout, err2 := cmd.StdoutPipe()
			if err := errors.Join(err1, err2, cmd.Start()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
			out := bufio.NewScanner(stdout)
			if !out.Scan() || out.Text() != "in" {
				t.Fatalf("the process says %q, want that it is in", out.Text())
			}
			if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			next := fencing.Token{Resource: tok.Resource, Number: 34, Grant: fencing.NewGrant()}
			if err := b.Raise(t.Context(), next); err != nil {
				t.Fatalf("the next raise: %v", err)
			}
			t.Logf("the next raise waited for %v", time.Since(start).Round(time.Millisecond))
			wantNil(t, "the next holder", fenced(t, w.app(t), []fencing.Token{next}, update1))
			if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(stdin, "\n"); err != nil {
				t.Fatal(err)
			}
			if !out.Scan() || out.Text() != "failed" {
				t.Errorf("the process says %q, want that it failed", out.Text())
			}
			if got := value[int](t, w.admin, "select n from coupons where id = '1'"); got != 1 {
				t.Errorf("got %d, want what the next holder wrote", got)
			}
		})
	}
}
