package pglock_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	osexec "os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
)

// otherProcess is [process], running.
type otherProcess struct {
	cmd *osexec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func startProcess(tb testing.TB, url, resource string, ttl time.Duration) *otherProcess {
	tb.Helper()
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	p := &otherProcess{cmd: osexec.Command(program, resource, ttl.String())}
	p.cmd.Env = append(os.Environ(), processEnv+"="+url)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, p.cmd.Start()); err != nil {
		tb.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	tb.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

func (p *otherProcess) says(tb testing.TB, want string) {
	tb.Helper()
	if !p.out.Scan() || p.out.Text() != want {
		tb.Fatalf("the process says %q, %v, want %q", p.out.Text(), p.out.Err(), want)
	}
}

func (p *otherProcess) renews(tb testing.TB, want string) {
	tb.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		tb.Fatal(err)
	}
	p.says(tb, want)
}

func (p *otherProcess) signal(tb testing.TB, s syscall.Signal) {
	tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		tb.Fatal(err)
	}
}

// granted tries until the lock is had, and says how long that took.
func granted(tb testing.TB, b *pglock.RowLocks, r locking.Request) (h locking.Hold, took time.Duration) {
	tb.Helper()
	start := time.Now()
	testenv.Eventually(tb, testPatience, "the lock is free", func() bool {
		var err error
		h, err = b.TryAcquire(tb.Context(), r)
		if err != nil && !errors.Is(err, locking.ErrHeld) {
			tb.Fatal(err)
		}
		return err == nil
	})
	return h, time.Since(start)
}

// TestRowLockProcessKilled: kill -9 of the holder frees the lock, long before its TTL.
func TestRowLockProcessKilled(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	b := rowLocks(t, url)
	r := request(t)
	p := startProcess(t, url, r.Resource, time.Hour)
	p.says(t, "held")
	p.renews(t, "renewed")
	if _, err := b.TryAcquire(t.Context(), r); !errors.Is(err, locking.ErrHeld) {
		t.Fatalf("got %v, want held", err)
	}
	p.signal(t, syscall.SIGKILL)
	if h, _ := granted(t, b, next(r)); h.Token.Number != 2 {
		t.Errorf("got %v, want number 2", h.Token)
	}
}

// TestRowLockProcessStopped: a process that stands still keeps its connection, and loses the
// lock all the same when its TTL is over. It learns that when it goes on.
func TestRowLockProcessStopped(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	b := rowLocks(t, url)
	r := request(t)
	const ttl = 4 * time.Second
	p := startProcess(t, url, r.Resource, ttl)
	p.says(t, "held")
	time.Sleep(ttl / 4)
	p.renews(t, "renewed")
	p.signal(t, syscall.SIGSTOP)
	stopped := time.Now()
	h, _ := granted(t, b, next(r))
	if took := time.Since(stopped); h.Token.Number != 2 || took < ttl/2 {
		t.Errorf("got %v after %v, want number 2 after about %v", h.Token, took, ttl)
	}
	p.signal(t, syscall.SIGCONT)
	p.renews(t, "lost")
	if err := b.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0]; err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// TestRowLockWaiterStopped: its session comes by the lock, and is ended long before the TTL.
func TestRowLockWaiterStopped(t *testing.T) {
	t.Parallel()
	for range 5 { // a busy machine may let its second of waiting pass first
		if rowLockWaiterStopped(t) {
			return
		}
	}
	t.Error("each time the session gave up before the lock was free")
}

// rowLockWaiterStopped reports whether the stopped waiter's session came by the lock.
func rowLockWaiterStopped(t *testing.T) bool {
	t.Helper()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url)
	b := rowLocks(t, url)
	r := request(t)
	tok := acquire(t, b, r).Token
	p := startProcess(t, url, r.Resource, time.Hour)
	testenv.Eventually(t, testPatience, "it has begun to wait", func() bool { // for a second at a time
		var n int
		_ = owner.QueryRow(t.Context(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and clock_timestamp() < query_start + interval '300 ms'").Scan(&n)
		return n > 0
	})
	p.signal(t, syscall.SIGSTOP)
	release(t, b, tok)
	for start := time.Now(); holder(t, owner, r.Resource) == 0; {
		if time.Since(start) > 2*locking.LookEvery {
			return false
		}
	}
	h, took := granted(t, b, next(r))
	if limit := b.MaxStall() + 5*time.Second; took > limit { // of the machine
		t.Errorf("got %v after %v, want at most %v", h.Token, took, b.MaxStall())
	}
	t.Logf("after %v", took)
	return true
}
