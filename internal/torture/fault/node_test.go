package fault_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/locking/redlock"
)

// nodes counts the nodes of redlock in a state.
func (s *scene) nodes(state redlock.NodeState) (n int) {
	err := s.r.Redlock(func(b *redlock.Backend) error {
		for _, node := range b.Nodes(s.Context()) {
			if node.State == state {
				n++
			}
		}
		return nil
	})
	if err != nil {
		s.Error(err)
	}
	return n
}

func TestRedlock(t *testing.T) {
	t.Parallel()
	s := start(t, rig.Spec{Lock: "redlock", Store: "redis"})
	are := func(n int, state redlock.NodeState) func() error {
		return func() error {
			if got := s.nodes(state); got != n {
				return fmt.Errorf("%d nodes are %s, want %d", got, state, n)
			}
			return nil
		}
	}
	s.make("redlock-minority-kill", are(2, redlock.NodeDown))
	s.make("redlock-majority-kill", are(3, redlock.NodeDown))
	s.make("redlock-minority-pause", are(2, redlock.NodeDown))
	if note := s.make("redlock-node-older-copy", are(5, redlock.NodeOK)); !slices.Equal(note.Loses, []history.Loss{history.LosesLocks}) {
		t.Errorf("redlock-node-older-copy: it says %v", note.Loses)
	}
	for range 4 { // it is always the same node, or there would be no majority
		s.make("redlock-node-empty", are(1, redlock.NodeQuarantine))
	}
	s.canceled()
}

func TestGateways(t *testing.T) {
	t.Parallel()
	s := start(t, rig.Spec{Lock: "redis", Store: "redis", Gateways: 2, OldServer: server(t)}, "gateway-old-and-new")
	dead := func(n int) func() error {
		return func() error {
			got := 0
			for _, g := range s.r.Gateways {
				if g.Pid() == 0 {
					got++
				}
			}
			if got != n {
				return fmt.Errorf("%d gateways do not run, want %d", got, n)
			}
			return nil
		}
	}
	pids := func() (list []int) {
		for _, g := range s.r.Gateways {
			list = append(list, g.Pid())
		}
		return list
	}
	s.make("gateway-kill", dead(1))
	s.make("gateway-drop-all", dead(2))
	s.make("gateway-pause", nil)
	for _, name := range []string{"gateway-restart", "gateway-old-and-new"} {
		was := pids()
		s.make(name, dead(0))
		for i, pid := range pids() {
			if pid == was[i] {
				t.Errorf("%s: gateway %d was not restarted", name, i)
			}
		}
	}
}

// TestNoOldServer: without an earlier program the fault is void, and not an error.
func TestNoOldServer(t *testing.T) {
	t.Parallel()
	f := named(t, "gateway-old-and-new")
	_, err := f.Inject(t.Context(), &rig.Rig{Spec: rig.Spec{Lock: "redis", Store: "redis", Gateways: 2}}, nil, &history.Fault{})
	if !fault.IsVoid(err) {
		t.Errorf("got %v, want a *VoidError", err)
	}
}
