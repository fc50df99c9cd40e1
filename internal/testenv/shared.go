package testenv

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// sharedServer is started by the first test that asks and stopped by Run.
type sharedServer struct {
	mu        sync.Mutex // held while it starts: the others wait for it
	s         *server
	err       error // the first failure is everybody's
	templates *templates
}

// One of a kind in a process, as their purpose says.
var sharedRedis, sharedPostgres sharedServer

// SharedRedis returns the Redis server of this test process. It keeps nothing on disk, and every test uses it: name resources
// with Unique and flush nothing.
func SharedRedis(tb TB) *Redis {
	tb.Helper()
	return &Redis{sharedRedis.get(tb, func() (*server, error) {
		e, err := newRedisEngine(nil)
		return startWith(e, err)
	})}
}

// SharedPostgres returns the PostgreSQL server of this test process, with fsync off. Every test uses it: work in a database of
// NewDatabase, and remember that roles are common to all databases.
func SharedPostgres(tb TB) *Postgres {
	tb.Helper()
	h := sharedPostgres.get(tb, func() (*server, error) {
		e, err := newPostgresEngine(&PostgresOptions{NoSync: true})
		return startWith(e, err)
	})
	return &Postgres{h, sharedPostgres.templates}
}

func (g *sharedServer) get(tb TB, start func() (*server, error)) Server {
	tb.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.s == nil && g.err == nil {
		g.s, g.err = start()
		g.templates = &templates{}
	}
	if g.err != nil {
		fail(tb, g.err)
	}
	s, from := g.s, g.s.logSize()
	tb.Cleanup(func() { logIfFailed(tb, s, from) })
	return Server{tb: tb, s: s, shared: true}
}

func (g *sharedServer) stop() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.s
	g.s, g.err = nil, nil
	if s == nil {
		return nil
	}
	return s.stop()
}

// Main is a TestMain: it runs the tests, stops the shared servers and exits. Without it, or when it is not reached, the
// servers end all the same, a moment after the process.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main without the exit, for a TestMain that has more to do. It returns the exit code of the tests.
func Run(m interface{ Run() int }) int {
	code := m.Run()
	if err := Close(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv: stop the shared servers:", err)
		code = max(code, 1)
	}
	return code
}

// Close is what a program that is no test calls before it exits: it stops the shared servers and removes the directory of
// this process. Servers of its own must have ended. Without it the same happens a moment after the process.
func Close() error {
	err := errors.Join(sharedRedis.stop(), sharedPostgres.stop())
	work.close()
	return err
}
