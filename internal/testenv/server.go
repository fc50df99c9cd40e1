package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	startTimeout = 60 * time.Second // a busy machine and a recovery after a crash
	probeTimeout = 2 * time.Second
	freshPorts   = 5                // attempts to find a port that nobody takes before the server does
	samePort     = 10 * time.Second // how long a restart waits for whatever still holds its port
)

// engine is what differs between the kinds of servers.
type engine interface {
	kind() string
	// mount is what the options say; nil for the usual file system.
	mount() mountFunc
	// fill makes the data of a new server in s.data, an empty directory.
	fill(ctx context.Context, s *server) error
	// command is the server in the foreground, on s.port.
	command(s *server) *exec.Cmd
	// ready is nil when the server answers commands and is the process pid.
	ready(ctx context.Context, s *server, pid int) error
	// flush brings into the files what a copy of the data should hold.
	flush(ctx context.Context, s *server) error
	// copied is called after the copy, while the server runs on.
	copied(s *server) error
	// buried removes what a killed server leaves in and outside the directory data.
	buried(data string) error
}

// mountFunc puts a directory on a file system of its own, and returns what undoes it.
type mountFunc func(dir string) (unmount func() error, err error)

// server is one server and its directory. It reports errors; Server reports to a test.
type server struct {
	engine engine
	name   string
	dir    string
	data   string
	port   *port

	unmount func() error // nil where nothing is mounted

	mu     sync.Mutex // guards the fields below and is held while the server changes state
	proc   *process   // nil when killed
	paused bool
	epoch  int // grows when other data is put in place
}

// startServer starts a new server, or leaves nothing behind. The error holds the end of the log.
func startServer(ctx context.Context, e engine) (_ *server, err error) {
	dir, name, err := work.serverDir(e.kind())
	if err != nil {
		return nil, err
	}
	s := &server{engine: e, name: name, dir: dir, data: filepath.Join(dir, "data")}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start %s: %w\n%s", e.kind(), err, s.log(0))
			err = errors.Join(err, s.stop())
		}
	}()
	if err := s.makeVolume(); err != nil {
		return nil, err
	}
	if err := s.makeData(ctx); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		if s.port, err = reservePort(); err != nil {
			return nil, err
		}
		from := s.logSize()
		if err = s.launch(ctx); err == nil {
			return s, nil
		}
		if attempt == freshPorts || !strings.Contains(s.log(from), "in use") {
			return nil, err
		}
		s.port.release()
	}
}

// makeVolume mounts what is wanted. The data is below it and not it: it is removed and made anew, and a mount point
// cannot be.
func (s *server) makeVolume() (err error) {
	mount := s.engine.mount()
	if mount == nil {
		return nil
	}
	dir := filepath.Join(s.dir, "volume")
	if err := os.Mkdir(dir, 0o711); err != nil { // the servers' user must be able to pass
		return err
	}
	s.unmount, err = mount(dir)
	s.data = filepath.Join(dir, "data")
	return err
}

func (s *server) makeData(ctx context.Context) error {
	if err := os.RemoveAll(s.data); err != nil {
		return err
	}
	if err := os.Mkdir(s.data, 0o700); err != nil {
		return err
	}
	if err := chownToServerUser(s.data); err != nil {
		return err
	}
	return s.engine.fill(ctx, s)
}

// prepare gives a command the server's log, directory and environment.
func (s *server) prepare(cmd *exec.Cmd, env []string) *exec.Cmd {
	cmd.Dir = s.dir
	// None of the caller's settings (PGHOST, LC_ALL) may decide how a server behaves.
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir, "LC_ALL=C", "TZ=UTC"}, env...)
	return cmd
}

// run runs a helper program to its end, as the servers' user.
func (s *server) run(ctx context.Context, cmd *exec.Cmd) error {
	p, err := s.spawn(cmd)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = killTree(p)
		return fmt.Errorf("%s: %w", filepath.Base(cmd.Path), context.Cause(ctx))
	}
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %v", filepath.Base(cmd.Path), cmd.ProcessState)
	}
	return nil
}

func (s *server) spawn(cmd *exec.Cmd) (*process, error) {
	out, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	return spawn(cmd)
}

// launch starts the program and returns when it answers.
func (s *server) launch(ctx context.Context) error {
	p, err := s.spawn(s.engine.command(s))
	if err != nil {
		return err
	}
	if err := s.awaitReady(ctx, p); err != nil {
		return errors.Join(err, s.end(p))
	}
	if err := work.notePids(s.name, p.pid()); err != nil {
		return errors.Join(err, s.end(p))
	}
	s.proc, s.paused = p, false
	return nil
}

