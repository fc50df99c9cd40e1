package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// signalTimeout is how long a signal may take on a busy machine.
const signalTimeout = 30 * time.Second

// child is a started program, which dies with this process where the system can do that. Its exit is collected
// by whoever has the pipes, who closes done then. Its methods are safe for concurrent use.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was reaped
}

// forker starts programs. Linux sends the parent-death signal when the thread that forked ends, so one thread that
// stays forks all.
type forker struct {
	jobs chan func()
	once sync.Once
}

func newForker() *forker {
	f := &forker{jobs: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for job := range f.jobs {
			job()
		}
	}()
	return f
}

// close ends the thread, and with it what it has forked.
func (f *forker) close() { f.once.Do(func() { close(f.jobs) }) }

func (f *forker) start(cmd *exec.Cmd) (*child, error) {
	attr, err := childAttr()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = attr
	result := make(chan error, 1)
	f.jobs <- func() { result <- cmd.Start() }
	if err := <-result; err != nil {
		return nil, err
	}
	return &child{cmd: cmd, done: make(chan struct{})}, nil
}

// pid is 0 when it has ended.
func (c *child) pid() int {
	if c.ended() {
		return 0
	}
	return c.cmd.Process.Pid
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// status says how it ended, once it has.
func (c *child) status() string { return c.cmd.ProcessState.String() }

func (c *child) pause() error {
	if err := c.cmd.Process.Signal(sigstop); err != nil {
		return err
	}
	for deadline := time.Now().Add(signalTimeout); ; {
		switch state(c.cmd.Process.Pid) {
		case stopped:
			return nil
		case gone:
			return os.ErrProcessDone
		case running:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d still runs %v after SIGSTOP", c.cmd.Process.Pid, signalTimeout)
		}
		time.Sleep(time.Millisecond)
	}
}

func (c *child) resume() error { return c.cmd.Process.Signal(sigcont) }

func (c *child) terminate() error { return c.cmd.Process.Signal(sigterm) }

// kill kills it if it runs, and returns when it is gone.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-c.done:
		return nil
	case <-time.After(signalTimeout):
		return fmt.Errorf("process %d survived SIGKILL for %v", c.cmd.Process.Pid, signalTimeout)
	}
}

// procState is what a process does.
type procState int

const (
	running procState = iota
	stopped           // all of its threads
	gone              // ended; a zombie counts as gone
)

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 8 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - tailSize; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(p), nil
}

// String returns it, with a new line before it if there is anything.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf) == 0 {
		return ""
	}
	return "\n" + string(t.buf)
}
