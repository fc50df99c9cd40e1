package main

import "syscall"

// childAttr lets a child end with this process, even if that is killed, and keeps the terminal's
// Ctrl-C from it: whoever started it ends it.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
