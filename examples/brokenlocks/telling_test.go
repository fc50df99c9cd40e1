package main

import (
	"strings"
	"testing"
)

// outcome is what a telling has to come to.
type outcome struct {
	accepted, refused int
	is, ok            int64
	damage            string   // what its text begins with; empty: none
	lines             []string // what the diagram shows, in this order
}

func (o outcome) check(t *testing.T, what string, s Seen) {
	t.Helper()
	if s.Accepted != o.accepted || s.Refused != o.refused {
		t.Errorf("%s: %d writes accepted and %d refused, want %d and %d", what, s.Accepted, s.Refused, o.accepted, o.refused)
	}
	if s.CounterIs != o.is || s.CounterOK != o.ok {
		t.Errorf("%s: the counter says %d and should say %d, want %d and %d", what, s.CounterIs, s.CounterOK, o.is, o.ok)
	}
	if !strings.HasPrefix(s.Damage, o.damage) || (o.damage == "") != (s.Damage == "") {
		t.Errorf("%s: damage %q, want %q", what, s.Damage, o.damage)
	}
	i := 0
	for _, it := range s.Diagram.Items {
		if i < len(o.lines) && it.From+": "+it.Label == o.lines[i] {
			i++
		}
	}
	if i < len(o.lines) {
		t.Errorf("%s: the diagram lacks %q, in this place:\n%s", what, o.lines[i], draw(t, s))
	}
}

// run tells e on servers and, where it can be, on stand-ins, and compares what is measured.
func (o outcome) run(t *testing.T, e Exhibit, second outcome) {
	t.Helper()
	worlds := map[string]func(*testing.T, Needs) *World{"server": realWorld}
	if e.Needs == Nodes {
		worlds["stand-in"] = standInWorld
	}
	for name, world := range worlds {
		t.Run(e.Name+" "+name, func(t *testing.T) {
			t.Parallel()
			w := world(t, e.Needs)
			o.check(t, "first", tell(t, w, e, false))
			second.check(t, "second", tell(t, w, e, true))
		})
	}
}

const acknowledged = "2 writes were acknowledged"

// TestLostOnServers: a login of A over a logout of B, or one coupon handed out twice. The two do not
// know of each other, and the second store refuses A.
func TestLostOnServers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		e             Exhibit
		first, second []string
	}{
		{
			replicaPromoted(),
			[]string{"A: has the lock", "lock: the replica is promoted", "B: has the lock", "B: write 4: accepted", "A: write 6: accepted"},
			// The promoted replica counts from the beginning, and the store tells.
			[]string{"A: raise 33", "B: raise 33: seen 33 already", "B: raise 34", "B: write 4 with 34: accepted", "A: write 6 with 33 after 34: REFUSED"},
		},
		{
			redlockRestarted(),
			[]string{"A: 2 votes of 3", "lock: 2: restarted, empty", "lock: nil", "lock: OK", "lock: OK", "B: 2 votes of 3", "A: write 9: accepted"},
			[]string{"A: raise 33", "B: raise 34", "A: write 9 with 33 after 34: REFUSED"},
		},
		{
			redlockDeadNode(),
			[]string{"A: 3 votes of 5", "B: 3 votes of 5", "A: write 9: accepted"},
			[]string{"A: raise 33", "B: raise 34", "A: write 9 with 33 after 34: REFUSED"},
		},
		{
			redlockClockJump(),
			[]string{"A: 2 votes of 3", "lock: nil", "lock: OK", "lock: OK", "B: 2 votes of 3", "A: write 6: accepted"},
			[]string{"A: raise 33", "B: raise 34", "A: write 6 with 33 after 34: REFUSED"},
		},
		{
			databaseConnectionDropped(),
			[]string{"A: has the lock", "B: has the lock", "A: write 6: accepted", "A: now it finds out"},
			[]string{"A: raise 33", "B: raise 34", "A: write 6 with 33 after 34: REFUSED", "A: now it finds out"},
		},
		{
			databaseEarlyCommit(),
			[]string{"A: has the lock", "lock: locked", "lock: the row is free", "lock: 1 row", "B: has the lock", "A: write 9: accepted"},
			[]string{"A: raise 33", "lock: locked", "B: raise 34", "A: write 9 with 33 after 34: REFUSED"},
		},
	} {
		first := outcome{accepted: 2, is: 6, ok: 5, damage: acknowledged, lines: test.first}
		second := outcome{accepted: 1, refused: 1, is: 4, ok: 4, lines: test.second}
		if test.e.Thing == Coupon {
			first.is, first.ok = 9, 8
			second.is, second.ok = 9, 9
		}
		first.run(t, test.e, second)
	}
}

