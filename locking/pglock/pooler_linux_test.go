package pglock_test

import (
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/pglock"
)

// pooler starts a pgbouncer in transaction mode in front of a database, and returns the URL
// through it.
func pooler(tb testing.TB, url string) string {
	tb.Helper()
	program, err := osexec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(program); err != nil {
		if os.Getenv("FENCEGATE_TEST_REQUIRE") == "1" {
			tb.Fatal("pgbouncer is not installed: run `make deps`")
		}
		tb.Skip("pgbouncer is not installed: run `make deps`")
	}
	c, err := pgx.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	dir, err := os.MkdirTemp("", "pooler") //nolint:usetesting // another user reads it, who cannot enter the test's own
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	for name, text := range map[string]string{
		"users": `"postgres" ""` + "\n",
		"ini": fmt.Sprintf(`[databases]
%s = host=%s port=%d dbname=%[1]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[4]d
unix_socket_dir =
auth_type = trust
auth_file = %[5]s
pool_mode = transaction
default_pool_size = 4
ignore_startup_parameters = extra_float_digits,role
`, c.Database, c.Host, c.Port, port, filepath.Join(dir, "users")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	args := []string{filepath.Join(dir, "ini")}
	if os.Getuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...) // it does not run as root
	}
	cmd := osexec.Command(program, args...)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if tb.Failed() {
			tb.Log(log.String())
		}
	})
	through := strings.Replace(url, ":"+strconv.Itoa(int(c.Port))+"/", ":"+strconv.Itoa(port)+"/", 1)
	testenv.Eventually(tb, testPatience, "the pooler answers", func() bool {
		conn, err := pgx.Connect(tb.Context(), through+"&default_query_exec_mode=exec")
		if err != nil {
			return false
		}
		return conn.Close(tb.Context()) == nil
	})
	return through
}

// TestThroughPooler: sessions change with every transaction. What locks needs none; word of a
// hand-over comes on a connection that goes to the server, or waiters look.
func TestThroughPooler(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	g := &gate{url: url}
	through := pgtxtest.Open(t, pooler(t, url), func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	})
	for name, o := range map[string]*pglock.Options{"looks": {NoListen: true}, "listens": {Listen: g.listen}} {
		b, err := pglock.New(t.Context(), through, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lockingtest.RunBackend(t, lockingtest.BackendHarness{
				New:    func(testing.TB) locking.Backend { return b },
				Unique: testenv.Unique,
				Wakes:  o.Listen != nil, Line: o.Listen != nil, Transfers: true,
			})
			r := request(t)
			tok := acquire(t, b, r).Token
			w := newWaiter(b, r).takesPlace(t)
			if name == "listens" {
				w.woken(t)
			}
			release(t, b, tok)
			if name == "listens" {
				w.woken(t)
				w.granted(t, 2, true)
				return
			}
			if h, calls, err := w.wait(t.Context()); err != nil || h.Token.Number != 2 || calls != 1 {
				t.Errorf("got %v, %v after %d calls, want number 2 with the first look", h.Token, err, calls)
			}
		})
	}
}
