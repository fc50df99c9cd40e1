package rig_test

import (
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/internal/torture/workload"
)

// TestRealClients lets real client processes work, stops one past its lease, and kills one.
func TestRealClients(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]rig.Spec{
		"redis+postgres":           {Lock: "redis", Store: "postgres", Links: true},
		"redlock+postgres":         {Lock: "redlock", Store: "postgres", Nodes: 3},
		"rowlock+postgres":         {Lock: "rowlock", Store: "postgres", Links: true},
		"memory+sqlite":            {Lock: "memory", Store: "sqlite", Gateways: 1, GatewayLinks: true},
		"redis+postgres, gateways": {Lock: "redis", Store: "postgres", Gateways: 2, Links: true, GatewayLinks: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s.Processes = 2
			c := &s.Client
			c.Seats, c.Groups, c.Seed = 6, 2, 42
			c.Wait, c.Call, c.Hold, c.Late, c.Odd = 5*time.Second, 3*time.Second, 5*time.Millisecond, 0.3, 0.1
			for _, w := range workload.All() {
				if w.Name() != "table" || s.Store == "postgres" {
					c.Workloads = append(c.Workloads, w.Name())
				}
			}
			r, lines := build(t, s)
			seed(t, r)
			check(t, "start the clients", r.StartClients(ctx))
			works := func(p *rig.Process) {
				t.Helper()
				from := lines.commits(p.ID())
				testenv.Eventually(t, slack, "commits", func() bool { return lines.commits(p.ID()) >= from+5 })
			}
			for _, p := range r.Clients {
				works(p)
			}
			check(t, "pause", r.Clients[0].Pause())
			works(r.Clients[1])
			check(t, "resume", r.Clients[0].Resume())
			works(r.Clients[0])
			check(t, "kill", r.Clients[1].Kill())
			check(t, "respawn", r.Respawn(ctx, 1))
			works(r.Clients[1])
			check(t, "stop the clients", r.StopClients(ctx))
			leaks, err := r.Leaks(ctx)
			if err != nil || len(leaks) > 0 {
				t.Errorf("leaks %+v, %v", leaks, err)
			}
			for _, p := range r.Clients {
				for _, l := range lines.leaks(p.ID()) {
					t.Errorf("process %d tells of %+v", p.ID(), l)
				}
			}
		})
	}
}

func seed(t *testing.T, r *rig.Rig) {
	t.Helper()
	a, err := r.Access(t.Context())
	check(t, "access", err)
	for _, name := range r.Spec.Client.Workloads {
		w, _ := workload.Named(name)
		for i := range r.Spec.Client.Groups {
			_, err := w.Seed(t.Context(), a, w.Resources(r.Spec.Client.Prefix, i))
			check(t, "seed "+name, err)
		}
	}
}

// commits counts those that were acknowledged.
func (l *told) commits(process int) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines[process] {
		if line.Op != nil && line.Op.Kind == history.Commit && line.Op.Outcome == "applied" {
			n++
		}
	}
	return n
}

func (l *told) leaks(process int) (list []history.Leak) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines[process] {
		if line.Leak != nil {
			list = append(list, *line.Leak)
		}
	}
	return list
}
