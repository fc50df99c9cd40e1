package fault_test

import "github.com/fencegate/fencegate/internal/torture/history"

// forged: whatever was sent was refused, for more than one reason.
func (s *scene) forged() {
	s.Helper()
	note := s.make("forged", nil)
	reasons := map[string]int{}
	for _, op := range note.Ops {
		if !op.Forged || op.Kind != history.Commit || len(op.Writes) == 0 || len(op.Tokens) == 0 || op.Return < op.Call {
			s.Fatalf("not as it is to be written down: %+v", op)
		}
		if op.Outcome == "applied" {
			s.Errorf("accepted: %+v", op)
		}
		reasons[op.Outcome+" "+op.Reason]++
	}
	s.Logf("%d: %v", len(note.Ops), reasons)
	for _, reason := range []string{"superseded", "duplicate", "ungranted"} {
		if reasons["refused "+reason] == 0 {
			s.Errorf("nothing was refused as %s", reason)
		}
	}
}

// herd: everybody is answered, and who was granted the lock gave it back.
func (s *scene) herd() {
	s.Helper()
	note := s.make("herd", nil)
	granted, freed, numbers := 0, 0, map[int64]bool{}
	for _, op := range note.Ops {
		if op.Outcome == "" || op.Return < op.Call {
			s.Fatalf("there is no answer: %+v", op)
		}
		if op.Kind == history.Acquire && op.Outcome == "applied" {
			granted++
			numbers[op.Tokens[0].Number] = true
		}
		if op.Kind == history.Release && op.Freed {
			freed++
		}
	}
	// How many are served in time depends on the machine.
	if granted < 1 || freed > granted || len(numbers) != granted {
		s.Errorf("%d were granted the lock, with %d numbers, and %d freed it", granted, len(numbers), freed)
	}
}
