package pgtxtest

import (
	"context"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/testenv"
)

// Pooler starts a pgbouncer in transaction mode in front of a database, and returns the URL
// through it.
func Pooler(tb testing.TB, url string) string {
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
	_, listen, err := net.SplitHostPort(testenv.FreeAddress(tb))
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pooler") //nolint:usetesting // another user reads it, who cannot enter the test's own
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // another user reads it
		tb.Fatal(err)
	}
	for name, text := range map[string]string{
		"users": `"postgres" ""` + "\n",
		"ini": fmt.Sprintf(`[databases]
%s = host=%s port=%d dbname=%[1]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[4]s
unix_socket_dir =
auth_type = trust
auth_file = %[5]s
pool_mode = transaction
default_pool_size = 4
ignore_startup_parameters = extra_float_digits,role
`, c.Database, c.Host, c.Port, listen, filepath.Join(dir, "users")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // the same
			tb.Fatal(err)
		}
	}
	args := []string{filepath.Join(dir, "ini")}
	if os.Getuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...) // it does not run as root
	}
	cmd := osexec.CommandContext(context.WithoutCancel(tb.Context()), program, args...)
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
	through := strings.Replace(url, ":"+strconv.Itoa(int(c.Port))+"/", ":"+listen+"/", 1)
	testenv.Eventually(tb, time.Minute, "the pooler answers", func() bool {
		conn, err := pgx.Connect(tb.Context(), through+"&default_query_exec_mode=exec")
		if err != nil {
			return false
		}
		return conn.Close(tb.Context()) == nil
	})
	return through
}
