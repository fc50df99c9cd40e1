package check_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
)

// TestSuspended: what a fault suspends is no violation, and only that.
func TestSuspended(t *testing.T) {
	t.Parallel()
	lose := func(l history.Loss, from, to int64) history.Fault {
		return history.Fault{Name: string(l), From: from, Injected: from, Heal: to, To: to, Recovered: to + ms, Loses: []history.Loss{l}}
	}
	for _, tc := range []struct {
		name   string
		change func(b *book)
		checks []string // that still object
	}{
		{"numbers, after the data was lost", func(b *book) {
			b.Faults = []history.Fault{lose(history.LosesData, b.op("set.3.acquire").Call, b.now)}
			for _, name := range []string{"acquire", "release"} {
				b.op("set.3." + name).Tokens[0].Number = 2
			}
			b.op("set.3.commit").Outcome = "refused"
			b.lose("set", "e.set.3.commit")
		}, nil},
		{"numbers, before the data was lost", func(b *book) {
			b.Faults = []history.Fault{lose(history.LosesCommits, b.now, b.now+ms)}
			b.op("set.3.acquire").Tokens[0].Number = 2
		}, []string{"numbers"}},
		{"trust, while locks are lost", func(b *book) {
			b.Faults = []history.Fault{lose(history.LosesLocks, 1, 2)}
			b.op("set.1.release").Tokens[0].Grant = "another"
		}, nil},
		{"trust of a process that was killed", func(b *book) {
			f := lose("", b.op("set.1.release").Return, b.now)
			f.Killed = []int{1}
			b.Faults = []history.Fault{f}
			b.op("set.1.release").Tokens[0].Grant = "another"
		}, nil},
		{"trust of another process", func(b *book) {
			f := lose("", b.op("set.1.release").Return, b.now)
			f.Killed = []int{2}
			b.Faults = []history.Fault{f}
			b.op("set.1.release").Tokens[0].Grant = "another"
		}, []string{"trust"}},
		{"an element, lost with the data", func(b *book) {
			at := b.op("set.2.acquire").Call
			b.Faults = []history.Fault{lose(history.LosesData, at-2, at-1)}
			b.lose("set", "e.set.1.commit")
		}, nil},
		{"an element, lost with the data of two faults at once", func(b *book) {
			at := b.op("set.2.acquire").Call
			b.Faults = []history.Fault{lose(history.LosesData, at-2, at-1), lose(history.LosesCommits, at-2*ms, at-1)}
			b.lose("set", "e.set.1.commit")
		}, nil},
		{"a fault that was not healed", func(b *book) {
			at := b.op("set.2.acquire").Call
			b.Faults = []history.Fault{lose(history.LosesData, at-2, 0)}
			b.lose("set", "e.set.3.commit")
			*b.last("register", "value") = history.Cell{Resource: "register", Key: "value", Value: "0 seed", Version: 1}
		}, nil},
		{"an older token, while the data is lost", func(b *book) {
			b.Faults = []history.Fault{lose(history.LosesData, b.op("set.3.acquire").Call, b.op("set.3.commit").Return)}
			b.op("set.3.commit").Tokens = tokens("set", 2)
		}, nil},
		{"everything, lost with the data", func(b *book) {
			b.Faults = []history.Fault{lose(history.LosesData, b.now+1, b.now+2)}
			b.Final = nil
		}, nil},
		{"everything, and it was not read", func(b *book) { b.Final, b.FinalRead = nil, false }, nil},
		{"an element of after", func(b *book) {
			at := b.op("set.2.acquire").Call
			b.Faults = []history.Fault{lose(history.LosesData, at-2, at-1)}
			b.lose("set", "e.set.2.commit")
		}, []string{"outcomes"}},
		{"a register that went back", func(b *book) {
			at := b.op("register.3.acquire").Call
			b.Faults = []history.Fault{lose(history.LosesCommits, at-2, at-1)}
			b.op("register.3.read0").Cells = b.op("register.2.read0").Cells
			b.op("register.3.commit").Cells = b.op("register.2.read0").Cells
			b.op("register.3.commit").Writes[0] = history.Write{Kind: "put", Resource: "register", Key: "value", Value: "2 register.3.commit", Version: 3}
			*b.last("register", "value") = history.Cell{Resource: "register", Key: "value", Value: "2 register.3.commit", Version: 3}
		}, nil},
		{"a register that nobody wrote", func(b *book) {
			at := b.op("register.3.acquire").Call
			b.Faults = []history.Fault{lose(history.LosesCommits, at-2, at-1)}
			b.op("register.3.read0").Cells[0].Value = "9 nobody"
		}, []string{"outcomes"}},
		{"a register that went back again", func(b *book) {
			at := b.op("register.2.acquire").Call
			b.Faults = []history.Fault{lose(history.LosesCommits, at-2, at-1)}
			b.op("register.3.read0").Cells = b.op("register.2.read0").Cells
		}, []string{"linearizable"}},
		{"unknown, and not there", func(b *book) {
			b.op("set.2.commit").Outcome = "unknown"
			b.lose("set", "e.set.2.commit")
		}, nil},
		{"unknown, and there", func(b *book) {
			b.op("set.2.commit").Return, b.op("set.2.commit").Outcome = 0, ""
			b.op("register.2.commit").Outcome = "unknown"
		}, nil},
		{"not served again, and the run ended", func(b *book) {
			f := lose("", b.now, b.Ended)
			f.Recovered = 0
			b.Faults = []history.Fault{f}
			b.Ended += 14_000 * ms
		}, nil},
		{"not served again, and the run was cut short", func(b *book) {
			f := lose("", b.now, b.Ended)
			f.Recovered, f.Cut = 0, true
			b.Faults = []history.Fault{f}
			b.Ended += 16_000 * ms
		}, nil},
		{"served again within 30 s", func(b *book) {
			f := lose("", b.now, b.Ended)
			f.Recovered = b.Ended + 30_000*ms
			b.Faults = []history.Fault{f}
			b.Ended += 31_000 * ms
		}, nil},
		{"not served again, and the fault was void", func(b *book) {
			f := lose("", b.now, b.Ended)
			f.Recovered, f.Void = 0, "no"
			b.Faults = []history.Fault{f}
			b.Ended += 16_000 * ms
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := good()
			tc.change(b)
			res := check.Check(&b.History, nil)
			want := make(map[string]bool)
			for _, c := range tc.checks {
				want[c] = true
			}
			got := make(map[string]bool)
			for _, v := range res.Violations {
				got[v.Check] = true
			}
			for _, c := range tc.checks {
				if !got[c] {
					t.Errorf("want %s: %s", c, texts(res))
				}
			}
			if len(tc.checks) == 0 && len(got) > 0 {
				t.Errorf("want nothing: %s", texts(res))
			}
		})
	}
}

