package rig

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// macOS has no parent-death signal: the clients end with their standard input, the gateways stay.
func dieWithParent(*syscall.SysProcAttr) {}

func state(pid int) procState {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output() //nolint:noctx // it answers at once
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

func smallDisk(int64) (func(dir string) (func() error, error), error) {
	return nil, &CannotError{"a small disk needs Linux"}
}
