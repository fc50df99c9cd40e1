package main

import "syscall"

// dieWithParent lets the kernel kill the command when the thread that starts it ends, which
// takes no grace: nobody would be left to see to it.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
