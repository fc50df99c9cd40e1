//go:build !linux && !darwin

package rig

import (
	"runtime"
	"syscall"
)

// No process is ever started, so none is ever signalled.
const (
	sigstop = syscall.SIGKILL
	sigcont = syscall.SIGKILL
	sigterm = syscall.SIGKILL
)

func childAttr() (*syscall.SysProcAttr, error) {
	return nil, &CannotError{"client processes need Linux or macOS, this is " + runtime.GOOS}
}

func state(int) procState { return gone }

func smallDisk(int64) (func(dir string) (func() error, error), error) {
	return nil, &CannotError{"a small disk needs Linux"}
}
