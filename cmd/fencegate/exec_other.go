//go:build !unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"time"
)

// lostOnTerminal is what exec's help says of a command on a terminal.
const lostOnTerminal = "only the command itself is ended: what it started goes on unless it ends with it. "

// relayed begins to catch signals: here only an interrupt.
func relayed() *signals {
	s := &signals{c: make(chan os.Signal, 16)}
	signal.Notify(s.c, os.Interrupt)
	return s
}

func signalNumber(os.Signal) int { return exitInterrupted - exitSignal }

// child is the command that runs. An interrupt reaches it from the console.
type child struct{ cmd *exec.Cmd }

func newChild(cmd *exec.Cmd) *child { return &child{cmd} }

func (c *child) forward(os.Signal) {}

// end kills the command: there is no signal that would ask it.
func (c *child) end() { c.kill() }

func (c *child) kill() { _ = c.cmd.Process.Kill() }

func (c *child) sweep(<-chan time.Time) {}

// childStatus is the command's exit status.
func childStatus(state *os.ProcessState) int { return state.ExitCode() }
