package check_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
)

// seats are the lines of clients about one lock, in milliseconds.
type seats []history.Op

func (s *seats) granted(n, ret, until int64) {
	*s = append(*s, history.Op{ID: fmt.Sprintf("acquire %d", n), Kind: history.Acquire, Group: "set", Tokens: tokens("set", n), Call: 1, Return: ret * ms, Until: until * ms, Outcome: "applied"})
}

// releases is the call of a release, whose answer nobody waits for.
func (s *seats) releases(n, call, until int64) {
	*s = append(*s, history.Op{ID: fmt.Sprintf("release %d", n), Kind: history.Release, Group: "set", Tokens: tokens("set", n), Call: call * ms, Until: until * ms})
}

// TestLiveTrust: who was granted a lock while another trusted its lease is found in whatever order the lines of the two come,
// and nobody else.
func TestLiveTrust(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines func(s *seats)
		want  int
	}{
		"the grant comes first":   {func(s *seats) { s.granted(1, 10, 100); s.granted(2, 40, 140); s.releases(1, 50, 50) }, 1},
		"the release comes first": {func(s *seats) { s.granted(1, 10, 100); s.releases(1, 50, 50); s.granted(2, 40, 140) }, 1},
		"trusted until the grant": {func(s *seats) { s.granted(1, 10, 100); s.granted(2, 40, 140); s.releases(1, 50, 40) }, 0},
		"released before":         {func(s *seats) { s.granted(1, 10, 100); s.releases(1, 30, 100); s.granted(2, 40, 140) }, 0},
		"answered too late":       {func(s *seats) { s.granted(1, 10, 100); s.granted(2, 40, 39); s.releases(1, 50, 50) }, 0},
		"its holder has died":     {func(s *seats) { s.granted(1, 10, 100); s.granted(2, 40, 140); s.releases(2, 50, 50) }, 0},
		"released again": {func(s *seats) {
			s.granted(1, 10, 100)
			s.releases(1, 30, 30)
			s.granted(2, 40, 140)
			s.releases(1, 60, 60)
		}, 0},
		"each while the other trusts": {func(s *seats) {
			s.granted(1, 10, 100)
			s.granted(2, 20, 120)
			s.granted(3, 30, 130)
			s.releases(1, 50, 50)
			s.releases(2, 60, 60)
		}, 3},
		"long ago": {func(s *seats) {
			s.granted(1, 10, 1000)
			for n := range int64(64) {
				s.granted(n+2, n+11, 500)
			}
			s.releases(1, 12, 12) // one of them is found by Check alone
		}, 0},
	} {
		var s seats
		c.lines(&s)
		for _, lost := range []bool{false, true} {
			l, want := new(check.Live), c.want
			if lost {
				l.Fault(history.Fault{Name: "forget", Loses: []history.Loss{history.LosesLocks}})
				want = 0
			}
			for _, op := range s {
				l.Add(op)
			}
			if got := l.Violations(); len(got) != want {
				t.Errorf("%s, locks lost: %t: got %d violations, want %d: %+v", name, lost, len(got), want, got)
			}
			for _, v := range l.Violations() {
				if ops := slices.Compact(slices.Sorted(slices.Values(v.Ops))); len(ops) != len(v.Ops) {
					t.Errorf("%s: got the calls %q, want each of them once", name, v.Ops)
				}
			}
		}
	}
}

// TestLiveAnswers: a commit that was told applied is not refused under its key later on; what was asked before that, and what
// the door says, is another thing, and so is a store that has gone back.
func TestLiveAnswers(t *testing.T) {
	t.Parallel()
	commit := func(id string, call int64, outcome, reason string) history.Op {
		return history.Op{ID: id, Kind: history.Commit, Group: "set", Key: "k", Call: call * ms, Return: (call + 10) * ms, Outcome: outcome, Reason: reason}
	}
	told := commit("told", 10, "applied", "")
	for name, c := range map[string]struct {
		then []history.Op
		lost history.Loss
		want int
	}{
		"the fence":            {[]history.Op{commit("again", 30, "refused", "superseded")}, "", 1},
		"the data":             {[]history.Op{commit("again", 30, "refused", "below-minimum")}, "", 1},
		"later, too":           {[]history.Op{commit("same", 30, "applied", ""), commit("again", 50, "refused", "superseded")}, "", 1},
		"locks were lost":      {[]history.Op{commit("again", 30, "refused", "superseded")}, history.LosesLocks, 1},
		"asked before":         {[]history.Op{commit("again", 15, "refused", "superseded")}, "", 0},
		"no grant":             {[]history.Op{commit("again", 30, "refused", "grant-required")}, "", 0},
		"it is not known":      {[]history.Op{commit("again", 30, "unknown", "")}, "", 0},
		"data was lost":        {[]history.Op{commit("again", 30, "refused", "superseded")}, history.LosesData, 0},
		"some data was lost":   {[]history.Op{commit("again", 30, "refused", "superseded")}, history.LosesCommits, 0},
		"another one's, or so": {[]history.Op{{ID: "other", Kind: history.Commit, Group: "bank", Key: "k", Call: 30 * ms, Return: 40 * ms, Outcome: "refused", Reason: "superseded"}}, "", 0},
	} {
		l := new(check.Live)
		l.Add(told)
		if c.lost != "" {
			l.Fault(history.Fault{Name: "loses", Loses: []history.Loss{c.lost}})
		}
		for _, op := range c.then {
			op.Replayed = op.Outcome == "applied"
			l.Add(op)
		}
		if got := l.Violations(); len(got) != c.want {
			t.Errorf("%s: got %d violations, want %d: %+v", name, len(got), c.want, got)
		}
	}
}
