//go:build unix

package main

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestEndedByASignal: SIGTERM, as from timeout or a service manager, leaves neither the private etcd
// nor a file behind.
func TestEndedByASignal(t *testing.T) {
	t.Parallel()
	program, dir := filepath.Join(t.TempDir(), "outside-lock"), t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var addr string
	for lines.Scan() && !strings.Contains(lines.Text(), "is paused") {
		if _, found, ok := strings.Cut(lines.Text(), "a private etcd at http://"); ok {
			addr = found
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // to the end of it, as Wait wants it
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || errs.String() != "outside-lock: interrupted\n" {
		t.Errorf("got %v and %q, want status 1 and that it was interrupted", err, errs.String())
	}
	if addr == "" {
		t.Fatal("etcd is not installed: run `make deps` (Debian package etcd-server)")
	}
	if c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr); err == nil {
		_ = c.Close()
		t.Errorf("etcd still listens at %s", addr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("got %v left in the temporary directory, %v", left, err)
	}
}
