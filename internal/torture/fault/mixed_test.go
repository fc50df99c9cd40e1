package fault_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// TestRedisAndPostgres: the lock is in one server, the store in the other.
func TestRedisAndPostgres(t *testing.T) {
	t.Parallel()
	s := start(t, rig.Spec{Lock: "redis", Store: "postgres"}, "disk-full", "pool-exhausted", "client-pause-in-transaction")
	s.clients()
	if got := s.r.Clients[0].Config.Pool; got != 2 {
		t.Errorf("the clients' pools have %d connections, want 2", got)
	}
	s.make("pool-exhausted", nil)
	s.forged()
	s.operated("evict-holders")
	s.operated("evict-all-marks")
	s.redisLosses(history.LosesLocks)
	s.diskFull()
	s.herd()
	s.canceled()
}

// TestPostgresAndRedis: the same the other way round.
func TestPostgresAndRedis(t *testing.T) {
	t.Parallel()
	s := start(t, rig.Spec{Lock: "postgres", Store: "redis"}, "disk-full")
	s.operated("evict-all-marks")
	s.redisLosses(history.LosesData)
	s.diskFull()
}

// TestInTheGateway: lock and store are in the gateway.
func TestInTheGateway(t *testing.T) {
	t.Parallel()
	s := start(t, rig.Spec{Lock: "memory", Store: "sqlite", Gateways: 1}, "disk-full")
	s.forged()
	s.operated("evict-holders")
	note := s.make("gateway-kill", func() error {
		if s.r.Gateways[0].Pid() != 0 {
			return errors.New("the gateway runs")
		}
		return nil
	})
	if want := []history.Loss{history.LosesLocks}; !slices.Equal(note.Loses, want) {
		t.Errorf("gateway-kill: it says %v, want %v", note.Loses, want)
	}
	s.diskFull()
	s.noTransaction()
	s.noHerd()
	s.canceled()
}

func (s *scene) operated(name string) {
	s.Helper()
	if note := s.make(name, nil); strings.HasPrefix(note.Detail, "0 ") {
		s.Errorf("%s: %s", name, note.Detail)
	}
}

// diskFull: there is no room, and then there is.
func (s *scene) diskFull() {
	s.Helper()
	dir := s.r.SmallDiskDir()
	if dir == "" { // who is not root cannot
		_, err := named(s.T, "disk-full").Inject(s.Context(), s.r, s.rnd, &history.Fault{})
		if !fault.IsVoid(err) {
			s.Errorf("got %v, want a *VoidError", err)
		}
		return
	}
	path := filepath.Join(dir, "torture-probe")
	write := func() error { return os.WriteFile(path, make([]byte, 64<<10), 0o600) }
	for range 2 {
		s.make("disk-full", func() error {
			if err := write(); err == nil {
				return errors.New("there is room")
			}
			return nil
		})
		if err := write(); err != nil {
			s.Errorf("after it was healed there is no room: %v", err)
		}
	}
}