func (s *server) awaitReady(ctx context.Context, p *process) error {
	var last error
	for {
		probe, cancel := context.WithTimeout(ctx, probeTimeout)
		last = s.engine.ready(probe, s, p.pid())
		cancel()
		if last == nil && !p.exited() {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("ended before it was ready: %v", p.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", errors.Join(context.Cause(ctx), last))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// end kills a process of this server and removes its leftovers.
func (s *server) end(p *process) error {
	if p.exited() {
		// It went on its own. Its children, if any, are following; its lock file keeps a successor from starting before.
		return work.notePids(s.name)
	}
	if err := killTree(p); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return errors.Join(work.notePids(s.name), s.engine.buried(s.data))
}

func (s *server) kill() error {
	if s.proc == nil {
		return nil
	}
	p := s.proc
	s.proc, s.paused = nil, false
	return s.end(p)
}

func (s *server) pause() error {
	if s.proc == nil {
		return errors.New("it does not run")
	}
	if s.paused {
		return nil
	}
	pids, err := stopTree(s.proc)
	if err != nil {
		return err
	}
	s.paused = true
	// A stopped child cannot notice that its parent was killed: the watcher has to know it.
	return work.notePids(s.name, pids...)
}

func (s *server) resume() error {
	if !s.paused {
		return nil
	}
	if err := contTree(s.proc); err != nil {
		return err
	}
	s.paused = false
	return work.notePids(s.name, s.proc.pid())
}

// restart starts the server again on its port, with the data that is there.
func (s *server) restart(ctx context.Context) error {
	if err := s.kill(); err != nil {
		return err
	}
	for deadline := time.Now().Add(samePort); ; {
		from := s.logSize()
		err := s.launch(ctx)
		if err == nil {
			return nil
		}
		log := s.log(from)
		// The processes of a server that ended on its own can still be about to end.
		busy := strings.Contains(log, "in use") || strings.Contains(log, "postmaster.pid")
		if !busy || time.Now().After(deadline) {
			return fmt.Errorf("%w\n%s", err, log)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *server) restartEmpty(ctx context.Context) error {
	if err := s.kill(); err != nil {
		return err
	}
	s.epoch++
	if err := s.makeData(ctx); err != nil {
		return err
	}
	return s.restart(ctx)
}

func (s *server) copyDir() string { return filepath.Join(s.dir, "copy") }

// saveCopy copies the files of the stopped server: what a kill at this instant would leave.
func (s *server) saveCopy(ctx context.Context) (err error) {
	if s.paused {
		return errors.New("it is paused and cannot write what it has: resume it first")
	}
	if s.proc != nil {
		if err := s.engine.flush(ctx, s); err != nil {
			return err
		}
		if err := s.pause(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.resume()) }()
	}
	if err := replaceTree(ctx, s.data, s.copyDir()); err != nil {
		return err
	}
	return s.engine.copied(s)
}

func (s *server) restoreCopy(ctx context.Context) error {
	if _, err := os.Stat(s.copyDir()); err != nil {
		return errors.New("no copy was saved")
	}
	if err := s.kill(); err != nil {
		return err
	}
	s.epoch++
	if err := replaceTree(ctx, s.copyDir(), s.data); err != nil {
		return err
	}
	return s.restart(ctx)
}

// replaceTree puts a copy of the tree from in the place of to, with owners and modes.
func replaceTree(ctx context.Context, from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "cp", "-Rp", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return nil
}

// stop ends the server for good.
func (s *server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.kill()
	if s.port != nil {
		s.port.release()
	}
	// Where the server ended on its own, its lock file is still there.
	err = errors.Join(err, s.engine.buried(s.data))
	// The orphans of such a server may still write.
	var last error
	if s.unmount != nil {
		poll(5*time.Second, func() bool {
			last = s.unmount()
			return last == nil
		})
		err = errors.Join(err, last)
	}
	poll(5*time.Second, func() bool {
		last = os.RemoveAll(s.dir)
		return last == nil
	})
	return errors.Join(err, last)
}

func (s *server) logFile() string { return filepath.Join(s.dir, "log") }

func (s *server) logSize() int64 {
	info, err := os.Stat(s.logFile())
	if err != nil {
		return 0
	}
	return info.Size()
}

// log returns the log from a position on, at most its last 16 KB.
func (s *server) log(from int64) string {
	const most = 16 << 10
	f, err := os.Open(s.logFile())
	if err != nil {
		return ""
	}
	defer f.Close()
	from = max(from, s.logSize()-most)
	text, _ := io.ReadAll(io.NewSectionReader(f, from, most))
	return string(text)
}
