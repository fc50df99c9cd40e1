package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// RedisOptions change how a Redis server runs. The zero value and nil mean the defaults.
type RedisOptions struct {
	// AppendOnly keeps every acknowledged write in a file (appendfsync always).
	// Default: nothing is kept; a restarted server is empty.
	AppendOnly bool
	// Args are more arguments of redis-server, like "--maxmemory", "1mb". They win over those of this package.
	// Default: none.
	Args []string
	// Env are more environment variables, like "LD_PRELOAD=/path".
	// Default: none; the server does not inherit the environment of the test.
	Env []string
	// Mount is called once with an empty directory, before anything is in it, and the data will lie in it: to put it
	// on a file system of its own. unmount undoes it when the server is gone; when the process is killed, the watcher calls
	// umount.
	// Default: nil, the usual file system.
	Mount func(dir string) (unmount func() error, err error)
}

// Redis is a private Redis server.
type Redis struct{ Server }

// StartRedis starts a Redis server that ends with the test.
func StartRedis(tb TB, o *RedisOptions) *Redis {
	tb.Helper()
	e, err := newRedisEngine(o)
	return &Redis{start(tb, e, err)}
}

// URL returns "redis://127.0.0.1:PORT/0".
func (r *Redis) URL() string { return "redis://" + r.Addr() + "/0" }

type redisEngine struct {
	program string
	o       RedisOptions
}

func newRedisEngine(o *RedisOptions) (*redisEngine, error) {
	e := &redisEngine{}
	if o != nil {
		e.o = *o
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, missing("redis-server", "redis-server")
	}
	e.program, err = filepath.Abs(program)
	return e, err
}

func (*redisEngine) kind() string { return "redis" }

func (e *redisEngine) mount() mountFunc { return e.o.Mount }

func (*redisEngine) fill(context.Context, *server) error { return nil }

func (e *redisEngine) command(s *server) *exec.Cmd {
	args := []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port.number), "--dir", s.data,
		"--daemonize", "no", "--save", "", "--appendonly", "no",
	}
	if e.o.AppendOnly {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}
	return s.prepare(exec.Command(e.program, append(args, e.o.Args...)...), e.o.Env)
}

func (e *redisEngine) ready(ctx context.Context, s *server, pid int) error {
	// The client prints every failed dial; while a server starts there are many.
	knock, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.port.addr())
	if err != nil {
		return err
	}
	_ = knock.Close()
	c := e.connect(s)
	defer c.Close()
	// While it loads its data, PING is refused and INFO is not.
	if err := c.Ping(ctx).Err(); err != nil {
		return err
	}
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		return fmt.Errorf("another server answers on %s", s.port.addr())
	}
	return nil
}

// flush writes a snapshot where the server keeps no log of its writes.
func (e *redisEngine) flush(ctx context.Context, s *server) error {
	if e.o.AppendOnly {
		return nil
	}
	c := e.connect(s)
	defer c.Close()
	return c.Save(ctx).Err()
}

// copied removes the snapshot again: a restart must not find more than without a copy.
func (e *redisEngine) copied(s *server) error {
	if e.o.AppendOnly {
		return nil
	}
	if err := os.Remove(filepath.Join(s.data, "dump.rdb")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (*redisEngine) buried(string) error { return nil }

func (*redisEngine) connect(s *server) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.port.addr(), MaxRetries: -1, PoolSize: 1, DialTimeout: probeTimeout, ReadTimeout: probeTimeout})
}
