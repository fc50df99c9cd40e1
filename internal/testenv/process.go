package testenv

import (
	"os/exec"
	"runtime"
	"sync"
	"time"

	"go.uber.org/goleak"
)

// process is a started program. Its exit is always collected.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was reaped
}

// spawn starts cmd as the servers' user, so that it dies with this process where the system can do that.
func spawn(cmd *exec.Cmd) (*process, error) {
	attr, err := serverAttr()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = attr
	if err := onForkThread(cmd.Start); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	_ = p.cmd.Wait()
	close(p.done)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Linux sends the parent-death signal when the *thread* that forked ends, not the process. A thread of Go ends when a
// goroutine that is locked to it returns, and anyone may do that. So one thread that never ends forks all servers.
var forkThread = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go forkLoop(jobs)
	return jobs
})

func forkLoop(jobs <-chan func()) {
	runtime.LockOSThread()
	for job := range jobs {
		job()
	}
}

func onForkThread(f func() error) error {
	result := make(chan error, 1)
	forkThread() <- func() { result <- f() }
	return <-result
}

// Goroutines are the goroutines of this package that live as long as a server or the process, for tests that look for leaks.
func Goroutines() []goleak.Option {
	const pkg = "github.com/fencegate/fencegate/internal/testenv."
	return []goleak.Option{
		goleak.IgnoreAnyFunction(pkg + "forkLoop"),
		goleak.IgnoreAnyFunction(pkg + "(*process).wait"),
	}
}

// poll calls cond until it is true or the time is over, and says whether it became true.
func poll(within time.Duration, cond func() bool) bool {
	deadline := time.Now().Add(within)
	pause := time.Millisecond
	for {
		if cond() {
			return true
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		time.Sleep(min(pause, left))
		pause = min(pause*2, 20*time.Millisecond)
	}
}
