//go:build !unix

package story

import (
	"errors"
	"os/exec"
)

// CanSignal says whether a process can be stopped and continued here.
const CanSignal = false

var errNoSignal = errors.New("this system has no SIGSTOP")

func stopProcess(int) error     { return errNoSignal }
func continueProcess(int) error { return errNoSignal }
func childAttr(*exec.Cmd)       {}
