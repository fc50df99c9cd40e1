package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// startTimeout is how long a server may take to answer for the first time.
const startTimeout = time.Minute

// servers are the private servers of a run of the program, in a directory that ends with them.
type servers struct {
	dir  string
	ends []func()
}

func newServers() (*servers, error) {
	dir, err := os.MkdirTemp("", "brokenlocks-")
	return &servers{dir: dir}, err
}

// close ends all servers and removes what they wrote.
func (s *servers) close() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
	_ = os.RemoveAll(s.dir)
}

// subdir returns a new directory that user may write to.
func (s *servers) subdir(name string) (string, error) {
	dir := filepath.Join(s.dir, name)
	return dir, os.Mkdir(dir, 0o700)
}

// redisServer is a redis-server that keeps nothing.
type redisServer struct {
	dir  string
	addr string
	proc *process
}

var _ Node = (*redisServer)(nil)

// startRedis starts a redis-server from the PATH.
func (s *servers) startRedis(ctx context.Context) (*redisServer, error) {
	dir, err := s.subdir(fmt.Sprintf("redis-%d", len(s.ends)))
	if err != nil {
		return nil, err
	}
	r := &redisServer{dir: dir}
	s.ends = append(s.ends, func() { r.proc.kill() })
	for range 5 { // a free port may be taken by somebody else before the server has it
		if r.addr, err = freeAddr(ctx); err != nil {
			return nil, err
		}
		if err = r.start(ctx); err == nil {
			return r, nil
		}
	}
	return nil, err
}

func (r *redisServer) Addr() string { return r.addr }

func (r *redisServer) start(ctx context.Context) error {
	_, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		return err
	}
	// Without ctx, which may end during a telling: close ends it, after what uses it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", r.dir,
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0")
	if r.proc, err = launch(cmd); err != nil {
		return err
	}
	c := dial(r.addr)
	defer func() { _ = c.Close() }()
	return r.proc.await(ctx, func(ctx context.Context) error {
		if err := knock(ctx, r.addr); err != nil { // the client would print each dial that fails
			return err
		}
		info, err := c.Info(ctx, "server").Result()
		if err == nil && !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", cmd.Process.Pid)) {
			err = fmt.Errorf("another server answers on %s", r.addr)
		}
		return err
	})
}

func (r *redisServer) Kill(context.Context) error {
	r.proc.kill()
	return nil
}

// Hang makes the server keep all its clients waiting, for longer than any telling.
func (r *redisServer) Hang(ctx context.Context) error {
	c := dial(r.addr)
	defer func() { _ = c.Close() }()
	return c.Do(ctx, "CLIENT", "PAUSE", time.Hour.Milliseconds(), "ALL").Err()
}

func (r *redisServer) Restart(ctx context.Context) error {
	r.proc.kill()
	return r.start(ctx)
}

// postgresPrograms returns the directory of initdb and postgres, of the newest version that is found.
func postgresPrograms() (dir string, ok bool) {
	if initdb, err := exec.LookPath("initdb"); err == nil {
		if _, err := exec.LookPath("postgres"); err == nil {
			return filepath.Dir(initdb), true
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // Debian and its relatives
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if len(found) == 0 {
		return "", false
	}
	return filepath.Dir(found[len(found)-1]), true
}

// startPostgres starts a PostgreSQL server with the programs in bin, and returns what makes databases
// in it.
func (s *servers) startPostgres(ctx context.Context, bin string) (database func(context.Context) (string, error), err error) {
	dir, err := s.subdir("postgres")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(s.dir, 0o711); err != nil { //nolint:gosec // for the user below to pass through
		return nil, err
	}
	user, err := unprivileged(dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, user
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, bytes.TrimSpace(out))
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(bin, "postgres"), "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off")
	cmd.Dir, cmd.SysProcAttr = dir, user
	proc, err := launch(cmd)
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, proc.stop)
	url := func(database string) string {
		return "postgres://postgres@" + addr + "/" + database + "?sslmode=disable"
	}
	run := func(ctx context.Context, sql string) error {
		c, err := pgx.Connect(ctx, url("postgres"))
		if err != nil {
			return err
		}
		_, err = c.Exec(ctx, sql)
		return errors.Join(err, c.Close(ctx))
	}
	if err := proc.await(ctx, func(ctx context.Context) error { return run(ctx, "SELECT 1") }); err != nil {
		return nil, err
	}
	n := 0
	return func(ctx context.Context) (string, error) {
		n++
		name := fmt.Sprintf("telling_%d", n)
		return url(name), run(ctx, "CREATE DATABASE "+name)
	}, nil
}

// freeAddr returns an address on this machine that nobody listened on a moment ago.
func freeAddr(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func knock(ctx context.Context, addr string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return c.Close()
}
