package rig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// state looks at every thread: a process is stopped when the last of them stands.
func state(pid int) procState {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	result := gone
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// "tid (name) S ...", and the name may hold brackets.
		_, rest, ok := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(" "))
		if !ok || len(rest) == 0 {
			continue
		}
		switch rest[0] {
		case 'Z', 'X':
		case 'T', 't':
			result = stopped
		default:
			return running
		}
	}
	return result
}

// smallDisk returns a function that mounts a file system of so many bytes.
func smallDisk(size int64) (func(dir string) (func() error, error), error) {
	if os.Geteuid() != 0 {
		return nil, &CannotError{"a small disk needs root, to mount a file system"}
	}
	return func(dir string) (func() error, error) {
		err := unix.Mount("fencegate-torture", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", size))
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) {
			return nil, &CannotError{"a small disk cannot be mounted: " + err.Error()}
		}
		if err != nil {
			return nil, fmt.Errorf("mount a small disk: %w", err)
		}
		return func() error { return unix.Unmount(dir, 0) }, nil
	}, nil
}
