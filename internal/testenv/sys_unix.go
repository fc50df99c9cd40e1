//go:build linux || darwin

package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How long a signal may take: a process inside a slow fsync stops only after it.
const signalTimeout = 30 * time.Second

type procState int

const (
	running procState = iota
	stopped
	gone // ended; a zombie counts as gone
)

func supported() error { return nil }

func needsServerUser() bool { return os.Geteuid() == 0 }

// serverUser is who the servers run as when this process is root: PostgreSQL refuses root.
var serverUser = sync.OnceValues(func() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("tests run as root need a user postgres or nobody for their servers")
})

func chownToServerUser(path string) error {
	if !needsServerUser() {
		return nil
	}
	u, err := serverUser()
	if err != nil {
		return err
	}
	return os.Chown(path, int(u.Uid), int(u.Gid))
}

func serverAttr() (*syscall.SysProcAttr, error) {
	// A group of its own: Ctrl-C at the terminal is for the test process.
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attr)
	if needsServerUser() {
		u, err := serverUser()
		if err != nil {
			return nil, err
		}
		attr.Credential = u
	}
	return attr, nil
}

// The watcher gets a session of its own, so that it outlives whatever ends the test process.
func watcherAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// stopTree stops a process and its children, and returns all of them once none runs. A stopped parent makes no new children and
// reaps none, so the list is complete and no id in it is used again.
func stopTree(p *process) ([]int, error) {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	if err := waitState(p.pid()); err != nil {
		return nil, err
	}
	all, err := children(p.pid())
	if err != nil {
		return nil, err
	}
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	for _, pid := range all {
		if err := waitState(pid); err != nil {
			return nil, err
		}
	}
	return append(all, p.pid()), nil
}

// contTree lets a tree that stopTree stopped go on, the parent last.
func contTree(p *process) error {
	all, err := children(p.pid())
	if err != nil {
		return err
	}
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	return p.cmd.Process.Signal(syscall.SIGCONT)
}

// killTree kills a process and its children at one instant and waits until they are gone. It is an error if the process had
// ended before: nobody knows then what became of its children.
func killTree(p *process) error {
	all, err := stopTree(p)
	if err != nil {
		// The parent at least must go.
		_ = p.cmd.Process.Kill()
		<-p.done
		return err
	}
	kids := all[:len(all)-1]
	for _, pid := range kids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, pid := range kids {
		if !poll(signalTimeout, func() bool { return state(pid) == gone }) {
			err = fmt.Errorf("process %d survived SIGKILL for %v", pid, signalTimeout)
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return err
}

// waitState waits until a process that was sent SIGSTOP runs no more.
func waitState(pid int) error {
	if !poll(signalTimeout, func() bool { return state(pid) != running }) {
		return fmt.Errorf("process %d still runs %v after SIGSTOP", pid, signalTimeout)
	}
	return nil
}

// removePostgresLeftovers removes what a killed PostgreSQL leaves: its System V memory segment, and the lock file that names it.
func removePostgresLeftovers(data string) error {
	file := filepath.Join(data, "postmaster.pid")
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if lines := strings.Split(string(text), "\n"); len(lines) > 6 {
		var key, id int
		if n, _ := fmt.Sscan(lines[6], &key, &id); n == 2 {
			// It may be gone already; then there is nothing to do.
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
	}
	return os.Remove(file)
}
