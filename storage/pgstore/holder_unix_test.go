//go:build unix

package pgstore_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// TestStoppedProcess stops a process in the middle of its update, idle or while the server sends it
// an answer. The next holder is not blocked for ever; and what the stopped one does when it goes
// on has failed.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"idle", "answer"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			url := pgtxtest.Database(t)
			b := backend(t, pgtxtest.Open(t, url), &pgstore.Options{MaxIdle: time.Second, RaiseTimeout: 30 * time.Second})
			tok := raise(t, b, "r", 1)
			cmd := exec.Command(os.Args[0], place, tok.Text())
			cmd.Env = append(os.Environ(), holderEnv+"="+url)
			cmd.Stderr = os.Stderr
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			lines := bufio.NewReader(stdout)
			if line, err := lines.ReadString('\n'); err != nil || line != "in\n" {
				t.Fatalf("the holder says %q, %v", line, err)
			}
			signal := func(s syscall.Signal) {
				t.Helper()
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			signal(syscall.SIGSTOP)
			next := raise(t, b, "r", 2) // waits for the stopped one
			if err := put(t.Context(), b, next, "k", "next"); err != nil {
				t.Fatal(err)
			}
			signal(syscall.SIGCONT)
			if _, err := stdin.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
			if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "failed ") {
				t.Errorf("the holder says %q, %v, want failed", line, err)
			}
			if got := get(t, b, "r", "k"); got != "next" {
				t.Errorf("got %s, want next", got)
			}
		})
	}
}
