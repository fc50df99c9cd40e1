package pgguard_test

import (
	"errors"
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

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage/pgguard"
)

// pooler starts a pgbouncer in transaction mode with one server connection, and returns the URL
// of the application through it.
func pooler(tb testing.TB, w *world) string {
	tb.Helper()
	program, err := osexec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(program); err != nil {
		tb.Fatal("pgbouncer is not installed: run `make deps`")
	}
	c, err := pgx.ParseConfig(w.url)
	if err != nil {
		tb.Fatal(err)
	}
	_, port, err := net.SplitHostPort(testenv.FreeAddress(tb))
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pooler") //nolint:usetesting // another user reads it, who cannot enter the test's own
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	ini := fmt.Sprintf("[databases]\n%s = host=%s port=%d dbname=%[1]s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %[4]s\nunix_socket_dir =\n"+
		"auth_type = trust\nauth_file = %[5]s\npool_mode = transaction\ndefault_pool_size = 1\nignore_startup_parameters = extra_float_digits\n",
		c.Database, c.Host, c.Port, port, filepath.Join(dir, "users"))
	err = errors.Join(os.Chmod(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "users"), []byte(`"`+w.role+`" ""`+"\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "ini"), []byte(ini), 0o644))
	if err != nil {
		tb.Fatal(err)
	}
	args := []string{filepath.Join(dir, "ini")}
	if os.Getuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...) // it does not run as root
	}
	cmd := osexec.Command(program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	through := strings.Replace(w.urlOf(w.role), ":"+strconv.Itoa(int(c.Port))+"/", ":"+port+"/", 1) + "&default_query_exec_mode=exec"
	testenv.Eventually(tb, time.Minute, "the pooler answers", func() bool {
		conn, err := pgx.Connect(tb.Context(), through)
		return err == nil && conn.Close(tb.Context()) == nil
	})
	return through
}

// TestThroughPooler: two clients share one session of the server, and no token.
func TestThroughPooler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	through := pooler(t, w)
	a, b := connect(t, through), connect(t, through)
	tok := w.raise(t, "coupon:1", 34)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for range 7 { // more often than it takes to have plans
			wantNil(t, string(level), in(t, a, level, func(tx pgx.Tx) error {
				return errors.Join(pgguard.Enter(t.Context(), tx, tok), run(t, tx, update1))
			}))
			_, err := b.Exec(t.Context(), update1)
			wantCode(t, "the other client", err, pgguard.CodeNoToken)
			batch := &pgx.Batch{}
			wantNil(t, "queue", pgguard.Queue(batch, tok))
			batch.Queue(update1)
			wantNil(t, "a batch", b.SendBatch(t.Context(), batch).Close())
			_, err = a.Exec(t.Context(), update1)
			wantCode(t, "the other client", err, pgguard.CodeNoToken)
		}
	}
	if got := value[string](t, a, "show idle_in_transaction_session_timeout"); got != "0" {
		t.Errorf("enter left a timeout of %s in the session", got)
	}
	if got := value[int](t, w.admin, "select n from coupons where id = '1'"); got != 42 {
		t.Errorf("got %d, want 42", got)
	}
}

// TestPrepared: statements that are prepared, and plans that are kept, see every change of the
// mark and of the guard.
func TestPrepared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.app(t)
	for name, sql := range map[string]string{"enter": enter, "update": "update coupons set n = n + 1 where id = $1"} {
		if _, err := c.Prepare(t.Context(), name, sql); err != nil {
			t.Fatal(err)
		}
	}
	do := func(tok fencing.Token, id string) error {
		return in(t, c, pgx.ReadCommitted, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "enter", tok.Resource, tok.Text()); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), "update", id)
			return err
		})
	}
	for n := range int64(10) {
		tok := w.raise(t, "coupon:1", n+1)
		for range 10 {
			wantNil(t, "its token", do(tok, "1"))
		}
		wantCode(t, "another row", do(tok, "2"), pgguard.CodeNoToken)
		wantNil(t, "retire", w.fence.Retire(t.Context(), tok))
		wantCode(t, "released", do(tok, "1"), pgguard.CodeRetired)
	}
}
