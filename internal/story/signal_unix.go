//go:build unix

package story

import (
	"errors"
	"fmt"
	"os/exec"

	"golang.org/x/sys/unix"
)

// CanSignal says whether a process can be stopped and continued here.
const CanSignal = true

// stopProcess stops a child of this process and returns when it stands still.
func stopProcess(pid int) error {
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return fmt.Errorf("stopping a client: %w", err)
	}
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("waiting for a client to stop: %w", err)
		case status.Stopped():
			return nil
		default:
			return errors.New("a client's process ended when it was to be stopped")
		}
	}
}

func continueProcess(pid int) error {
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		return fmt.Errorf("continuing a client: %w", err)
	}
	return nil
}

// childAttr keeps a terminal's Ctrl-C from the child: whoever started it ends it.
func childAttr(cmd *exec.Cmd) { cmd.SysProcAttr = sysProcAttr() }
