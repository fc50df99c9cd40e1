//go:build !unix

package main

import (
	"errors"
	"os"
)

// canStop says whether a process can be stopped and continued here.
const canStop = false

var errNoSignal = errors.New("this system has no SIGSTOP")

func stopProcess(int) error     { return errNoSignal }
func continueProcess(int) error { return errNoSignal }

func endProcess(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