// TestFigures: what is counted besides.
func TestFigures(t *testing.T) {
	t.Parallel()
	b := good()
	b.op("set.1.release").Tokens[0].Grant = "another"      // so set.2 takes over
	b.op("register.1.release").Tokens[0].Grant = "another" // and register.2, from a process that stands still
	at := b.op("register.2.acquire").Return
	b.Faults = []history.Fault{
		{Name: "pause", From: at - ms, Injected: at - ms, Heal: at, To: at + ms, Recovered: at + 4*ms, Paused: []int{1}},
		{Name: "forget", From: 1, To: 2, Recovered: 3 + 5*ms, Loses: []history.Loss{history.LosesLocks}},
	}
	stale := history.Op{ID: "s1", Kind: history.Commit, Workload: "set", Group: "set", Outcome: "refused", Reason: "superseded"}
	b.add(stale)
	stale.ID, stale.Forged = "s2", true
	b.add(stale)
	stale.ID, stale.Forged, stale.Reason = "s3", false, "held"
	b.add(stale)
	stale.ID, stale.Outcome = "s4", "failed"
	b.add(stale)
	b.op("coupon.1.commit").Outcome = "unknown" // and asked again
	again := *b.op("coupon.1.commit")
	again.ID, again.Outcome, again.Replayed = "again", "applied", true
	again.Call, again.Return = again.Return+1, again.Return+2
	b.Ops = append(b.Ops, again)
	b.op("coupon.3.commit").Return, b.op("coupon.3.commit").Outcome = 0, ""
	res := check.Check(&b.History, nil)
	if len(res.Violations) > 0 {
		t.Errorf("violations: %s", texts(res))
	}
	f := res.Figures
	got := []int{f.Ops - f.Applied, f.Refused, f.Failed, f.Unknown, f.Takeovers, f.PausedTakeovers, f.StaleRefused, f.ForgedRefused, f.Ambiguous, f.Resolved}
	want := []int{6, 3, 1, 2, 2, 1, 1, 1, 2, 1}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("figure %d of %v, want %v", i, got, want)
		}
	}
	if len(f.Recoveries) != 2 || f.Recoveries[0] != 3*time.Millisecond {
		t.Errorf("recoveries: %v", f.Recoveries)
	}
}

