//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing: this system does not end a command with the process that started it.
func dieWithParent(*syscall.SysProcAttr) {}
