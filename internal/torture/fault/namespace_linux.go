package fault

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace. A socket belongs to the one in which it was made, whoever uses it then.
type namespace struct{ fd int }

// newNamespace returns a new one with its loopback device up. The error is a *VoidError where this machine cannot make one.
func newNamespace(ctx context.Context) (*namespace, error) {
	if _, err := exec.LookPath("nft"); err != nil {
		return nil, Void("packets are dropped with nftables: %v", err)
	}
	n := &namespace{fd: -1}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return Void("a network namespace needs root: %v", err)
		}
		var err error
		if n.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open a network namespace: %w", err)
		}
		return loopbackUp()
	})
	if err == nil {
		if e := n.filter(ctx, "list ruleset\n"); e != nil {
			err = Void("%v", e) // a kernel without nftables
		}
	}
	if err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("loopback device of a network namespace: %w", err)
	}
	return nil
}

// do calls f in the namespace: sockets that it makes and programs that it starts are inside.
func (n *namespace) do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

// filter changes the rules of the packet filter.
func (n *namespace) filter(ctx context.Context, script string) error {
	return n.do(func() error {
		cmd := exec.CommandContext(ctx, "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
}

// close gives it up; it ends with its last socket.
func (n *namespace) close() {
	if n.fd >= 0 {
		_ = unix.Close(n.fd) // nothing was written to it
	}
}

// onThread calls f on a thread of its own, which ends with it: what f changes of the thread no other
// goroutine gets to see.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked
		done <- f()
	}()
	return <-done
}
