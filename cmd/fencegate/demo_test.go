//go:build unix

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// TestInterruptedInTheMiddle sends Ctrl-C while A is stopped and B waits for its lease to
// end: the demo says so, its clients and its files are gone.
func TestInterruptedInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			tmp := t.TempDir()
			cmd := command(t, "demo", "--mode", "fence", "--ttl", "1m")
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, patience, "client A to be stopped", func() bool { return stoppedChild(cmd.Process.Pid) })
			children := childrenOf(cmd.Process.Pid)
			if len(children) != 2 {
				t.Fatalf("the demo has the children %v, want 2", children)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != exitInterrupted {
				t.Errorf("exit status %d, want %d", got, exitInterrupted)
			}
			if got := stderr.String(); got != "fencegate: interrupted\n" {
				t.Errorf("standard error: %q", got)
			}
			testenv.Eventually(t, patience, "the clients to be gone", func() bool {
				for _, pid := range children {
					if syscall.Kill(pid, 0) == nil {
						return false
					}
				}
				return true
			})
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("temporary files are left: %v, %v", left, err)
			}
		})
	}
}

// command runs this test binary as fencegate.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Args[0] = "fencegate"
	return cmd
}

// childrenOf lists the children of a process, by /proc where there is one, else by ps.
func childrenOf(pid int) (children []int) {
	for child, fields := range processes() {
		if fields.parent == pid {
			children = append(children, child)
		}
	}
	return children
}

func stoppedChild(pid int) bool {
	for _, p := range processes() {
		if p.parent == pid && strings.HasPrefix(p.state, "T") {
			return true
		}
	}
	return false
}

type processInfo struct {
	parent int
	state  string
}

func processes() map[int]processInfo {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=").Output()
	if err != nil {
		return nil
	}
	all := map[int]processInfo{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 3 {
			continue
		}
		pid, _ := strconv.Atoi(f[0])
		parent, _ := strconv.Atoi(f[1])
		all[pid] = processInfo{parent, f[2]}
	}
	return all
}

// TestKilledInTheMiddle kills the demo, which can then clean up nothing: its clients must
// not outlive it, the stopped one neither.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	cmd := command(t, "demo", "--mode", "fence", "--ttl", "1m", "--sqlite-path", filepath.Join(t.TempDir(), "x.db"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, "client A to be stopped", func() bool { return stoppedChild(cmd.Process.Pid) })
	children := childrenOf(cmd.Process.Pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	testenv.Eventually(t, patience, "the clients to be gone", func() bool {
		for _, pid := range children {
			if syscall.Kill(pid, 0) == nil {
				return false
			}
		}
		return true
	})
}
