package testenv

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// macOS has no parent-death signal: the watcher kills what is left.
func dieWithParent(*syscall.SysProcAttr) {}

func state(pid int) procState {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	s := strings.TrimSpace(string(out))
	switch {
	case err != nil || s == "" || s[0] == 'Z':
		return gone
	case s[0] == 'T':
		return stopped
	default:
		return running
	}
}

func children(pid int) ([]int, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, err
	}
	var kids []int
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 2 || f[1] != strconv.Itoa(pid) {
			continue
		}
		if id, err := strconv.Atoi(f[0]); err == nil {
			kids = append(kids, id)
		}
	}
	return kids, nil
}
