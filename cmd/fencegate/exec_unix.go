//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// relayed begins to catch signals. Those that were ignored when the process began (nohup, a
// shell's background jobs) stay so, here and for the command.
func relayed() *signals {
	s := &signals{c: make(chan os.Signal, 16)}
	for _, sig := range []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(s.c, sig)
		}
	}
	// What is ignored in this process would be in the command: a pipe that breaks must end it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return s
}

func signalNumber(sig os.Signal) int {
	n, _ := sig.(syscall.Signal)
	return int(n)
}

// child is the command that runs.
//
// On a terminal it is in this process's group: one job for the shell, whose Ctrl-Z stops and
// whose fg continues both, which may read the terminal and stand in a pipeline. Ctrl-C and
// Ctrl-\ then reach the command from the terminal, and are not passed on; who sends SIGINT or
// SIGQUIT by hand to a job in the foreground sends it to the group, as the terminal does, or
// takes SIGTERM. Without a terminal the command leads a group of its own, which nobody but
// this process signals.
type child struct {
	cmd    *exec.Cmd
	group  bool          // it leads one
	others []*os.Process // where it does not: what it had started when it was ended
}

func newChild(cmd *exec.Cmd) *child {
	c := &child{cmd: cmd}
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err == nil {
		_ = tty.Close()
	}
	c.group = err != nil
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: c.group}
	dieWithParent(cmd.SysProcAttr)
	return c
}

// signal signals the command, and its group where it has one. It must not have been waited for,
// unless it leads a group: that keeps its number from being used again.
func (c *child) signal(sig syscall.Signal) bool {
	pid := c.cmd.Process.Pid
	if c.group {
		return syscall.Kill(-pid, sig) == nil
	}
	return c.cmd.Process.Signal(sig) == nil
}

// forward passes a signal on, unless the terminal has sent it to the command as well.
func (c *child) forward(sig os.Signal) {
	if !c.group && (sig == syscall.SIGINT || sig == syscall.SIGQUIT) && foreground() {
		return
	}
	if n, ok := sig.(syscall.Signal); ok {
		c.signal(n)
	}
}

// foreground reports whether this process's group is the terminal's foreground job.
func foreground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer func() { _ = tty.Close() }()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// all signals the command and what it has started, as far as that is known.
func (c *child) all(sig syscall.Signal) (reached bool) {
	reached = c.signal(sig)
	for _, p := range c.others {
		reached = p.Signal(sig) == nil || reached
	}
	return reached
}

// find looks for what the command has started, where no group holds it together.
func (c *child) find() {
	if !c.group {
		c.others = append(c.others, descendants(c.cmd.Process.Pid)...)
	}
}

// end asks the command to end itself, also where it is stopped.
func (c *child) end() {
	c.find()
	c.all(syscall.SIGTERM)
	c.all(syscall.SIGCONT)
}

func (c *child) kill() {
	c.find()
	c.all(syscall.SIGKILL)
}

// sweep is for what the command has left behind: it is killed when kill says so, nil meaning at
// once.
func (c *child) sweep(kill <-chan time.Time) {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for kill != nil && c.all(0) {
		select {
		case <-kill:
			kill = nil
		case <-look.C:
		}
	}
	c.all(syscall.SIGKILL)
}

// childStatus is what a shell would make of the command's end.
func childStatus(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return exitSignal + int(w.Signal())
	}
	return state.ExitCode()
}
