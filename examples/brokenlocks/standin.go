package main

import (
	"context"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// standIn is a Redis in this process, where there is no server. It answers over TCP like one.
type standIn struct {
	m    *miniredis.Miniredis
	addr string

	mu     sync.Mutex
	killed bool
}

var _ Clock = (*standIn)(nil)

func startStandIn() (*standIn, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // else keys expire only when somebody says so
	if err := m.Start(); err != nil {
		return nil, err
	}
	return &standIn{m: m, addr: m.Addr()}, nil
}

func (s *standIn) Addr() string { return s.addr }

func (s *standIn) Jump(d time.Duration) { s.m.FastForward(d) }

func (s *standIn) Kill(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	return nil
}

func (s *standIn) kill() {
	if !s.killed {
		s.m.Close()
		s.killed = true
	}
}

func (s *standIn) Hang(context.Context) error {
	s.m.Server().SetPreHook(func(*server.Peer, string, ...string) bool { return true }) // done, and nothing said
	return nil
}

// Restart listens at the same port. A program that is just being started by this process still has a
// copy of the closed listener, for the moment between fork and exec.
func (s *standIn) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	s.m.FlushAll()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		err := s.m.Restart()
		if err == nil {
			s.killed = false
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-look.C:
		}
	}
}

// redis starts n Redis servers, real ones or stand-ins.
func (s *servers) redis(ctx context.Context, n int, real bool) (nodes []Node, err error) {
	for range n {
		var node Node
		if real {
			node, err = s.startRedis(ctx)
		} else {
			node, err = startStandIn()
		}
		if err != nil {
			return nil, err
		}
		if !real {
			s.ends = append(s.ends, func() { _ = node.Kill(context.WithoutCancel(ctx)) })
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
