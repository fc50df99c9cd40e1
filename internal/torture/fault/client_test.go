package fault_test

import (
	"errors"
	"fmt"
	"slices"
)

// stands is nil when the paused processes write nothing while the others, or else the clock, go on.
func (s *scene) stands(paused []int) error {
	total := func() (sum int) {
		for _, i := range paused {
			sum += s.written(i)
		}
		return sum
	}
	for _, p := range s.r.Clients {
		if slices.Contains(paused, p.ID()) {
			continue
		}
		// What was in the pipe is read by now.
		for range 2 {
			was, at := total(), s.written(p.ID())
			if err := s.within(slack, func() error { return s.goesOn(p.ID(), at) }); err != nil {
				return err
			}
			if total() == was {
				return nil
			}
		}
		return fmt.Errorf("processes %v write although they are stopped", paused)
	}
	return errors.New("all are stopped")
}

// clients makes the faults of client processes.
func (s *scene) clients() {
	t := s.T
	t.Helper()
	for _, p := range s.r.Clients {
		if err := s.within(slack, func() error { return s.goesOn(p.ID(), 0) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"client-pause", "client-pause-one"} {
		var stopped int
		s.makeWithNote(name, func(paused []int) error {
			if len(paused) != 1 { // half of two
				return fmt.Errorf("paused: %v", paused)
			}
			stopped = paused[0]
			return s.stands(paused)
		})
		at := s.written(stopped)
		if err := s.within(slack, func() error { return s.goesOn(stopped, at) }); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}

	note := s.make("client-pause-in-transaction", func() error {
		var left, idle int
		err := s.sql(&left, "select count(*) from pg_stat_activity where state = 'idle in transaction' and clock_timestamp() - state_change > interval '700 ms'")
		if err == nil {
			err = s.sql(&idle, "select max_idle_ms from fencegate.meta")
		}
		if err == nil && (left > 0 || idle >= 5000) {
			err = fmt.Errorf("%d transactions are idle for long, and max_idle_ms is %d", left, idle)
		}
		return err
	})
	if len(note.Paused) != 1 {
		t.Errorf("paused: %v", note.Paused)
	}
	var idle int
	if err := s.within(slack, func() error { return s.sql(&idle, "select max_idle_ms from fencegate.meta") }); err != nil || idle != 5000 {
		t.Errorf("after it was healed max_idle_ms is %d, %v", idle, err)
	}

	var pids []int
	for _, p := range s.r.Clients {
		pids = append(pids, p.Pid())
	}
	note = s.make("client-kill", func() error {
		for _, p := range s.r.Clients {
			if p.Pid() == 0 {
				return nil
			}
		}
		return errors.New("all live")
	})
	if len(note.Killed) != 1 {
		t.Errorf("killed: %v", note.Killed)
	}
	for _, p := range s.r.Clients {
		if p.Pid() == 0 || p.ID() == note.Killed[0] {
			t.Errorf("process %d is not replaced", p.ID())
		}
	}
	if pids[0] == s.r.Clients[0].Pid() && pids[1] == s.r.Clients[1].Pid() {
		t.Error("nobody was killed")
	}

	s.make("client-freeze-thaw", nil)
	for _, p := range s.r.Clients {
		at := s.written(p.ID())
		if err := s.within(slack, func() error { return s.goesOn(p.ID(), at) }); err != nil {
			t.Error(err)
		}
	}
}