// TestTakeovers: a lease that takes over two resources of another is one takeover, a lease that was left on
// purpose was not taken over because its holder stood still, and only a newer token supersedes.
func TestTakeovers(t *testing.T) {
	t.Parallel()
	for _, left := range []bool{false, true} {
		b := good()
		b.op("bank.1.release").Tokens = nil
		b.op("bank.1.acquire").Left = left
		at := b.op("bank.2.acquire").Return
		b.Faults = []history.Fault{
			{Name: "pause", From: at - ms, Injected: at - ms, Heal: at, To: at + ms, Recovered: at + 4*ms, Paused: []int{1}},
			{Name: "forget", From: 1, To: 2, Recovered: 3, Loses: []history.Loss{history.LosesLocks}},
		}
		for _, reason := range []string{"superseded", "duplicate", "retired", "ungranted", "grant-required"} {
			b.add(history.Op{ID: reason, Kind: history.Commit, Workload: "set", Group: "set", Outcome: "refused", Reason: reason})
		}
		want := [4]int{1, 1, 3, 2}
		if left {
			want[1] = 0
		}
		f := check.Check(&b.History, nil).Figures
		if got := [4]int{f.Takeovers, f.PausedTakeovers, f.StaleRefused, f.SupersededRefused}; got != want {
			t.Errorf("left %t: got %v, want %v", left, got, want)
		}
		if got := watch(&b.History).Figures(); got.Takeovers != 1 || got.SupersededRefused != 2 {
			t.Errorf("left %t: live got %+v", left, got)
		}
	}
}

// TestUndecided: what could not be decided in time is counted, and is no violation.
func TestUndecided(t *testing.T) {
	t.Parallel()
	h, _ := simulate(plan{seed: 1, work: []string{"register"}, groups: 1})
	res := check.Check(h, &check.Options{Undecided: 1})
	if res.Undecided != 1 || res.Searched != 0 || res.Histories != 1 || len(res.Violations) > 0 {
		t.Errorf("undecided %d: %s", res.Undecided, texts(res))
	}
}

// TestOrderOfLines: Check does not depend on the order in which ops are listed.
func TestOrderOfLines(t *testing.T) {
	t.Parallel()
	h, _ := simulate(plan{seed: 2, fault: "pause"})
	want := check.Check(h, nil)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(h.Ops), func(i, j int) { h.Ops[i], h.Ops[j] = h.Ops[j], h.Ops[i] })
	got := check.Check(h, nil)
	if len(got.Violations) > 0 || got.Takeovers != want.Takeovers || got.Histories != want.Histories {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
