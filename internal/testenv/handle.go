package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Server is what a test can do with a server of any kind. The methods that change it are for the test that started it: on
// a shared server they fail the test.
type Server struct {
	tb     TB
	s      *server
	shared bool
}

// Addr returns "127.0.0.1:PORT". It never changes.
func (h *Server) Addr() string { return h.s.port.addr() }

// Pid returns the id of the server's main process, 0 while it is killed. It changes with every start.
func (h *Server) Pid() int {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if h.s.proc == nil {
		return 0
	}
	return h.s.proc.pid()
}

// Dir returns the directory of the server, with its data in "data" and its log in "log". It is removed after the test.
func (h *Server) Dir() string { return h.s.dir }

// Kill kills all processes of the server with SIGKILL, and returns when they are gone. Killing a killed server does nothing.
func (h *Server) Kill() {
	h.tb.Helper()
	h.change("kill", func(context.Context) error { return h.s.kill() })
}

// Pause stops all processes of the server with SIGSTOP, and returns when none of them runs. The system still accepts
// connections for a stopped server; nobody answers them.
func (h *Server) Pause() {
	h.tb.Helper()
	h.change("pause", func(context.Context) error { return h.s.pause() })
}

// Resume lets a paused server go on. Where none is paused it does nothing.
func (h *Server) Resume() {
	h.tb.Helper()
	h.change("resume", func(context.Context) error { return h.s.resume() })
}

// Restart kills the server if it runs, and starts it again on the same port with the data that is there.
func (h *Server) Restart() {
	h.tb.Helper()
	h.change("restart", h.s.restart)
}

// RestartEmpty kills the server if it runs, and starts a new one on the same port: its data is lost.
func (h *Server) RestartEmpty() {
	h.tb.Helper()
	h.change("restart empty", h.s.restartEmpty)
}

// SaveCopy keeps a copy of the data as it is now, in the place of an earlier copy. The server runs on; while the files are
// copied it stands still, so that the copy is of one instant. Of a killed server it copies what a restart would find.
func (h *Server) SaveCopy() {
	h.tb.Helper()
	h.change("save a copy of", h.s.saveCopy)
}

// RestoreCopy kills the server if it runs, and starts it on the same port with the data of the last SaveCopy. It may be
// called again: the copy is kept.
func (h *Server) RestoreCopy() {
	h.tb.Helper()
	h.change("restore the copy of", h.s.restoreCopy)
}

func (h *Server) change(verb string, f func(context.Context) error) {
	h.tb.Helper()
	if h.shared {
		h.tb.Fatalf("testenv: cannot %s a shared server: other tests use it, start one for this test", verb)
	}
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := f(ctx); err != nil {
		h.tb.Fatalf("testenv: cannot %s %s: %v", verb, h.s.name, err)
	}
}

// start starts a server that ends with the test.
func start(tb TB, e engine, lookup error) Server {
	tb.Helper()
	s, err := startWith(e, lookup)
	if err != nil {
		fail(tb, err)
	}
	tb.Cleanup(func() {
		logIfFailed(tb, s, 0)
		if err := s.stop(); err != nil {
			tb.Errorf("testenv: stop %s: %v", s.name, err)
		}
	})
	return Server{tb: tb, s: s}
}

func startWith(e engine, lookup error) (*server, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if lookup != nil {
		return nil, lookup
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return startServer(ctx, e)
}

func logIfFailed(tb TB, s *server, from int64) {
	if tb.Failed() {
		tb.Logf("the end of the log of %s:\n%s", s.name, s.log(from))
	}
}

// missingError says that this machine cannot run a server, which is no fault of the code under test.
type missingError struct{ what string }

func (e *missingError) Error() string { return e.what }

func missing(program, pkg string) error {
	return &missingError{fmt.Sprintf("%s is not installed: run `make deps` (Debian package %s)", program, pkg)}
}

// fail ends the test: it is skipped where the machine lacks something, unless that is forbidden.
func fail(tb TB, err error) {
	tb.Helper()
	var m *missingError
	if errors.As(err, &m) && os.Getenv("FENCEGATE_TEST_REQUIRE") != "1" {
		tb.Skipf("testenv: %v", err)
	}
	tb.Fatalf("testenv: %v", err)
}