func TestSplitVote(t *testing.T) {
	t.Parallel()
	var rounds []string
	for range splitRounds {
		rounds = append(rounds, "A: 2 votes of 5: no", "B: 2 votes of 5: no")
	}
	outcome{is: 5, ok: 5, damage: "after 4 rounds nobody has the lock", lines: rounds}.
		run(t, redlockSplitVote(), outcome{accepted: 2, is: 7, ok: 7})
}

// TestRunawayWatchdog: the same watchdog renews a lease of fencegate, really and as often, and its lock
// ends within its time.
func TestRunawayWatchdog(t *testing.T) {
	t.Parallel()
	for name, world := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world(t, Redis)
			outcome{accepted: 1, is: 6, ok: 6, damage: "the lock is for "}.check(t, "first", tell(t, w, runawayWatchdog(), false))
			second := tell(t, w, runawayWatchdog(), true)
			outcome{accepted: 2, is: 7, ok: 7}.check(t, "second", second)
			if text := draw(t, second); strings.Count(text, "renew 33: ") != 6 || strings.Count(text, "waited ") != 1 {
				t.Errorf("want six renewals, and how long B waited:\n%s", text)
			}
		})
	}
}

func TestOptimisticStarves(t *testing.T) {
	t.Parallel()
	outcome{
		accepted: rounds, refused: rounds, is: 7, ok: 7, damage: "A has done its work 3 times",
		lines: []string{"B: write 9 if version = 1: accepted", "A: write 9 if version = 1: REFUSED", "A: write 7 if version = 3: REFUSED"},
	}.run(t, optimisticStarves(), outcome{
		accepted: rounds + 1, is: 6, ok: 6,
		lines: []string{"A: works for long", "B: acquire, and wait", "A: write 9 with 33: accepted", "B: write 8 with 34: accepted"},
	})
}

func TestNegativeStock(t *testing.T) {
	t.Parallel()
	outcome{
		accepted: 2, is: -1, ok: -1, damage: "1 was left, and 2 were sold",
		lines: []string{"A: read: 1 left", "B: read: 1 left"},
	}.run(t, negativeStock(), outcome{
		accepted: 1, refused: 1,
		lines: []string{
			"A: read: 1 left", "B: read: 1 left", "B: UPDATE value = value - 1 WHERE value > 0: REFUSED",
			"B: Add(-1, minimum 0): REFUSED, below minimum",
		},
	})
}

// TestWordsOfRedlockAndDatabases: three sentences each, and where people meet it.
func TestWordsOfRedlockAndDatabases(t *testing.T) {
	t.Parallel()
	for _, e := range []Exhibit{
		replicaPromoted(), redlockRestarted(), redlockSplitVote(), redlockDeadNode(), redlockClockJump(),
		databaseConnectionDropped(), databaseEarlyCommit(), optimisticStarves(), negativeStock(),
	} {
		if len(e.Words) != 3 || e.Title == "" || e.Seen == "" {
			t.Errorf("%s: %d sentences, title %q, seen %q", e.Name, len(e.Words), e.Title, e.Seen)
		}
		for _, w := range e.Words {
			if !strings.HasSuffix(w, ".") {
				t.Errorf("%s: no sentence: %q", e.Name, w)
			}
		}
	}
}
