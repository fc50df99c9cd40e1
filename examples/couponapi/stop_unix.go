//go:build unix

package main

import "syscall"

// canStop says whether a process can be stopped and continued here.
const canStop = true

func stopProcess(pid int) error     { return syscall.Kill(pid, syscall.SIGSTOP) }
func continueProcess(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }
func endProcess(pid int) error      { return syscall.Kill(pid, syscall.SIGTERM) }
