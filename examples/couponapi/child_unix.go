//go:build unix && !linux

package main

import "syscall"

// childAttr keeps the terminal's Ctrl-C from a child: whoever started it ends it.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
