package testenv

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A race for a port cannot be arranged from outside: late lets a stranger take the port between its choice and the start.
type late struct {
	*redisEngine
	stranger *process
	stolen   string
	err      error
}

func (e *late) command(s *server) *exec.Cmd {
	cmd := e.redisEngine.command(s)
	if e.stranger == nil {
		e.stolen = s.port.addr()
		e.stranger, e.err = s.spawn(e.redisEngine.command(s))
		if e.err == nil {
			poll(10*time.Second, func() bool { return e.ready(context.Background(), s, e.stranger.pid()) == nil })
		}
	}
	return cmd
}

func TestPortTakenByAStranger(t *testing.T) {
	t.Parallel()
	engine, err := newRedisEngine(nil)
	if err == nil {
		err = supported()
	}
	if err != nil {
		fail(t, err)
	}
	e := &late{redisEngine: engine}
	s, err := startServer(context.Background(), e)
	if e.stranger != nil {
		defer func() { _ = killTree(e.stranger) }()
	}
	if err != nil || e.err != nil {
		t.Fatal(err, e.err)
	}
	defer func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}()
	if s.port.addr() == e.stolen {
		t.Fatalf("a stranger on %s was taken for the server", e.stolen)
	}
	if err := e.ready(context.Background(), s, e.stranger.pid()); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("ready with the id of another process: got %v, want a refusal", err)
	}
}

func TestPortsAreReserved(t *testing.T) {
	t.Parallel()
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	if claim, err := net.ListenPacket("udp4", p.addr()); err == nil {
		_ = claim.Close()
		t.Errorf("%s could be claimed twice", p.addr())
	}
	p.release()
	claim, err := net.ListenPacket("udp4", p.addr())
	if err != nil {
		t.Fatalf("a released port is still claimed: %v", err)
	}
	_ = claim.Close()
}
