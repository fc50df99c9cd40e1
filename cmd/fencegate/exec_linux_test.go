package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
)

// TestExecKilled kills the wrapper, which can then do nothing: the kernel ends its command.
func TestExecKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, fencing.Strict)
	w := wrap(t, r, forever)
	w.begin(t)
	w.await(t, "child")
	w.signal(t, syscall.SIGKILL)
	_ = w.Wait()
	w.gone(t, "child")
}

// TestExecOnATerminal presses Ctrl-C and Ctrl-\: each reaches the command once, which then gets
// SIGTERM from the wrapper.
func TestExecOnATerminal(t *testing.T) {
	t.Parallel()
	keyboard, tty := newTerminal(t)
	r := newRig(t, fencing.Strict)
	w := wrap(t, r, `trap 'echo INT >>got' INT; trap 'echo QUIT >>got' QUIT; trap 'echo TERM >>got; exit 7' TERM
		test -t 0 && echo x >ready; while :; do sleep 0.05; done`)
	w.Stdin = tty
	w.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	w.begin(t)
	w.await(t, "ready")
	want := ""
	for _, key := range []struct{ code, name string }{{"\x03", "INT"}, {"\x1c", "QUIT"}, {"\x03", "INT"}} {
		if _, err := keyboard.WriteString(key.code); err != nil {
			t.Fatal(err)
		}
		want = strings.TrimSpace(want + "\n" + key.name)
		testenv.Eventually(t, patience, key.name, func() bool { return strings.HasPrefix(w.read("got"), want) })
	}
	w.signal(t, syscall.SIGTERM)
	w.ends(t, 7)
	if got := w.read("got"); got != want+"\nTERM" {
		t.Errorf("the command got %q, want %q", got, want+"\nTERM")
	}
}

// TestExecLosesOnATerminal evicts a holder on a terminal, where its command leads no group: what it
// has started is ended all the same.
func TestExecLosesOnATerminal(t *testing.T) {
	t.Parallel()
	_, tty := newTerminal(t)
	r := newRig(t, fencing.Strict)
	w := wrap(t, r, `trap '' HUP # the terminal's end must not do it
		sh -c 'trap "" TERM; echo $$ >stubborn; while :; do sleep 0.05; done' &
		sh -c 'sh -c "echo \$\$ >grandchild; while :; do sleep 0.05; done"; :' &
		echo $$ >child; while :; do sleep 0.05; done`, "--ttl", "10s", "--grace", "200ms")
	w.Stdin = tty
	w.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	w.begin(t)
	for _, name := range []string{"child", "stubborn", "grandchild"} {
		w.await(t, name)
	}
	if err := r.issuer.Evict(t.Context(), "coupon:42", r.status(t, "coupon:42").Number, "test"); err != nil {
		t.Fatal(err)
	}
	w.ends(t, exitLost)
	for _, name := range []string{"child", "stubborn", "grandchild"} {
		w.gone(t, name)
	}
}

// newTerminal returns the two ends of a pseudo-terminal.
func newTerminal(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	fd := int(keyboard.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return keyboard, tty
}
