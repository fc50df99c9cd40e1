//go:build unix

package main

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redlock"
)

// TestRedlockScripts runs the operators' commands on servers of their own.
func TestRedlockScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script/redlock",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": statusCmd, "nodes": nodesCmd, "node": nodeCmd, "grant": grantCmd,
		},
		Setup: func(e *testscript.Env) error {
			e.Values[tbKey{}], e.Values[nodesKey{}] = e.T(), new([]*testenv.Redis)
			e.Setenv("GORACE", quickExit)
			return nil
		},
	})
}

// nodesKey finds the servers of a script.
type nodesKey struct{}

// nodesCmd is "nodes N [durable]": it starts N servers, puts their URLs into
// $FENCEGATE_REDLOCK_URLS, and each address into $N1, $N2 and so on.
func nodesCmd(ts *testscript.TestScript, _ bool, args []string) {
	tb, ok := ts.Value(tbKey{}).(testing.TB)
	n, err := strconv.Atoi(args[0])
	if !ok || err != nil {
		ts.Fatalf("usage: nodes N [durable]")
	}
	list := make([]*testenv.Redis, n)
	var urls []string
	for i := range list {
		list[i] = testenv.StartRedis(tb, &testenv.RedisOptions{AppendOnly: len(args) > 1})
		urls = append(urls, list[i].URL())
		ts.Setenv("N"+strconv.Itoa(i+1), list[i].Addr())
	}
	ts.Setenv("FENCEGATE_REDLOCK_URLS", strings.Join(urls, ","))
	*ts.Value(nodesKey{}).(*[]*testenv.Redis) = list
}

// nodeCmd is "node I kill|empty|restart": it does so to the server.
func nodeCmd(ts *testscript.TestScript, _ bool, args []string) {
	list := *ts.Value(nodesKey{}).(*[]*testenv.Redis)
	i, err := strconv.Atoi(args[0])
	ts.Check(err)
	switch s := list[i-1]; args[1] {
	case "kill":
		s.Kill()
	case "empty":
		s.RestartEmpty()
	case "restart":
		s.Restart()
	default:
		ts.Fatalf("usage: node I kill|empty|restart")
	}
}

// grantCmd is "grant RESOURCE": it takes the lock and frees it, on the nodes of the script.
func grantCmd(ts *testscript.TestScript, _ bool, args []string) {
	maxTTL, err := time.ParseDuration(ts.Getenv("FENCEGATE_REDLOCK_MAX_TTL"))
	ts.Check(err)
	f := redlockFlags{RedlockURLs: strings.Split(ts.Getenv("FENCEGATE_REDLOCK_URLS"), ","), RedlockMaxTTL: maxTTL}
	ts.Check(f.with(false, func(b *redlock.Backend) error {
		h, err := b.TryAcquire(context.Background(), locking.Request{Resource: args[0], Grant: fencing.NewGrant(), TTL: maxTTL})
		if err == nil {
			_, err = b.Release(context.Background(), h.Token)
		}
		return err
	}))
}

// TestInterruptedRedlockAdmit: Ctrl-C while admit waits leaves the node in quarantine.
func TestInterruptedRedlockAdmit(t *testing.T) {
	t.Parallel()
	var urls []string
	var servers []*testenv.Redis
	for range 3 {
		servers = append(servers, testenv.StartRedis(t, nil))
		urls = append(urls, servers[len(servers)-1].URL())
	}
	all := strings.Join(urls, ",")
	if out, err := command(t, "redlock", "init", "--redlock-urls", all).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	servers[1].RestartEmpty()
	cmd := command(t, "redlock", "admit", "--redlock-urls", all, servers[1].Addr())
	var stderr lockedBuffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, "admit to wait", func() bool { return strings.Contains(stderr.String(), "left") })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != exitInterrupted {
		t.Errorf("exit status %d, want %d: %s", got, exitInterrupted, stderr.String())
	}
	out, err := command(t, "redlock", "status", "--redlock-urls", all).Output()
	if err == nil || !bytes.Contains(out, []byte("fencegate redlock admit "+servers[1].Addr())) {
		t.Errorf("status: %v\n%s", err, out)
	}
}

// lockedBuffer is written by one goroutine and read by another.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
