//go:build linux || darwin

package rig

import "syscall"

const (
	sigstop = syscall.SIGSTOP
	sigcont = syscall.SIGCONT
	sigterm = syscall.SIGTERM
)

func childAttr() (*syscall.SysProcAttr, error) {
	// A group of its own: Ctrl-C at the terminal is for the parent, which lets its clients finish.
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attr)
	return attr, nil
}
