//go:build unix

package main

import (
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fencegate/fencegate/internal/testenv"
)

// postgresCmd is "postgres": it puts the URL of a new database into $PG, and that of one
// which does not exist into $NODB.
func postgresCmd(ts *testscript.TestScript, _ bool, _ []string) {
	tb := ts.Value(tbKey{}).(testing.TB)
	pg := testenv.SharedPostgres(tb).NewDatabase(tb)
	ts.Setenv("PG", pg)
	u, err := url.Parse(pg)
	ts.Check(err)
	u.Path += "_none"
	ts.Setenv("NODB", u.String())
}

// tbKey finds the test of a script.
type tbKey struct{}

// statusCmd is "status N program args...": it runs the program, which must exit with N.
func statusCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// emptyDirCmd is "emptydir DIR": the folder must be empty.
func emptyDirCmd(ts *testscript.TestScript, _ bool, args []string) {
	list, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(list) > 0 {
		ts.Fatalf("%s is not empty: %v", args[0], list)
	}
}

// closedPortCmd is "closedport": it puts a port into $CLOSED that nobody listens on. The
// port stays taken, by a socket that accepts nothing.
func closedPortCmd(ts *testscript.TestScript, _ bool, _ []string) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	ts.Check(err)
	ts.Defer(func() { _ = syscall.Close(fd) })
	ts.Check(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	addr, err := syscall.Getsockname(fd)
	ts.Check(err)
	ts.Setenv("CLOSED", strconv.Itoa(addr.(*syscall.SockaddrInet4).Port))
}

// busyPortCmd is "busyport": it puts a port into $BUSY that is listened on.
func busyPortCmd(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv("BUSY", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

// silentPortCmd is "silentport": it puts a port into $SILENT whose connections are taken
// and never answered.
func silentPortCmd(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }() // when the script is over
		}
	}()
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv("SILENT", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}
