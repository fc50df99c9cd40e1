package fault_test

import (
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/history"
)

// forged: whatever was sent was refused, for more than one reason.
func (s *scene) forged() {
	s.Helper()
	var ops []history.Op
	reasons := map[string]int{}
	wanted := []string{"superseded", "duplicate", "ungranted"}
	// What is forged is drawn, and a busy machine draws a few only in the time of one.
	for end := time.Now().Add(slack); slices.ContainsFunc(wanted, func(r string) bool { return reasons["refused "+r] == 0 }) && time.Now().Before(end); {
		note := s.make("forged", nil)
		for _, op := range note.Ops {
			reasons[op.Outcome+" "+op.Reason]++
		}
		ops = append(ops, note.Ops...)
	}
	for _, op := range ops {
		if !op.Forged || op.Kind != history.Commit || len(op.Writes) == 0 || len(op.Tokens) == 0 || op.Return < op.Call {
			s.Fatalf("not as it is to be written down: %+v", op)
		}
		if op.Outcome == "applied" {
			s.Errorf("accepted: %+v", op)
		}
	}
	s.Logf("%d: %v", len(ops), reasons)
	for _, reason := range wanted {
		if reasons["refused "+reason] == 0 {
			s.Errorf("nothing was refused as %s", reason)
		}
	}
}

// herd: everybody is answered, and who was granted the lock gave it back.
func (s *scene) herd() {
	s.Helper()
	const n = 300
	note := history.Fault{}
	if _, err := fault.Herd(s.Context(), s.r, s.rnd, &note, n); err != nil {
		s.Errorf("herd: %v", err)
	}
	s.Log(note.Detail)
	granted, freed, asked, numbers := 0, 0, 0, map[int64]bool{}
	for _, op := range note.Ops {
		if op.Outcome == "" || op.Return < op.Call {
			s.Fatalf("there is no answer: %+v", op)
		}
		if op.Kind == history.Acquire {
			asked++
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
	if asked < n || granted < 1 || freed > granted || len(numbers) != granted {
		s.Errorf("%d asked, %d were granted the lock, with %d numbers, and %d freed it", asked, granted, len(numbers), freed)
	}
}

// noHerd: a herd that nobody serves shows nothing.
func (s *scene) noHerd() {
	s.Helper()
	g := s.r.Gateways[0]
	if err := g.Kill(); err != nil {
		s.Fatal(err)
	}
	if _, err := fault.Herd(s.Context(), s.r, s.rnd, &history.Fault{}, 2); !fault.IsVoid(err) {
		s.Errorf("nobody was granted the lock: got %v, want a *VoidError", err)
	}
	if err := g.Start(s.Context()); err != nil {
		s.Fatal(err)
	}
}
