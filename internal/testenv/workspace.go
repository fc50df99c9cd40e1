package testenv

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
)

//go:embed watch.sh
var watchScript string

// workspace is the directory of this process for all its servers. Beside it runs a watcher, a shell that waits for the end
// of this process: what a killed test could not clean up itself, the watcher does.
type workspace struct {
	mu      sync.Mutex // guards all fields; not held while a server starts
	dir     string     // "" until the first use
	next    int
	watcher *exec.Cmd
	alive   *os.File // the watcher reads the other end; nothing is ever written
}

// The workspace belongs to the process, as the processes that it names do.
var work workspace

// serverDir makes a new directory for one server and returns it with the server's name.
func (w *workspace) serverDir(kind string) (dir, name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dir == "" {
		if err := w.open(); err != nil {
			return "", "", err
		}
	}
	w.next++
	name = kind + "-" + strconv.Itoa(w.next)
	dir = filepath.Join(w.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", "", err
	}
	return dir, name, chownToServerUser(dir)
}

func (w *workspace) open() (err error) {
	parent, err := reachableTempDir()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, "fencegate-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	// The servers' user must be able to pass, and need not look around.
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "pids"), 0o700); err != nil {
		return err
	}
	r, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	watcher := exec.Command("sh", "-c", watchScript, "fencegate-watch", dir)
	watcher.Stdin = r
	watcher.Dir = "/"
	watcher.SysProcAttr = watcherAttr()
	if err := watcher.Start(); err != nil {
		_ = alive.Close()
		return fmt.Errorf("start the watcher: %w", err)
	}
	w.dir, w.watcher, w.alive = dir, watcher, alive
	return nil
}

// notePids tells the watcher which processes a server has; none means that it is gone.
func (w *workspace) notePids(name string, pids ...int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dir == "" {
		return errors.New("the tests of this process are over")
	}
	file := filepath.Join(w.dir, "pids", name)
	if len(pids) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	var text []byte
	for _, pid := range pids {
		text = append(strconv.AppendInt(text, int64(pid), 10), '\n')
	}
	// In one step: the watcher must not read half a list.
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// close lets the watcher finish and waits for it; it removes the directory.
func (w *workspace) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dir == "" {
		return
	}
	_ = w.alive.Close()
	_ = w.watcher.Wait()
	w.dir = ""
}

// reachableTempDir is the temporary directory, or /tmp where the servers' user cannot reach the former.
func reachableTempDir() (string, error) {
	for _, dir := range []string{os.TempDir(), "/tmp"} {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		if reachable(real) {
			return real, nil
		}
	}
	return "", errors.New("no temporary directory that the servers' unprivileged user can reach: set TMPDIR")
}

func reachable(dir string) bool {
	if !needsServerUser() {
		return true
	}
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// TempDir returns an empty directory that ends with the test, or with this process, however that ends. Unlike that of a
// testing.TB it is there for programs that are no tests.
func TempDir(tb TB) string {
	tb.Helper()
	dir, _, err := work.serverDir("files")
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Errorf("testenv: %v", err)
		}
	})
	return dir
}
