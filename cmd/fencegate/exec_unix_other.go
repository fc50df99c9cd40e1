//go:build unix && !linux

package main

import (
	"os"
	"syscall"
)

// dieWithParent does nothing: this system does not end a command with the process that started it.
func dieWithParent(*syscall.SysProcAttr) {}

// lostOnTerminal is what exec's help says of a command on a terminal.
const lostOnTerminal = "only the command itself is ended: what it started goes on unless it ends with it. "

// descendants are unknown here.
func descendants(int) []*os.Process { return nil }
