package testenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// PostgresOptions change how a PostgreSQL server runs. The zero value and nil mean the defaults.
type PostgresOptions struct {
	// NoSync switches fsync and full_page_writes off: faster, and Kill still loses nothing, since the page cache survives it.
	// Default: both are on, as in production.
	NoSync bool
	// Settings are more lines of postgresql.conf, like "max_connections = 20". They win over those of this package.
	// Default: none.
	Settings []string
	// StandbyOf makes the server a streaming standby of another one (asynchronous; synchronous_standby_names is the
	// primary's to set). RestartEmpty takes a new base backup.
	// Default: nil, a server of its own.
	StandbyOf *Postgres
	// Env are more environment variables, like "LD_PRELOAD=/path".
	// Default: none; the server does not inherit the environment of the test.
	Env []string
	// Mount is called once with an empty directory, before anything is in it, and the data will lie in it: to put it
	// on a file system of its own. unmount undoes it when the server is gone; when the process is killed, the watcher calls
	// umount.
	// Default: nil, the usual file system.
	Mount func(dir string) (unmount func() error, err error)
}

// Postgres is a private PostgreSQL server. Everybody on this machine may log in as anybody.
type Postgres struct {
	Server
	templates *templates
}

// StartPostgres starts a PostgreSQL server that ends with the test.
func StartPostgres(tb TB, o *PostgresOptions) *Postgres {
	tb.Helper()
	e, err := newPostgresEngine(o)
	return &Postgres{start(tb, e, err), &templates{}}
}

// URL returns the address of the database postgres for the superuser: "postgres://postgres@127.0.0.1:PORT/postgres?sslmode=disable".
func (p *Postgres) URL() string { return postgresURL(p.s, "postgres") }

func postgresURL(s *server, database string) string {
	return "postgres://postgres@" + s.port.addr() + "/" + database + "?sslmode=disable"
}

type postgresEngine struct {
	bin string
	o   PostgresOptions
}

func newPostgresEngine(o *PostgresOptions) (*postgresEngine, error) {
	e := &postgresEngine{}
	if o != nil {
		e.o = *o
	}
	var err error
	e.bin, err = postgresBin()
	return e, err
}

// postgresBin is the directory of the newest server that is installed.
func postgresBin() (string, error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	version := func(dir string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		return n
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if program, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(program))
	}
	for _, dir := range dirs {
		_, err1 := os.Stat(filepath.Join(dir, "postgres"))
		_, err2 := os.Stat(filepath.Join(dir, "initdb"))
		if err1 == nil && err2 == nil {
			return filepath.Abs(dir)
		}
	}
	return "", missing("the PostgreSQL server", "postgresql")
}

func (*postgresEngine) kind() string { return "postgres" }

func (e *postgresEngine) mount() mountFunc { return e.o.Mount }

func (e *postgresEngine) program(s *server, name string, args ...string) *exec.Cmd {
	return s.prepare(exec.Command(filepath.Join(e.bin, name), args...), e.o.Env)
}

func (e *postgresEngine) fill(ctx context.Context, s *server) error {
	var cmd *exec.Cmd
	if primary := e.o.StandbyOf; primary != nil {
		cmd = e.program(s, "pg_basebackup", "-D", s.data, "-d", primary.URL(), "-R", "-X", "stream", "-c", "fast", "--no-sync")
	} else {
		cmd = e.program(s, "initdb", "-D", s.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
			"--no-sync", "--no-instructions")
	}
	if err := s.run(ctx, cmd); err != nil {
		return err
	}
	return e.configure(s)
}

// configure writes to the file and not to the command line, so that ALTER SYSTEM can change it.
func (e *postgresEngine) configure(s *server) error {
	lines := []string{
		"",
		"max_connections = 200",
		"wal_level = replica",
		"synchronous_commit = on",
		"max_prepared_transactions = 20",
		"logging_collector = off",
		"log_destination = stderr",
		// POSIX segments of a killed server would stay in /dev/shm; files in the data directory go with it.
		"dynamic_shared_memory_type = mmap",
	}
	if e.o.NoSync {
		lines = append(lines, "fsync = off", "full_page_writes = off")
	} else {
		lines = append(lines, "fsync = on", "full_page_writes = on")
	}
	sockets := s.dir
	if len(sockets) > 80 {
		sockets = "" // too long for the name of a socket, and TCP is what the tests use
	}
	lines = append(lines, "unix_socket_directories = '"+strings.ReplaceAll(sockets, "'", "''")+"'")
	lines = append(append(lines, e.o.Settings...), "")
	f, err := os.OpenFile(filepath.Join(s.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(lines, "\n"))
	return errors.Join(err, f.Close())
}

func (e *postgresEngine) command(s *server) *exec.Cmd {
	return e.program(s, "postgres", "-D", s.data, "-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(s.port.number))
}

func (*postgresEngine) ready(ctx context.Context, s *server, _ int) error {
	c, err := pgx.Connect(ctx, postgresURL(s, "postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	// Two servers never share a directory, so it tells them apart; what runs in it was started last.
	var data string
	if err := c.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&data); err != nil {
		return err
	}
	if data != s.data {
		return fmt.Errorf("another server answers on %s", s.port.addr())
	}
	return nil
}

// A copy of the files of one instant is what a crash would leave: nothing to flush.
func (*postgresEngine) flush(context.Context, *server) error { return nil }

// copied removes the lock file from the copy: it names the process that runs on.
func (*postgresEngine) copied(s *server) error {
	err := os.Remove(filepath.Join(s.copyDir(), "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (*postgresEngine) buried(data string) error { return removePostgresLeftovers(data) }
